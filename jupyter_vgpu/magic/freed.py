"""`%vgpu free`: what was given back, measured from outside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from typing import Any

from jupyter_vgpu.client import UserClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.magic import frameworks
from jupyter_vgpu.magic.holders import memory_of, own_processes
from jupyter_vgpu.units import format_bytes


@dataclass(frozen=True)
class FreedView:
    """What `%vgpu free` did.

    Attributes:
        asked: The frameworks that were asked to give back their caches.
        before_bytes: What this notebook held before, by the agent's account; `None` when nobody tells.
        after_bytes: The same afterwards.
    """

    asked: list[str]
    before_bytes: int | None
    after_bytes: int | None

    def __repr__(self) -> str:
        whom = " and ".join(self.asked) or "no framework that caches GPU memory is loaded"
        if not self.asked and self.after_bytes is None:
            return f"Nothing to free: {whom}."
        if self.before_bytes is None or self.after_bytes is None:
            return f"Asked {whom} to give back what is only cached; how much that was is not known without a slice."
        freed = format_bytes(max(0, self.before_bytes - self.after_bytes))
        return f"Freed {freed} ({whom}). This notebook now holds {format_bytes(self.after_bytes)} of its slice."

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the view in each form a front end may prefer."""
        return {"text/plain": repr(self), "text/html": f"<div>{escape(repr(self))}</div>"}

    def as_json(self) -> dict[str, Any]:
        """Return everything as one object that JSON can carry."""
        return {"asked": self.asked, "before_bytes": self.before_bytes, "after_bytes": self.after_bytes}


def free_caches() -> FreedView:
    """Give back what is only cached, and say how much that was."""
    before = _held_bytes()
    asked = frameworks.free()
    return FreedView(asked, before, _held_bytes())


def _held_bytes() -> int | None:
    try:
        usage = UserClient.from_environment().usage()
    except VGPUError:
        return None
    return sum(memory_of(process) for process in own_processes(usage, os.getpid()))
