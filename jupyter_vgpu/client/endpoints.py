"""Where an agent answers hubs: its runtime directory on this node, or a port of another."""

from __future__ import annotations

import http.client
import ipaddress
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from jupyter_vgpu.client.asking import UnixConnection
from jupyter_vgpu.errors import BadValueError, NotAuthorizedError

ENDPOINT_KEYS = ("url", "token_file", "ca_file", "certificate", "key")

_URLS = (
    '"unix:///run/jupyter-vgpu" (the runtime directory of an agent of this node) or "https://HOST:PORT" is; '
    '"http://" only on the loopback interface'
)
_NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Endpoint:
    """One agent's door for hubs.

    Attributes:
        url: As it was written.
        runtime_dir: Of an agent of this node; `None` = it is asked over its port.
        host: Name or address of the port.
        port: Its number.
        is_tls: Whether to speak TLS there.
        token_file: Where the token is that the agent asks for; `None` = `hub.token` of the runtime directory.
        ca_file: Authorities that its certificate may be by; `None` = the system's.
        certificate: What this hub shows, where the agent asks for a certificate; `None` = nothing.
        key: The private key of that.
    """

    url: str
    runtime_dir: Path | None = None
    host: str = ""
    port: int = 0
    is_tls: bool = False
    token_file: Path | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_on_this_node(self) -> bool:
        """Whether processes of this node can have its slices: what is asked over a port may be anywhere."""
        return self.runtime_dir is not None

    def __str__(self) -> str:
        """Return it for messages."""
        return self.url if self.runtime_dir is None else str(self.runtime_dir / "hub.sock")

    def connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        """Return a connection, not opened yet.

        Raises:
            BadValueError: A certificate cannot be read.
        """
        if self.runtime_dir is not None:
            return UnixConnection(self.runtime_dir / "hub.sock", timeout_seconds)
        if self.is_tls:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_seconds, context=self._context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_seconds)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return _client_context(self, f"agent {self.url}")

    def token(self) -> str:
        """Return the token to send; empty where none is known, since root and the agent's own user need none.

        Raises:
            NotAuthorizedError: There is a file for it, and it cannot be read.
        """
        if self.token_file is None:
            try:
                return "" if self.runtime_dir is None else _text_of(self.runtime_dir / "hub.token")
            except (OSError, ValueError):
                return ""
        try:
            return _text_of(self.token_file)
        except (OSError, ValueError) as error:
            raise NotAuthorizedError(f"the token for {self.url} cannot be read: {error}") from error

    def to_wire(self) -> dict[str, str]:
        """Return it as `parse_endpoint` reads it."""
        files = {name: getattr(self, name) for name in ENDPOINT_KEYS[1:]}
        return {"url": self.url, **{name: str(path) for name, path in files.items() if path is not None}}


