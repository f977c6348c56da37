"""When what an agent must not forget is written down: outside the loop's thread, for all who wait at once.

Belongs to the event loop; what is written, `store` knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from jupyter_vgpu.agent import store


class Clerk:
    """Writes the agent's claims and drained devices to its state file, one time after the other."""

    def __init__(
        self, path: Path | None, current: Callable[[], tuple[Sequence[store.StoredClaim], Collection[str]]]
    ) -> None:
        """Write nothing yet.

        Args:
            path: The state file; `None` = nothing is kept.
            current: Returns the claims and drained devices as they are now.
        """
        self._path = path
        self._current = current
        self._changes = 0  # of what is kept on disk
        self._saved = 0  # how many of them are there
        self.writing = asyncio.Lock()  # held while the file is written

    @property
    def keeps(self) -> bool:
        """Whether there is a file at all."""
        return self._path is not None

    async def save(self) -> None:
        """Return when all is on disk as it is now.

        Who waits while others write is written down together with all who do.
        """
        if self._path is None:
            return
        self._changes += 1
        wanted = self._changes
        async with self.writing:
            if self._saved >= wanted:
                return
            now = self._changes
            claims, drained = self._current()
            await asyncio.to_thread(store.save, self._path, list(claims), frozenset(drained))
            self._saved = now
