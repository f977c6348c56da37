"""A port for hubs on other nodes, beside `hub.sock`: TLS, or plain on the loopback interface only."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tornado.netutil import bind_sockets

from jupyter_vgpu.agent.runtime import BACKLOG
from jupyter_vgpu.errors import BadValueError

SHORTEST_TOKEN = 32
_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z.-]+)):([0-9]{1,5})")


@dataclass(frozen=True)
class ListenOptions:
    """What `jupyter vgpu agent` was told about its port.

    Attributes:
        address: `HOST:PORT`, an address of version 6 in brackets; port 0 = any that is free. Empty = no port.
        certificate: PEM file of the agent's certificate, with those between it and its authority behind it.
        key: PEM file of its private key, without a password.
        client_ca: PEM file of authorities; a hub must then show a certificate by one of them, besides its token.
        token_file: File with the token that hubs send; `None` = `hub.token` of the runtime directory.
    """

    address: str = ""
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    token_file: Path | None = None

    def check(self) -> None:
        """Refuse what makes no sense without a port.

        Raises:
            BadValueError: Naming the option.
        """
        for option, value in (
            ("--certificate", self.certificate),
            ("--key", self.key),
            ("--client-ca", self.client_ca),
            ("--token-file", self.token_file),
        ):
            if value is not None and not self.address:
                raise BadValueError(option, str(value), "it is only together with --listen HOST:PORT")


@dataclass(frozen=True)
class Port:
    """Listening sockets, and how to speak there.

    Attributes:
        sockets: One for each address of the host's name.
        tls: `None` = plain HTTP, on loopback addresses.
        token: What hubs must send; `None` = the one in `hub.token`.
        url: Where hubs find it.
    """

    sockets: Sequence[socket.socket]
    tls: ssl.SSLContext | None
    token: str | None
    url: str


def open_port(options: ListenOptions) -> Port | None:
    """Return the port that was asked for, listening; `None` when none was.

    Raises:
        BadValueError: It cannot be had, or would be open to eavesdroppers.
    """
    options.check()
    if not options.address:
        return None
    host, port = _host_and_port(options.address)
    tls = _tls(options)
    if tls is None:
        _refuse_plain(options.address, host, port)
    token = None if options.token_file is None else read_token(options.token_file)
    try:
        sockets = bind_sockets(port, host, backlog=BACKLOG)
    except OSError as error:
        raise BadValueError(
            "--listen", options.address, f"an address and a free port of this host are ({error})"
        ) from error
    shown = f"[{host}]" if ":" in host else host
    bound: int = sockets[0].getsockname()[1]
    return Port(sockets, tls, token, f"{'http' if tls is None else 'https'}://{shown}:{bound}")


def _host_and_port(address: str) -> tuple[str, int]:
    found = _HOST_AND_PORT.fullmatch(address)
    if found is None or int(found[3]) > 65535:
        raise BadValueError("--listen", address, 'HOST:PORT is, as "gpu1.example.org:8443" or "[::]:8443"')
    return found[1] or found[2], int(found[3])


def _refuse_plain(address: str, host: str, port: int) -> None:
    """Refuse to send tokens and secrets over a network as they are."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BadValueError("--listen", address, f"an address of this host is ({error})") from error
    if not all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found):
        raise BadValueError(
            "--listen",
            address,
            "without TLS only the loopback interface is, as 127.0.0.1:8443: add --certificate FILE and --key FILE, "
            "since tokens and secrets would pass in the clear",
        )


def _tls(options: ListenOptions) -> ssl.SSLContext | None:
    if options.certificate is None and options.key is None:
        if options.client_ca is not None:
            raise BadValueError("--client-ca", str(options.client_ca), "it is only with --certificate and --key")
        return None
    if options.certificate is None or options.key is None:
        missing = "--certificate" if options.certificate is None else "--key"
        raise BadValueError.missing(missing, "both a certificate and its key are needed")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.certificate, options.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise BadValueError(
            "--certificate, --key",
            f"{options.certificate}, {options.key}",
            f"PEM files of a certificate and of its private key, without a password, are ({error})",
        ) from error
    if options.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(options.client_ca)
        except (OSError, ValueError) as error:
            raise BadValueError(
                "--client-ca", str(options.client_ca), f"a PEM file of certificates is ({error})"
            ) from error
    return context


def _no_password() -> str:
    """Refuse; OpenSSL would ask at a terminal, and wait."""
    raise ValueError("the key has a password")


def read_token(path: Path) -> str:
    """Return the token in a file.

    Raises:
        BadValueError: The file cannot be read, or has no token that is long enough not to be guessed.
    """
    allowed = f"a file with at least {SHORTEST_TOKEN} printable characters is, as by `openssl rand -hex 32`"
    try:
        token = path.read_text(encoding="ascii").strip()
        mode = path.stat().st_mode & 0o777
    except (OSError, ValueError) as error:
        raise BadValueError("--token-file", str(path), f"{allowed} ({error})") from error
    if mode & 0o007:
        raise BadValueError(
            "--token-file", str(path), f"one that others cannot read is (its mode is {mode:04o}): chmod o= it"
        )
    if len(token) < SHORTEST_TOKEN or not all("!" <= character <= "~" for character in token):
        raise BadValueError("--token-file", str(path), allowed)
    return token
