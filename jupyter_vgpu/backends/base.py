"""What every backend does, and what it is given to do it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from jupyter_vgpu.model import Claim, Edits, Profile


@dataclass(frozen=True)
class Node:
    """The node that a claim lands on.

    Attributes:
        runtime_dir: The agent's runtime directory, with its sockets.
        simulated_state: State file of the simulated board; `None` on a real driver.
    """

    runtime_dir: Path
    simulated_state: Path | None = None

    @property
    def attach_socket(self) -> Path:
        """Where a tenant's processes attach."""
        return self.runtime_dir / "attach.sock"

    @property
    def user_socket(self) -> Path:
        """Where a tenant asks about its own slice."""
        return self.runtime_dir / "user.sock"


@dataclass(frozen=True)
class Enforcement:
    """How strongly a claim is enforced, as seen, not as requested.

    Attributes:
        level: Trust level for people: `"cooperative"`, `"whole device"`, …
        is_verified: Whether what the level rests on was seen in every attached process, and there is one.
        note: What the level means, or what is wrong, in one sentence.
    """

    level: str
    is_verified: bool
    note: str


class Backend(Protocol):
    """Four methods; everything else is the agent's.

    Attributes:
        name: As in profiles and in the API.
        level: Trust level for people, as long as nothing else was seen.
        requirement: What `supports` asks for, as a sentence for a refusal.
    """

    name: ClassVar[str]
    level: ClassVar[str]
    requirement: ClassVar[str]

    def supports(self, profile: Profile) -> bool:
        """Return whether this backend can enforce `profile`."""
        ...

    def prepare(self, claim: Claim, secret: str, node: Node) -> Edits:
        """Return the edits that bind a process to `claim`; make what they need.

        Raises:
            NativeLibraryError: Something they need is not installed.
        """
        ...

    def release(self, claim: Claim) -> None:
        """Undo what `prepare` made. Doing it twice is doing it once."""
        ...

    def observe(self, claim: Claim, pids: Sequence[int]) -> Enforcement:
        """Return how strongly `claim` is enforced on its attached processes `pids`, by looking at them."""
        ...
