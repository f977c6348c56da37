"""Whose a process is that uses a device without having attached. Decisions are pure; `read_facts` looks into /proc."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_vgpu.agent.peers import process_name, started_ticks

_PATIENCE_SECONDS = 0.3
_MOST_ANCESTORS = 64
_MOST_READERS = 16
_READER = "jvgpu-reader"
_SECRET = b"JUPYTER_VGPU_SECRET="


@dataclass(frozen=True)
class Ancestor:
    """A process, and what tells whose it is.

    Attributes:
        pid: Of the host.
        secret_digests: SHA-256, in hex, of each claim secret in its environment, as it was at its start.
    """

    pid: int
    secret_digests: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """What /proc says of one process.

    Attributes:
        pid: Of the host.
        started_ticks: When it started, in clock ticks since boot.
        uid: Its real user; -1 = not known.
        name: Its short name, for people.
        cgroup: Its control group; `""` = not known, or the host's root.
        line: The process itself, its parent, and so on up.
        has_library: Whether it has ours mapped; `None` = not known.
    """

    pid: int
    started_ticks: int
    uid: int
    name: str
    cgroup: str
    line: tuple[Ancestor, ...]
    has_library: bool | None = None


@dataclass(frozen=True)
class Claimant:
    """One claim, and by what its processes are known.

    Attributes:
        claim_id: Its id.
        uid: The host user it belongs to.
        secret_digest: SHA-256 of its secret, in hex.
        pids: Its attached processes, and the one it lives with.
        cgroups: Control groups of its attached processes.
    """

    claim_id: str
    uid: int
    secret_digest: str
    pids: frozenset[int]
    cgroups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Origin:
    """Whose a process is: of which claim (`None` = a stranger), and why that is thought, in words."""

    claim_id: str | None
    why: str


def origin_of(facts: Facts, claimants: Sequence[Claimant], agent_uid: int, agent_cgroup: str) -> Origin:
    """Return whose the process is: by secret, by descent, by control group, by user, in this order.

    Args:
        facts: The process.
        claimants: All claims.
        agent_uid: The agent's own user, which tells nothing: in a demo all are the same.
        agent_cgroup: The agent's own control group, which tells nothing either.
    """
    by_digest = {claimant.secret_digest: claimant for claimant in claimants}
    by_pid = {pid: claimant for claimant in claimants for pid in claimant.pids}
    for ancestor in facts.line:
        for digest in ancestor.secret_digests & by_digest.keys():
            whose = "it carries" if ancestor.pid == facts.pid else f"it descends from process {ancestor.pid}, with"
            return Origin(by_digest[digest].claim_id, f"{whose} the slice's secret")
        if ancestor.pid in by_pid:
            return Origin(by_pid[ancestor.pid].claim_id, f"it descends from process {ancestor.pid} of the slice")
    if facts.cgroup and facts.cgroup != agent_cgroup:
        found = [claimant for claimant in claimants if facts.cgroup in claimant.cgroups]
        if len(found) == 1:
            return Origin(found[0].claim_id, "it runs in the slice's control group")
    if facts.uid > 0 and facts.uid != agent_uid:
        found = [claimant for claimant in claimants if claimant.uid == facts.uid]
        if len(found) == 1:
            return Origin(found[0].claim_id, "it belongs to the slice's user")
        if found:
            return Origin(None, f"it belongs to uid {facts.uid}, who has {len(found)} slices")
    return Origin(None, f"it belongs to uid {facts.uid}")


def read_facts(pid: int, library: Path) -> Facts | None:
    """Return what /proc says of a living process; `None` when it is gone.

    Blocks for a few tenths of a second at most for each ancestor whose memory map someone holds locked.

    Args:
        pid: Of the host.
        library: The interception library.
    """
    ticks = started_ticks(pid)
    if ticks is None or _state(pid) in "ZX":
        return None
    return Facts(
        pid=pid,
        started_ticks=ticks,
        uid=real_uid(pid),
        name=process_name(pid),
        cgroup=cgroup_of(pid),
        line=tuple(Ancestor(each, _digests(_read_within(Path(f"/proc/{each}/environ")))) for each in _line(pid)),
        has_library=_has_mapped(_read_within(Path(f"/proc/{pid}/maps")), library),
    )


def real_uid(pid: int) -> int:
    """Return the real user of a process, -1 when it is gone. source: proc_pid_status(5)."""
    for line in _read_lines(pid, "status"):
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return -1


def cgroup_of(pid: int) -> str:
    """Return the control group of a process, `""` for the root's.

    source: cgroups(7): one line a hierarchy; version 2's has the number 0, systemd's own is the next best.
    """
    paths = {}
    for line in _read_lines(pid, "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        paths[controllers if int(number) else ""] = path
    path = next((paths[each] for each in ("", "name=systemd", "memory") if paths.get(each, "/") != "/"), "")
    # Within a container's own namespace every container's root looks the same.
    return "" if path == "/" else path


def ancestors_of(pid: int) -> list[int]:
    """Return the parent of a process, its parent, and so on, without the first process of the host."""
    return _line(pid)[1:]


def _line(pid: int) -> list[int]:
    line: list[int] = []
    while pid > 1 and pid not in line and len(line) < _MOST_ANCESTORS:
        line.append(pid)
        pid = _parent(pid)
    return line


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may hold anything. source: proc_pid_stat(5)."""
    return "".join(_read_lines(pid, "stat")).rpartition(")")[2].split()


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else "X"


def _read_lines(pid: int, name: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _read_within(path: Path) -> bytes:
    """Return the file's content, `b""` when it cannot be read in time.

    A process can hold its own memory map locked for as long as it likes, and with it whoever reads these files: then
    a thread is lost to it, and not the audit.
    """
    content: list[bytes] = []

    def read() -> None:
        try:
            content.append(path.read_bytes())
        except OSError:
            content.append(b"")

    if sum(thread.name == _READER for thread in threading.enumerate()) >= _MOST_READERS:
        return b""
    thread = threading.Thread(target=read, name=_READER, daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    return content[0] if content else b""


def _digests(environ: bytes) -> frozenset[str]:
    found: Iterable[bytes] = (entry for entry in environ.split(b"\0") if entry.startswith(_SECRET))
    return frozenset(hashlib.sha256(entry[len(_SECRET) :]).hexdigest() for entry in found)


def _has_mapped(maps: bytes, library: Path) -> bool | None:
    return str(library).encode() in maps if maps else None
