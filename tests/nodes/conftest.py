"""Agents that hubs ask over a port, and a hub with agents on several nodes; all of it on this host."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import Authority
from harness.hubs import Agent
from jupyter_vgpu.client import HubClient
from jupyter_vgpu.client.endpoints import parse_endpoint


class PortAgent(Agent):
    """A node agent on simulated boards that listens on a port besides; `endpoint` is where."""

    def __init__(self, *options: str, boards: str = "a100-40", host: str = "127.0.0.1") -> None:
        super().__init__(boards)
        self.token = secrets.token_hex(32)
        self.token_file = self.folder / "token"
        self.token_file.write_text(self.token + "\n")
        self.token_file.chmod(0o600)
        self.options = ("--listen", f"{host}:0", "--token-file", str(self.token_file), *options)

    @property
    def url(self) -> str:
        """Where hubs may ask, as the agent says."""
        found = re.findall(r"hubs on other nodes may ask at (\S+)", self.log)
        assert found, self.log
        return str(found[-1])

    def at(self, **entry: str) -> dict[str, str]:
        """Return the entry of a hub's `agents`."""
        return {"url": self.url, "token_file": str(self.token_file), **entry}

    def client_at(self, **entry: str) -> HubClient:
        return HubClient(parse_endpoint(self.at(**entry), "agent"), timeout_seconds=60)


@contextlib.contextmanager
def a_port_agent(*options: str, **kwargs: str) -> Iterator[PortAgent]:
    with PortAgent(*options, **kwargs).running() as agent:
        yield agent


@pytest.fixture(scope="session")
def authority() -> Iterator[Authority]:
    """An authority that signs certificates."""
    folder = Path(tempfile.mkdtemp(prefix="certificates-"))
    yield Authority(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def tls_agent(authority: Authority) -> Iterator[PortAgent]:
    """An agent that speaks TLS."""
    certificate, key = authority.sign("127.0.0.1")
    with a_port_agent("--certificate", str(certificate), "--key", str(key)) as agent:
        yield agent


@pytest.fixture(scope="session")
def agents_with() -> Any:
    """Return what gives an agent with such options."""
    return a_port_agent
