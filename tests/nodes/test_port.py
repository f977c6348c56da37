"""An agent asked over a port: what it is to who has its certificate's authority and its token, and to nobody else."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.agent.listening import ListenOptions, open_port
from jupyter_vgpu.client import HubClient
from jupyter_vgpu.client.endpoints import parse_endpoint
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import AgentUnreachableError, BadValueError, NotAuthorizedError
from jupyter_vgpu.model import ClaimRequest

(QUARTER,) = parse_profiles({"1/4 GPU": {"share": "1/4"}})


def request() -> ClaimRequest:
    return ClaimRequest("ada", "a hub", os.getuid(), QUARTER)


def test_a_hub_with_the_token_claims_and_gives_back_over_tls(tls_agent: Any, authority: Any) -> None:
    client = tls_agent.client_at(ca_file=str(authority.file))

    granted = client.create_claim(request())
    held = client.claims()
    usage = client.usage(granted.claim["claim"])
    client.release_claim(granted.claim["claim"])

    assert [claim["claim"] for claim in held] == [granted.claim["claim"]]
    assert usage["claim"] == granted.claim["claim"]
    assert granted.edits.env["JUPYTER_VGPU_SOCKET"] == str(tls_agent.runtime_dir / "attach.sock")
    assert tls_agent.claims() == []


def test_a_wrong_token_is_refused_though_it_comes_from_the_agents_own_user(tls_agent: Any, authority: Any) -> None:
    endpoint = parse_endpoint(tls_agent.at(ca_file=str(authority.file)), "agent")

    for token in ("", "0" * 64, tls_agent.token[:-1]):
        with pytest.raises(NotAuthorizedError, match="not the token of this agent"):
            HubClient(endpoint, token, timeout_seconds=60).devices()


def test_a_certificate_by_somebody_else_is_refused_by_the_hub(tls_agent: Any) -> None:
    with pytest.raises(AgentUnreachableError, match=r"certificate of the node agent at https://.* is not accepted"):
        tls_agent.client_at().devices()


def test_a_certificate_for_another_name_is_refused_by_the_hub(tls_agent: Any, authority: Any) -> None:
    elsewhere = tls_agent.url.replace("127.0.0.1", "localhost")

    with pytest.raises(AgentUnreachableError, match=r"is not accepted \(.*localhost"):
        tls_agent.client_at(url=elsewhere, ca_file=str(authority.file)).devices()


def test_an_agent_that_speaks_tls_says_nothing_in_the_clear(tls_agent: Any) -> None:
    with pytest.raises(AgentUnreachableError, match="no node agent answers"):
        tls_agent.client_at(url=tls_agent.url.replace("https", "http")).devices()


def test_a_claim_for_as_long_as_a_process_lives_is_for_processes_that_the_agent_sees(
    tls_agent: Any, authority: Any
) -> None:
    with pytest.raises(BadValueError, match="while_peer_lives"):
        tls_agent.client_at(ca_file=str(authority.file)).create_claim(request(), while_this_process_lives=True)


def test_connections_that_say_nothing_keep_no_hub_out_that_comes_from_the_same_host(
    tls_agent: Any, authority: Any
) -> None:
    port = int(tls_agent.url.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(80)]
        devices = tls_agent.client_at(ca_file=str(authority.file)).devices()
        ended = silent[0].recv(1)

    assert devices
    assert ended == b""


def test_an_agent_that_asks_for_certificates_refuses_hubs_without(agents_with: Any, authority: Any) -> None:
    certificate, key = authority.sign("127.0.0.1")
    hub_certificate, hub_key = authority.sign("the-hub")
    options = ("--certificate", str(certificate), "--key", str(key), "--client-ca", str(authority.file))
    with agents_with(*options) as agent:
        shown = {"certificate": str(hub_certificate), "key": str(hub_key)}
        devices = agent.client_at(ca_file=str(authority.file), **shown).devices()
        with pytest.raises(AgentUnreachableError) as refused:
            agent.client_at(ca_file=str(authority.file)).devices()

        url = agent.url

    assert devices
    assert url in str(refused.value)


def test_plain_http_is_spoken_on_the_loopback_interface(agents_with: Any) -> None:
    with agents_with() as agent:
        assert agent.url.startswith("http://127.0.0.1:")
        assert agent.client_at().devices()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--listen", "0.0.0.0:0"], "without TLS only the loopback", id="plain HTTP for everyone"),
        pytest.param(["--listen", "[::]:0"], "without TLS only the loopback", id="plain HTTP for everyone, version 6"),
        pytest.param(["--listen", "8443"], "HOST:PORT is", id="no host"),
        pytest.param(["--listen", "127.0.0.1:99999"], "HOST:PORT is", id="no such port"),
        pytest.param(
            ["--listen", "192.0.2.1:0", "--certificate", "C", "--key", "K"], "--listen", id="another's address"
        ),
        pytest.param(["--listen", "127.0.0.1:0", "--certificate", "C"], "--key: nothing was given", id="no key"),
        pytest.param(
            ["--listen", "127.0.0.1:0", "--key", "K"], "--certificate: nothing was given", id="no certificate"
        ),
        pytest.param(["--listen", "127.0.0.1:0", "--certificate", "K", "--key", "C"], "PEM files", id="swapped files"),
        pytest.param(
            ["--listen", "127.0.0.1:0", "--certificate", "C", "--key", "other"], "PEM files", id="another's key"
        ),
        pytest.param(
            ["--listen", "127.0.0.1:0", "--certificate", "C", "--key", "locked"], "without a password", id="locked key"
        ),
        pytest.param(["--listen", "127.0.0.1:0", "--client-ca", "C"], "--client-ca", id="authority without TLS"),
        pytest.param(
            ["--certificate", "C", "--key", "K"], "only together with --listen", id="certificate without port"
        ),
        pytest.param(["--listen", "127.0.0.1:0", "--token-file", "short"], "at least 32", id="a token one could guess"),
        pytest.param(["--listen", "127.0.0.1:0", "--token-file", "open"], "chmod o=", id="a token that all can read"),
        pytest.param(["--listen", "127.0.0.1:0", "--token-file", "gone"], "--token-file", id="no token"),
    ],
)
def test_a_port_that_cannot_be_had_is_refused_in_a_line_that_says_why(
    options: list[str], said: str, authority: Any, tmp_path: Path
) -> None:
    _, other = authority.sign("another")
    certificate, key = authority.sign("127.0.0.1")
    for name, content in (("short", "0" * 31), ("open", "0" * 64)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o644 if name == "open" else 0o600)
    _lock(key, tmp_path / "locked")
    files = {"C": certificate, "K": key, "other": other}
    files.update({name: tmp_path / name for name in ("short", "open", "gone", "locked")})

    names = {"--listen": "address"}
    given = dict(zip(options[::2], options[1::2], strict=True))
    chosen = {
        names.get(option, option[2:].replace("-", "_")): files.get(value, value) for option, value in given.items()
    }

    with pytest.raises(BadValueError) as refused:
        open_port(ListenOptions(**chosen))  # type: ignore[arg-type]

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_agent_that_cannot_have_its_port_says_so_in_a_line_and_leaves_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "jupyter_vgpu.cli", "agent", "--simulate", "a100-40"),
            *("--runtime-dir", str(tmp_path / "run"), "--listen", "0.0.0.0:0"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 2
    assert "without TLS only the loopback" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def _lock(key: Path, locked: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        pytest.param("unix://run/agent", "unix:///run/jupyter-vgpu", id="a host where there is none"),
        pytest.param("/run/jupyter-vgpu", "unix:///run/jupyter-vgpu", id="no scheme"),
        pytest.param("ftp://gpu1:8443", "https://HOST:PORT", id="another scheme"),
        pytest.param("https://gpu1", "https://HOST:PORT", id="no port"),
        pytest.param("https://gpu1:0x50", "https://HOST:PORT", id="no number"),
        pytest.param("https://gpu1:8443/v1", "https://HOST:PORT", id="a path"),
        pytest.param("https://me:secret@gpu1:8443", "https://HOST:PORT", id="a password"),
        pytest.param("https://gpu1:8443\n", "https://HOST:PORT", id="a newline"),
        pytest.param("https://gpu1:8443", "token_file", id="no token"),
        pytest.param({"url": "http://192.0.2.1:80", "token_file": "T"}, "in the clear", id="plain HTTP over a network"),
        pytest.param({"url": "https://gpu1:8443", "token_file": "gone"}, "token_file", id="a token that is not there"),
        pytest.param({"url": "https://gpu1:8443", "token": "T"}, "only the keys", id="an unknown key"),
        pytest.param({"url": "https://gpu1:8443", "token_file": "T", "ca_file": "T"}, "PEM", id="no certificate"),
        pytest.param(
            {"url": "https://gpu1:8443", "token_file": "T", "key": "T"}, "both a certificate", id="half a pair"
        ),
        pytest.param({"url": "unix:///run/a", "ca_file": "T"}, "only for https", id="TLS on a socket"),
        pytest.param({"url": 7}, "a text is", id="a number"),
        pytest.param(None, "a URL, or a mapping", id="nothing"),
    ],
)
def test_where_a_hub_cannot_find_an_agent_it_says_what_would_do(entry: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "T").write_text("0" * 64)
    if isinstance(entry, dict):
        entry = {key: str(tmp_path / value) if value in ("T", "gone") else value for key, value in entry.items()}

    with pytest.raises(BadValueError) as refused:
        parse_endpoint(entry, "VGPUHub.agents['gpu1']")

    assert said in str(refused.value)
    assert str(refused.value).startswith("VGPUHub.agents['gpu1']")


def test_what_a_hub_is_told_reads_the_same_when_it_is_handed_on(tls_agent: Any, authority: Any) -> None:
    endpoint = parse_endpoint(tls_agent.at(ca_file=str(authority.file)), "agent")

    assert parse_endpoint(endpoint.to_wire(), "agent") == endpoint


def test_tls_is_of_a_version_that_is_still_safe(tls_agent: Any) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(tls_agent.url.rpartition(":")[2])

    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
        context.wrap_socket(connection) as spoken,
    ):
        assert spoken.version() in ("TLSv1.2", "TLSv1.3")
