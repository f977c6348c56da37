"""Whose process it is that uses a device without having attached."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_vgpu.agent.claims import digest
from jupyter_vgpu.agent.origin import (
    Ancestor,
    Claimant,
    Facts,
    ancestors_of,
    cgroup_of,
    origin_of,
    read_facts,
    real_uid,
)

AGENT_UID, AGENT_CGROUP = 0, "/system.slice/agent.service"
ALICE = Claimant("a", 1001, digest("alice's"), frozenset({100, 101}), frozenset({"/user.slice/alice"}))
BOB = Claimant("b", 1002, digest("bob's"), frozenset({200}), frozenset({"/user.slice/bob"}))
BOBS_OTHER = Claimant("c", 1002, digest("bob's other"), frozenset({300}), frozenset({"/user.slice/bob"}))


def process(uid: int = 5000, cgroup: str = "", line: tuple[tuple[int, str], ...] = ((7, ""),)) -> Facts:
    """Return a process; `line` is itself, its parent and so on, each with a secret in its environment or none."""
    ancestors = tuple(Ancestor(pid, frozenset({digest(secret)} if secret else ())) for pid, secret in line)
    return Facts(line[0][0], 1, uid, "python", cgroup, ancestors)


@pytest.mark.parametrize(
    ("facts", "claim_id", "why"),
    [
        pytest.param(process(line=((7, "alice's"),)), "a", "it carries the slice's secret", id="its own secret"),
        pytest.param(
            process(line=((7, ""), (6, ""), (5, "bob's"))),
            "b",
            "it descends from process 5, with",
            id="a parent's secret",
        ),
        pytest.param(process(line=((7, "someone's"),)), None, "uid 5000", id="a secret of no claim says nothing"),
        pytest.param(process(line=((7, ""), (101, ""))), "a", "it descends from process 101", id="an attached parent"),
        pytest.param(
            process(line=((7, ""), (200, ""), (100, ""))),
            "b",
            "it descends from process 200",
            id="the nearest one counts",
        ),
        pytest.param(process(cgroup="/user.slice/alice"), "a", "control group", id="a claim's control group"),
        pytest.param(process(cgroup="/user.slice/bob"), None, "uid", id="a control group of two claims says nothing"),
        pytest.param(process(cgroup=AGENT_CGROUP), None, "uid", id="the agent's own control group says nothing"),
        pytest.param(process(uid=1001), "a", "it belongs to the slice's user", id="the only claim of its user"),
        pytest.param(process(uid=1002), None, "who has 2 slices", id="a user of two claims"),
        pytest.param(process(uid=AGENT_UID), None, "uid 0", id="the agent's own user says nothing"),
        pytest.param(process(), None, "it belongs to uid 5000", id="a stranger"),
    ],
)
def test_a_process_is_known_by(facts: Facts, claim_id: str | None, why: str) -> None:
    # One claim lives in the agent's control group, as in a demo.
    demo = Claimant("d", AGENT_UID, digest("demo's"), frozenset({400}), frozenset({AGENT_CGROUP}))

    origin = origin_of(facts, [ALICE, BOB, BOBS_OTHER, demo], AGENT_UID, AGENT_CGROUP)

    assert origin.claim_id == claim_id
    assert why in origin.why


def test_a_living_process_is_read() -> None:
    library = Path(sys.executable).resolve()
    child = subprocess.Popen(
        [sys.executable, "-c", "input('up\\n')"],
        env={"JUPYTER_VGPU_SECRET": "alice's"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"

        facts = read_facts(child.pid, library)

        assert facts is not None
        assert (facts.pid, facts.uid) == (child.pid, os.getuid())
        assert facts.line[0] == Ancestor(child.pid, frozenset({digest("alice's")}))
        assert facts.line[1].pid == os.getpid()
        assert real_uid(child.pid) == os.getuid()
        assert ancestors_of(child.pid)[0] == os.getpid()
        assert cgroup_of(child.pid) == cgroup_of(os.getpid())
        assert facts.has_library is True
    finally:
        child.communicate("\n")


def test_a_dead_process_is_nobody() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    as_a_zombie = read_facts(child.pid, Path("/nowhere"))
    child.wait()

    assert as_a_zombie is None
    assert read_facts(child.pid, Path("/nowhere")) is None
