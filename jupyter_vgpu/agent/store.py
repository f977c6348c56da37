"""The agent's claims on disk, so that they survive its restart."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.model import Claim

_VERSION = 1


class UnreadableStateError(VGPUError):
    """The state file holds something else than an agent's claims."""

    reason = "unreadable-state"


@dataclass(frozen=True)
class Holder:
    """A process that a claim lives with.

    Attributes:
        pid: Its process id.
        started_ticks: When it started, in clock ticks since boot: tells it from a later process of the same id.
    """

    pid: int
    started_ticks: int


@dataclass(frozen=True)
class StoredClaim:
    """A claim and the process it lives with, if it does."""

    claim: Claim
    holder: Holder | None = None


def load(path: Path) -> list[StoredClaim]:
    """Return the claims in the file at `path`; none when there is no file.

    Raises:
        UnreadableStateError: It cannot be read, or is not ours. Nothing is guessed.
    """
    found: list[StoredClaim] = _read(path, "claims", list[StoredClaim], [])
    return found


def load_drained(path: Path) -> set[str]:
    """Return the UUIDs of the devices that take no new claims; see `load`."""
    found: set[str] = _read(path, "drained", set[str], set())
    return found


def _read(path: Path, key: str, kind: Any, default: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("version") != _VERSION or "claims" not in content:
            raise ValueError(f"not version {_VERSION}")
        return TypeAdapter(kind).validate_python(content.get(key, default))
    except FileNotFoundError:
        return default
    except (OSError, ValueError, ValidationError) as error:
        raise UnreadableStateError(
            f"{path} does not hold an agent's claims ({str(error).splitlines()[0]}): move it away to start without them"
        ) from error


def save(path: Path, claims: Sequence[StoredClaim], drained: Collection[str] = ()) -> None:
    """Write the file at `path` so that a crash leaves the old or the new one, never a part. Mode 0600.

    Args:
        path: The file.
        claims: The claims that hold a slice.
        drained: UUIDs of the devices that take no new ones.

    Raises:
        OSError: It cannot be written; the old one stands.
    """
    stored = {"version": _VERSION, "claims": [asdict(claim) for claim in claims], "drained": sorted(drained)}
    content = json.dumps(stored, indent=1)
    draft = path.with_name(f".{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
