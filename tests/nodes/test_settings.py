"""What an admin writes about several nodes: understood, or refused with a line before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.spawner import SimpleLocalProcessSpawner, Spawner
from traitlets.config import Config, Configurable

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.hub import NodeInjector, VGPUHub, setup, with_vgpu


class Elsewhere(Spawner):  # type: ignore[misc]
    """A spawner whose servers are on other nodes."""

    host = ""

    async def start(self) -> None: ...
    async def stop(self, now: bool = False) -> None: ...
    async def poll(self) -> int | None: ...


def place(spawner: Any, node: str) -> None:
    spawner.host = node


class App(Configurable):
    """As much of a hub as the settings look at."""

    db_url = ""
    spawner_class: Any = None


@pytest.fixture
def far(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("0" * 64)
    return {"url": "https://192.0.2.1:8443", "token_file": str(tmp_path / "token")}


@pytest.fixture(autouse=True)
def no_settings_are_left() -> Iterator[None]:
    yield
    VGPUHub.clear_instance()


def started(spawner_class: Any, agents: dict[str, Any], tmp_path: Path) -> VGPUHub:
    c = Config()
    c.VGPUHub.agents = agents
    c.VGPUHub.ledger_url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    app = App(config=c)
    app.spawner_class = spawner_class
    return VGPUHub.start(app)


def test_setup_says_which_agents_there_are_and_hands_them_to_the_service(
    far: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    c = Config()
    c.JupyterHub.spawner_class = SimpleLocalProcessSpawner
    c.VGPUHub.agents = {"gpu1": "unix:///run/jupyter-vgpu", "gpu2": far}

    setup(c)

    assert "agents: gpu1 at unix:///run/jupyter-vgpu, gpu2 at https://192.0.2.1:8443" in capsys.readouterr().err
    assert "agent" not in c.VGPUHub
    assert VGPUHub.read(c).endpoints["gpu2"].to_wire() == far


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        pytest.param({"gpu 1": "unix:///run/a"}, "names of nodes", id="a name with a space"),
        pytest.param({"gpu1": "gpu1:8443"}, "VGPUHub.agents['gpu1'].url", id="no scheme"),
        pytest.param({"a": "unix:///run/a", "b": "unix:///run/a"}, "one agent is one node", id="one agent twice"),
        pytest.param("unix:///run/a", "VGPUHub.agents", id="no mapping"),
    ],
)
def test_agents_that_are_not_understood_end_the_start_with_one_line(agents: Any, said: str) -> None:
    c = Config()
    c.JupyterHub.spawner_class = SimpleLocalProcessSpawner
    c.VGPUHub.agents = agents

    with pytest.raises(SystemExit) as ended:
        setup(c)

    assert said in str(ended.value.code)
    assert "\n" not in str(ended.value.code)


def test_an_agent_of_the_only_node_and_agents_of_several_are_not_both_taken() -> None:
    c = Config()
    c.VGPUHub.agents = {"gpu1": "unix:///run/jupyter-vgpu"}

    with pytest.raises(SystemExit) as ended:
        setup(c, agent="/run/jupyter-vgpu")

    assert "not both" in str(ended.value.code)


def test_a_local_spawner_needs_an_agent_on_the_hubs_own_node(far: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match="at least one by unix://"):
        started(with_vgpu(SimpleLocalProcessSpawner), {"gpu2": far}, tmp_path)


def test_a_spawner_that_is_told_the_node_needs_none(far: dict[str, str], tmp_path: Path) -> None:
    settings = started(with_vgpu(Elsewhere, NodeInjector(place)), {"gpu2": far}, tmp_path)

    assert settings.desk.ledger.hub_name
    settings.desk.ledger.close()
