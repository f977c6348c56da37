"""`doctor`, `devices`, `claims`, `status`, and the help."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.drivers import without_a_driver
from jupyter_vgpu.client import HubClient
from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.model import ClaimRequest

Vgpu = Callable[..., "subprocess.CompletedProcess[str]"]

NEEDED = (
    "simulated driver library",
    "NVML and devices",
    "glibc",
    "interception library",
    "agent library",
    "sealed pages",
    "pidfd",
    "device files",
)


def test_doctor_finds_everything_that_the_simulation_needs(vgpu: Vgpu, temporary: Path) -> None:
    done = vgpu("doctor", "--simulate", "a100-80", "--json")

    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout
    assert [name for name in findings if name in NEEDED] == list(NEEDED)
    assert {findings[name]["state"] for name in NEEDED} == {"ok"}
    assert "Simulated" in findings["NVML and devices"]["found"]
    assert list(temporary.iterdir()) == []


@without_a_driver
def test_doctor_says_what_is_missing_first_with_the_fix_and_the_simulation(vgpu: Vgpu) -> None:
    done = vgpu("doctor")

    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[0].startswith("missing driver library: libcuda.so.1")
    assert "install NVIDIA's driver" in lines[1]
    assert "--simulate a100-80" in lines[1]
    assert lines[-1] == "No slice can be had here until this is there: driver library, NVML and devices."


def test_doctor_tells_a_missing_agent_as_a_note_with_the_fix(vgpu: Vgpu, tmp_path: Path) -> None:
    done = vgpu("doctor", "--simulate", "a100-80", "--agent", str(tmp_path))

    assert done.returncode == 0
    assert f"note    node agent: no node agent answers at {tmp_path}/hub.sock" in done.stdout
    assert "-> `jupyter vgpu run` brings its own; a hub needs one: `jupyter vgpu agent`" in done.stdout


def test_doctor_sees_a_running_agent(vgpu: Vgpu, system_agent: Path) -> None:
    done = vgpu("doctor", "--simulate", "a100-80", "--agent", str(system_agent), "--json")

    (agent,) = [finding for finding in json.loads(done.stdout)["findings"] if finding["name"] == "node agent"]
    assert str(system_agent) in agent["found"]


def test_doctor_misses_no_driver_where_the_agent_has_simulated_devices(vgpu: Vgpu, system_agent: Path) -> None:
    done = vgpu("doctor", "--agent", str(system_agent))

    assert done.returncode == 0, done.stdout
    assert "missing" not in done.stdout
    assert "with simulated devices" in done.stdout
    assert done.stdout.splitlines()[-1] == "Slices can be had here."


def test_doctor_refuses_an_unknown_board(vgpu: Vgpu) -> None:
    done = vgpu("doctor", "--simulate", "a1000")

    assert done.returncode == 2
    assert done.stderr.startswith("jupyter vgpu doctor: --simulate: 'a1000' is not allowed; known boards are a100-40,")
    assert done.stderr.count("\n") == 1


def test_devices_lists_what_is_free(vgpu: Vgpu, system_agent: Path) -> None:
    text = vgpu("devices", "--agent", str(system_agent))
    as_json = vgpu("devices", "--agent", str(system_agent), "--json")

    (device,) = json.loads(as_json.stdout)["devices"]
    head, row = text.stdout.splitlines()
    assert head.split()[:3] == ["#", "DEVICE", "MEMORY"]
    assert device["uuid"] in row
    assert "79.2 GiB" in row
    assert "100%" in row


def test_claims_lists_who_holds_what(vgpu: Vgpu, system_agent: Path) -> None:
    hub = HubClient(system_agent)
    profile = parse_profiles({"1/4 GPU": {"share": "1/4", "memory": "10GiB"}})[0]
    granted = hub.create_claim(ClaimRequest("alice", "the-hub", 1000, profile))

    text = vgpu("claims", "--agent", str(system_agent))
    as_json = vgpu("claims", "--agent", str(system_agent), "--json")
    hub.release_claim(granted.claim["claim"])

    assert json.loads(as_json.stdout)["claims"] == [granted.claim]
    assert "alice" in text.stdout
    assert "10.0 GiB" in text.stdout
    assert "25%" in text.stdout
    assert granted.secret not in text.stdout + as_json.stdout


def test_claims_says_so_where_there_are_none(vgpu: Vgpu, system_agent: Path) -> None:
    text = vgpu("claims", "--agent", str(system_agent))
    as_json = vgpu("claims", "--agent", str(system_agent), "--json")

    assert text.stdout == "nobody holds a slice on this node\n"
    assert json.loads(as_json.stdout) == {"claims": []}


def test_status_outside_a_slice_is_the_agents(vgpu: Vgpu, system_agent: Path) -> None:
    text = vgpu("status", "--agent", str(system_agent))
    as_json = vgpu("status", "--agent", str(system_agent), "--json")

    assert json.loads(as_json.stdout)["agent"]["simulated"] is True
    assert "(simulated)" in text.stdout


@pytest.mark.parametrize("verb", ["claims", "status", "devices"])
def test_without_the_agent_that_was_named_a_listing_says_so(vgpu: Vgpu, tmp_path: Path, verb: str) -> None:
    done = vgpu(verb, "--agent", str(tmp_path))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"jupyter vgpu {verb}: no node agent answers at {tmp_path}/hub.sock")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["run", "agent", "devices", "claims", "status", "doctor"])
def test_every_verb_explains_itself(vgpu: Vgpu, verb: str) -> None:
    overview, own = vgpu("--help"), vgpu(verb, "--help")

    assert overview.returncode == own.returncode == 0
    assert verb in overview.stdout
    assert own.stdout.startswith(f"usage: jupyter vgpu {verb}")


@pytest.mark.parametrize(
    ("arguments", "usage", "said"),
    [
        ((), "usage: jupyter vgpu ", "Show the slice this shell runs in"),
        (("fly",), "usage: jupyter vgpu ", "'fly'"),
        (("run", "--shar", "1", "--", "true"), "usage: jupyter vgpu run ", "not understood: --shar"),
        (("doctor", "me"), "usage: jupyter vgpu doctor ", "not understood: me"),
        (
            ("run", "--share", "--", "true"),
            "usage: jupyter vgpu run ",
            "--share: nothing was given; --share VALUE is, or",
        ),
        (("--versoin",), "usage: jupyter vgpu ", "not understood: --versoin"),
        (("--",), "usage: jupyter vgpu ", "Show the slice this shell runs in"),
        (("status", "--", "--json"), "usage: jupyter vgpu status ", "not understood: -- --json; only `jupyter"),
    ],
    ids=[
        "nothing",
        "no verb",
        "no option of the verb",
        "too much",
        "no value",
        "no option",
        "no verb before --",
        "a command",
    ],
)
def test_what_is_not_understood_is_exit_code_2(vgpu: Vgpu, arguments: tuple[str, ...], usage: str, said: str) -> None:
    done = vgpu(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(usage)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("--trace-seconds", "2"), "it is only together with --trace FILE"),
        (("--trace", "t.json", "--trace-seconds", "99"), "a number of seconds from 0.01 to 30 is"),
        (("--trace", "t.json", "--trace-seconds", "nan"), "a number of seconds from 0.01 to 30 is"),
    ],
    ids=["without a trace", "too long", "no number"],
)
def test_a_time_for_a_trace_that_makes_no_sense_is_refused(
    vgpu: Vgpu, tmp_path: Path, arguments: tuple[str, ...], allowed: str
) -> None:
    done = vgpu("status", *arguments, "--agent", str(tmp_path))

    assert done.returncode == 2
    assert done.stderr.startswith("jupyter vgpu status: --trace-seconds: ")
    assert done.stderr.endswith(f"{allowed}\n")


# As they are given, and as they stand in a unit where that is not the same.
IN_UNIT = {
    "--hub-user": ("hub $1", "'hub $$1'"),
    "--listen": ("gpu1:8443", "gpu1:8443"),
    "--certificate": ("/etc/a b.pem", "'/etc/a b.pem'"),
    "--key": ("/etc/100%.key", "/etc/100%%.key"),
    "--client-ca": ("ca.pem", str(Path("ca.pem").absolute())),
    "--token-file": ("/etc/hub.token", "/etc/hub.token"),
    "--simulate": ("a30", "a30"),
    "--devices": ("0,2", "0,2"),
    "--time": ("driver", "driver"),
    "--on-bypass": ("kill", "kill"),
    "--on-excess": ("kill", "kill"),
    "--log-level": ("debug", "debug"),
}
MADE_BY_SYSTEMD = {"--runtime-dir", "--state-dir"}


def test_a_unit_has_every_option_that_the_agent_was_given(vgpu: Vgpu) -> None:
    known = set(re.findall(r"^  (--[a-z-]+)", vgpu("agent", "--help").stdout, re.MULTILINE))
    assert known == {*IN_UNIT, *MADE_BY_SYSTEMD, "--print-unit"}

    done = vgpu("agent", "--print-unit", *(word for option, (given, _) in IN_UNIT.items() for word in (option, given)))

    (start,) = [line for line in done.stdout.splitlines() if line.startswith("ExecStart=")]
    assert start.partition(" agent ")[2] == " ".join(f"{option} {written}" for option, (_, written) in IN_UNIT.items())


def test_a_unit_lets_an_agent_listen_to_other_nodes_only_where_it_is_to(vgpu: Vgpu) -> None:
    alone, listening = (vgpu("agent", "--print-unit", *more).stdout.splitlines() for more in ((), ("--listen", "a:1")))

    assert {"RestrictAddressFamilies=AF_UNIX", "PrivateNetwork=yes"} <= set(alone)
    assert "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6" in listening
    assert not [line for line in listening if line.startswith("PrivateNetwork=")]


@pytest.mark.parametrize("option", sorted(MADE_BY_SYSTEMD))
def test_a_unit_in_other_directories_than_systemds_is_refused(vgpu: Vgpu, option: str) -> None:
    done = vgpu("agent", "--print-unit", option, "/srv")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"{option}: '/srv' is not allowed; none is with --print-unit" in done.stderr


def test_the_agent_prints_a_unit_that_starts_it(vgpu: Vgpu) -> None:
    done = vgpu("agent", "--print-unit")

    assert done.returncode == 0
    (start,) = [line for line in done.stdout.splitlines() if line.startswith("ExecStart=")]
    program = start.removeprefix("ExecStart=").split()[0]
    assert Path(program).exists()
    assert start.endswith(" agent")
    assert "@" not in start