def _text_of(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def parse_endpoints(given: Mapping[str, Any], key: str) -> dict[str, Endpoint]:
    """Return node name → endpoint.

    Args:
        given: Node name → URL, or mapping with some of the keys `ENDPOINT_KEYS`.
        key: Name of the setting, for messages.

    Raises:
        BadValueError: A name, a URL or a file is not understood, or one URL stands there twice.
    """
    found: dict[str, Endpoint] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not _NODE_NAME.fullmatch(name):
            raise BadValueError(key, name, "as names of nodes, letters, digits, dots and hyphens are")
        endpoint = parse_endpoint(value, f"{key}[{name!r}]")
        same = next((other for other in found if str(found[other]) == str(endpoint)), None)
        if same is not None:
            raise BadValueError(
                f"{key}[{name!r}]", endpoint.url, f"one agent is one node, and this is {same!r} already"
            )
        found[name] = endpoint
    return found


def parse_endpoint(given: Any, key: str) -> Endpoint:
    """Return where one agent is; its files are looked at, and nothing is asked.

    Raises:
        BadValueError: It is not understood.
    """
    written = {"url": given} if isinstance(given, str) else given
    if not isinstance(written, Mapping):
        raise BadValueError(key, given, f"a URL, or a mapping with {', '.join(ENDPOINT_KEYS)}, is")
    for name, value in written.items():
        if name not in ENDPOINT_KEYS:
            raise BadValueError(f"{key}.{name}", value, f"only the keys {', '.join(ENDPOINT_KEYS)} are")
        if not isinstance(value, str) or not value:
            raise BadValueError(f"{key}.{name}", value, "a text is")
    if "url" not in written:
        raise BadValueError(f"{key}.url", None, _URLS)
    # Its service, which has the same settings, may work in another folder.
    files = {name: Path(value).absolute() for name, value in written.items() if name != "url"}
    endpoint = _from_url(written["url"], key, files)
    _check_files(endpoint, key)
    return endpoint


def _from_url(url: str, key: str, files: Mapping[str, Path]) -> Endpoint:
    if not url.isprintable() or " " in url:
        raise BadValueError(f"{key}.url", url, _URLS)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadValueError(f"{key}.url", url, f"{_URLS} ({error})") from error
    if parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/") and not parts.query + parts.fragment:
        if refused := next((name for name in ("ca_file", "certificate", "key") if name in files), None):
            raise BadValueError(f"{key}.{refused}", str(files[refused]), "it is only for https://")
        return Endpoint(url, runtime_dir=Path(parts.path), token_file=files.get("token_file"))
    if parts.scheme not in ("https", "http") or not _is_plain_address(parts) or not parts.hostname or not port:
        raise BadValueError(f"{key}.url", url, _URLS)
    if "token_file" not in files:
        raise BadValueError(
            f"{key}.token_file",
            None,
            f"{url} needs one: the file with the token that its agent was given (--token-file)",
        )
    if parts.scheme == "http":
        if not _is_loopback(parts.hostname):
            raise BadValueError(f"{key}.url", url, f"{_URLS}, since tokens and secrets would pass in the clear")
        if refused := next((name for name in ("ca_file", "certificate", "key") if name in files), None):
            raise BadValueError(f"{key}.{refused}", str(files[refused]), "it is only for https://")
    return Endpoint(
        url,
        host=parts.hostname,
        port=port,
        is_tls=parts.scheme == "https",
        token_file=files["token_file"],
        ca_file=files.get("ca_file"),
        certificate=files.get("certificate"),
        key=files.get("key"),
    )


def _is_plain_address(parts: SplitResult) -> bool:
    return not (parts.username or parts.password or parts.path.strip("/") or parts.query or parts.fragment)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_files(endpoint: Endpoint, key: str) -> None:
    if (endpoint.certificate is None) != (endpoint.key is None):
        missing = "certificate" if endpoint.certificate is None else "key"
        raise BadValueError(f"{key}.{missing}", None, "both a certificate and its key are needed")
    if endpoint.token_file is not None:
        try:
            if not _text_of(endpoint.token_file).isprintable():
                raise ValueError("it has more than one line")
        except (OSError, ValueError) as error:
            raise BadValueError(
                f"{key}.token_file", str(endpoint.token_file), f"a readable file with a token is ({error})"
            ) from error
    if endpoint.is_tls:
        _client_context(endpoint, key)


def _client_context(endpoint: Endpoint, key: str) -> ssl.SSLContext:
    """Return how to speak TLS with an agent.

    Raises:
        BadValueError: A file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
    except (OSError, ValueError) as error:
        raise BadValueError(
            f"{key}.ca_file", str(endpoint.ca_file), f"a PEM file of certificates is ({error})"
        ) from error
    if endpoint.certificate is not None:
        try:
            context.load_cert_chain(endpoint.certificate, endpoint.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise BadValueError(
                f"{key}.certificate",
                f"{endpoint.certificate}, {endpoint.key}",
                f"PEM files of a certificate and of its private key, without a password, are ({error})",
            ) from error
    return context


def _no_password() -> str:
    """Refuse; OpenSSL would ask at a terminal, and wait."""
    raise ValueError("the key has a password")
