"""An admin's one line: on whatever spawner there is, and never half done."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner
from traitlets.config import Config

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.hub import (
    LocalInjector,
    VGPUHub,
    VGPULocalProcessSpawner,
    VGPUSimpleLocalProcessSpawner,
    VGPUSpawnerMixin,
    setup,
    with_vgpu,
)
from jupyter_vgpu.model import Edits


class Sudo(LocalProcessSpawner):  # type: ignore[misc]
    """A spawner of local processes that an admin wrote."""


class Elsewhere(Spawner):  # type: ignore[misc]
    """A spawner whose servers are who knows where."""

    async def start(self) -> None: ...
    async def stop(self, now: bool = False) -> None: ...
    async def poll(self) -> int | None: ...


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, VGPULocalProcessSpawner, id="JupyterHub's default"),
        pytest.param("simple", VGPUSimpleLocalProcessSpawner, id="an entry point"),
        pytest.param("Simple", VGPUSimpleLocalProcessSpawner, id="an entry point in another case"),
        pytest.param("jupyterhub.spawner.LocalProcessSpawner", VGPULocalProcessSpawner, id="a name with dots"),
        pytest.param(SimpleLocalProcessSpawner, VGPUSimpleLocalProcessSpawner, id="a class"),
        pytest.param(VGPUSimpleLocalProcessSpawner, VGPUSimpleLocalProcessSpawner, id="one of ours already"),
        pytest.param("vgpu-local", VGPULocalProcessSpawner, id="our entry point"),
        pytest.param("vgpu-simple", VGPUSimpleLocalProcessSpawner, id="our other entry point"),
    ],
)
def test_the_spawner_that_was_set_is_wrapped(given: object, expected: type) -> None:
    c = Config()
    if given is not None:
        c.JupyterHub.spawner_class = given

    setup(c)

    assert c.JupyterHub.spawner_class is expected


def test_an_admins_own_class_keeps_its_name_in_the_configuration() -> None:
    wrapped = with_vgpu(Sudo)

    assert issubclass(wrapped, Sudo)
    assert wrapped.__mro__[1] is VGPUSpawnerMixin
    assert "Sudo" in [section.__name__ for section in wrapped.__mro__]
    assert with_vgpu(wrapped) is wrapped


def test_setup_says_what_it_did_and_what_it_kept(capsys: pytest.CaptureFixture[str]) -> None:
    c = Config()
    c.JupyterHub.spawner_class = "simple"
    c.Spawner.pre_spawn_hook = lambda spawner: None
    c.SimpleLocalProcessSpawner.options_form = "<input>"

    setup(c, profiles={"half": {"share": "1/2"}}, agent="/run/there")

    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert "SimpleLocalProcessSpawner" in said[0]
    assert "half (default)" in said[1]
    assert "/run/there" in said[1]
    assert "options_form, pre_spawn_hook" in said[-1]
    assert c.VGPUHub.agent == "/run/there"


def test_what_was_configured_before_is_not_overwritten() -> None:
    c = Config()
    c.VGPUHub.profiles = {"half": {"share": "1/2"}}

    setup(c)

    assert c.VGPUHub.profiles == {"half": {"share": "1/2"}}


def test_profiles_may_be_added_to_the_built_in_ones() -> None:
    c = Config()
    c.VGPUHub.profiles.update({"tiny": {"memory": "512MiB"}})

    setup(c)

    names = [profile.name for profile in VGPUHub.read(c).offered]
    assert names[0] == "1/8 GPU"
    assert names[-1] == "tiny"


def refused(c: Config, **settings: Any) -> str:
    with pytest.raises(SystemExit) as exit_:
        setup(c, **settings)
    message = exit_.value.code
    assert isinstance(message, str)  # which makes the exit status 1
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("entry", "key", "value"),
    [
        pytest.param({"memory": "8GiBB"}, "memory", "'8GiBB'", id="a unit that is none"),
        pytest.param({"memory": "8"}, "memory", "'8'", id="no unit"),
        pytest.param({"share": 0}, "share", "0", id="share 0"),
        pytest.param({"share": 1.5}, "share", "1.5", id="share 1.5"),
        pytest.param({"share": math.nan}, "share", "nan", id="share NaN"),
        pytest.param({"share": "0,5"}, "share", "'0,5'", id="a comma"),
        pytest.param({"share": True}, "share", "True", id="a truth"),
        pytest.param({"share": "1/4", "mem": "8GiB"}, "mem", "'8GiB'", id="an unknown key"),
        pytest.param({"share": "1/2", "ceiling": "1/4"}, "ceiling", "'1/4'", id="a ceiling below the share"),
        pytest.param({"share": "1/2", "devices": 0}, "devices", "0", id="no devices"),
        pytest.param({}, "'bad'", "{}", id="nothing at all"),
        pytest.param("1/4", "'bad'", "'1/4'", id="no mapping"),
    ],
)
def test_a_bad_profile_ends_the_start_with_one_line(entry: object, key: str, value: str) -> None:
    message = refused(Config(), profiles={"good": {"share": 1}, "bad": entry})

    assert "VGPUHub.profiles['bad']" in message
    assert key in message
    assert f"{value} is not allowed; " in message


def test_two_defaults_end_the_start() -> None:
    profiles = {"a": {"share": 1, "default": True}, "b": {"share": 1, "default": True}}

    assert "only one default is, and 'a' is one" in refused(Config(), profiles=profiles)


@pytest.mark.parametrize("profiles", [{}, [], "1/4"], ids=["none", "a list", "a text"])
def test_profiles_that_are_no_mapping_end_the_start(profiles: Any) -> None:
    assert "VGPUHub.profiles" in refused(Config(), profiles=profiles)


def test_a_misspelt_setting_ends_the_start() -> None:
    c = Config()
    c.VGPUHub.profile = {"half": {"share": "1/2"}}

    assert "is not allowed; only the settings agent, " in refused(c).partition("VGPUHub.profile:")[2]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("VGPUhub", "c: 'VGPUhub' is not allowed; of names like it only the sections VGPUHub, "),
        ("VGPUSpawner", "c: 'VGPUSpawner' is not allowed; "),
        ("VGPUSpawnerMixin", "VGPUSpawnerMixin.quotas: {} is not allowed; only the settings "),
        ("VGPULocalProcessSpawner", "VGPULocalProcessSpawner.quotas: {} is not allowed; only the settings "),
    ],
)
def test_settings_in_a_section_that_nobody_reads_end_the_start(section: str, said: str) -> None:
    c = Config()
    c[section].quotas = {}

    assert said in refused(c)


def test_sections_of_our_spawners_and_of_others_are_let_pass() -> None:
    c = Config()
    c.VGPULocalProcessSpawner.poll_interval = 5
    c.KubeSpawner.image = "x"
    c.SomebodysHub.profiles = {}

    setup(c)

    assert c.VGPULocalProcessSpawner.poll_interval == 5


def test_a_url_is_no_runtime_directory() -> None:
    assert "VGPUHub.agent: 'https://gpu1' is not allowed; a directory is" in refused(Config(), agent="https://gpu1")


def test_a_setting_of_the_wrong_type_ends_the_start() -> None:
    c = Config()
    c.VGPUHub.reconcile_interval_seconds = 0

    assert "VGPUHub.reconcile_interval_seconds: 0 is not allowed; " in refused(c)


@pytest.mark.parametrize("given", ["no-such-spawner", "jupyterhub.spawner.Nope", 7], ids=repr)
def test_a_spawner_that_is_none_ends_the_start(given: object) -> None:
    c = Config()
    c.JupyterHub.spawner_class = given

    assert f"JupyterHub.spawner_class: {given!r} is not allowed" in refused(c)


def test_a_spawner_of_unknown_platform_is_refused_since_its_servers_would_have_no_limit() -> None:
    with pytest.raises(BadValueError, match="Elsewhere"):
        with_vgpu(Elsewhere)


def test_a_spawner_of_unknown_platform_is_taken_at_its_admins_word() -> None:
    assert issubclass(with_vgpu(Elsewhere, injector=LocalInjector()), VGPUSpawnerMixin)


def test_edits_are_merged_with_what_the_environment_has() -> None:
    edits = Edits(env={"JUPYTER_VGPU_SECRET": "s"}, preload=["/ours.so"], library_path=["/sim"])

    environment = LocalInjector().environment(
        edits, {"LD_PRELOAD": "/their.so", "LD_LIBRARY_PATH": "/lib:/opt", "LANG": "C"}
    )

    assert environment == {
        "JUPYTER_VGPU_SECRET": "s",
        "LD_PRELOAD": "/ours.so:/their.so",
        "LD_LIBRARY_PATH": "/sim:/lib:/opt",
        "LANG": "C",
    }


def test_a_library_that_the_loader_could_not_find_is_refused() -> None:
    with pytest.raises(BadValueError, match="LD_PRELOAD"):
        LocalInjector().environment(Edits(preload=["/my home/ours.so"]), {})


BAD = 'c.VGPUHub.profiles = {"1/4 GPU": {"memory": "8GiBB"}}\n'


# What is wrong with a hub's configuration, and how the line that says so begins.
WRONG = {
    "a bad profile, by entry point": (
        f'{BAD}c.JupyterHub.spawner_class = "vgpu-simple"\n',
        "jupyter_vgpu: VGPUHub.profiles['1/4 GPU'].memory: '8GiBB' is not allowed; a size",
    ),
    "a bad profile, by setup": (
        f"{BAD}import jupyter_vgpu.hub; jupyter_vgpu.hub.setup(c)\n",
        "jupyter_vgpu: VGPUHub.profiles['1/4 GPU'].memory: '8GiBB' is not allowed; a size",
    ),
    "another spawner set afterwards": (
        'import jupyter_vgpu.hub\njupyter_vgpu.hub.setup(c)\nc.JupyterHub.spawner_class = "simple"\n',
        "jupyter_vgpu: JupyterHub.spawner_class: 'SimpleLocalProcessSpawner' is not allowed; a vGPU spawner is",
    ),
    "a ledger that cannot be opened": (
        'c.JupyterHub.spawner_class = "vgpu-simple"\nc.VGPUHub.ledger_url = "sqlite:////no/such/folder/x"\n',
        "jupyter_vgpu: the ledger at sqlite:////no/such/folder/x cannot be used",
    ),
}
# Starts a hub in each folder, one after the other, and says how each ended. All are children of one process: what
# JupyterHub imports takes seconds of a core.
STARTS = """
import os, sys
import jupyterhub.app
folders, sys.argv[1:] = sys.argv[1:], []
for folder in folders:
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT), 2)
        jupyterhub.app.main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Return exit code and what was said, of a hub that was started with each wrong configuration."""
    folders = {name: tmp_path_factory.mktemp("hub") for name in WRONG}
    for name, (lines, _expected) in WRONG.items():
        (folders[name] / "jupyterhub_config.py").write_text(
            f'{lines}c.JupyterHub.db_url = "sqlite://"\nc.JupyterHub.cookie_secret = b"{"x" * 32}"\n'
            'c.JupyterHub.bind_url = "http://127.0.0.1:1"\nc.JupyterHub.authenticator_class = "dummy"\n'
        )

    done = subprocess.run(
        [sys.executable, "-c", STARTS, *folders.values()], stdout=subprocess.PIPE, text=True, timeout=480, check=True
    )

    codes = map(int, done.stdout.split())
    return {name: (code, (folders[name] / "said").read_text()) for name, code in zip(WRONG, codes, strict=True)}


@pytest.mark.parametrize("name", WRONG)
def test_the_hub_refuses_to_start_with_one_line(refusals: dict[str, tuple[int, str]], name: str) -> None:
    code, said = refusals[name]

    assert code == 1, said
    assert [line for line in said.splitlines() if line.startswith(WRONG[name][1])], said
    assert "Traceback" not in said
    assert "never retrieved" not in said
