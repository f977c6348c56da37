"""Agents that hubs ask over a port, and a hub with agents on several nodes; all of it on this host."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.client.endpoints import parse_endpoint

HERE = Path(__file__).parent


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"nodes_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


service = _load(HERE.parent / "service" / "conftest.py")
harness = service.harness
certificates = _load(HERE / "certificates.py")


class PortAgent(harness.Agent):  # type: ignore[misc, name-defined]
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
        found = re.findall(r"hubs on other nodes may ask at (\S+)", (self.folder / "log").read_text())
        assert found, (self.folder / "log").read_text()
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
def authority() -> Iterator[Any]:
    """An authority that signs certificates."""
    folder = Path(tempfile.mkdtemp(prefix="certificates-"))
    yield certificates.Authority(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def tls_agent(authority: Any) -> Iterator[PortAgent]:
    """An agent that speaks TLS."""
    certificate, key = authority.sign("127.0.0.1")
    with a_port_agent("--certificate", str(certificate), "--key", str(key)) as agent:
        yield agent


@pytest.fixture(scope="session")
def agents_with() -> Any:
    """Return what gives an agent with such options."""
    return a_port_agent


@pytest.fixture(scope="session", name="service")
def _service() -> ModuleType:
    """The hubs of tests/service."""
    return service


@pytest.fixture(scope="session", name="harness")
def _harness() -> ModuleType:
    """The agents and hubs of tests/hub."""
    return harness


@pytest.fixture
def wait_until() -> Any:
    """Return what returns the first true answer, within a minute."""
    return harness.wait_until
