"""The block under a traceback that says who holds the slice's memory and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from IPython.display import display

from jupyter_vgpu.client import UsageInfo, UserClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.magic.frameworks import Cache, caches
from jupyter_vgpu.magic.holders import Holder, holders
from jupyter_vgpu.magic.html import with_code
from jupyter_vgpu.magic.oom import OutOfMemory, recognise
from jupyter_vgpu.units import format_bytes

_BOX = (
    "border-left:3px solid var(--jp-warn-color1,#ef6c00);background:var(--jp-layout-color2,#eeeeee);"
    "padding:6px 10px;margin:4px 0"
)
# Less than this is not worth giving back.
_WORTH_BYTES = 64 << 20


@dataclass(frozen=True)
class Explanation:
    """Why the GPU's memory did not suffice.

    Attributes:
        headline: One sentence: what was asked for, and what the slice is.
        held: Who holds how much, one line each.
        advice: What to try, the most promising first.
    """

    headline: str
    held: list[str]
    advice: list[str]

    def __repr__(self) -> str:
        lines = [
            self.headline,
            *(f"  {line}" for line in self.held),
            "What to try:",
            *(f"  - {a}" for a in self.advice),
        ]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the block in each form a front end may prefer."""
        held = "".join(f"<li>{escape(line)}</li>" for line in self.held)
        advice = "".join(f"<li>{with_code(line)}</li>" for line in self.advice)
        html = f"<b>{escape(self.headline)}</b><ul>{held}</ul>What to try:<ul>{advice}</ul>"
        return {"text/plain": repr(self), "text/html": f'<div role="note" style="{_BOX}">{html}</div>'}


def explain_result(result: Any) -> None:
    """Show the block when a cell died of the GPU's memory: a hook for IPython's `post_run_cell`."""
    error = recognise(result.error_in_exec)
    if error is not None:
        display(read_explanation(error))  # type: ignore[no-untyped-call]


def read_explanation(error: OutOfMemory) -> Explanation:
    """Return the explanation, with what the agent says now."""
    try:
        usage = UserClient.from_environment().usage()
    except VGPUError as reason:
        return Explanation(
            "The GPU has no more memory for this cell.",
            [f"Who holds it is not known: {reason}"],
            _advice(error, None, [], caches()),
        )
    return explained(error, usage, holders(usage), caches())


def explained(error: OutOfMemory, usage: UsageInfo, held_by: Sequence[Holder], kept: Sequence[Cache]) -> Explanation:
    """Return the explanation.

    Args:
        error: What was recognised.
        usage: What the agent says.
        held_by: Who holds what.
        kept: What this notebook's frameworks hold.
    """
    limit = sum(device["memory_limit_bytes"] for device in usage["devices"])
    used = sum(device["memory_used_bytes"] for device in usage["devices"])
    overhead = sum(device["memory_overhead_bytes"] for device in usage["devices"])
    free = max(0, limit - used)
    asked = "" if error.asked_bytes is None else f", and this cell asked for {format_bytes(error.asked_bytes)} more"
    headline = f"Your slice of the GPU is {format_bytes(limit)}; {format_bytes(free)} of it is free{asked}."
    lines = [_line(holder, kept) for holder in held_by if holder.is_this or holder.memory_bytes]
    if overhead:
        lines.append(f"overhead (contexts and code of all of these): {format_bytes(overhead)}")
    return Explanation(headline, lines, _advice(error, limit, held_by, kept))


def _line(holder: Holder, kept: Sequence[Cache]) -> str:
    text = f"{holder.name} holds {format_bytes(holder.memory_bytes)}"
    cached = [cache for cache in kept if cache.cached_bytes >= _WORTH_BYTES] if holder.is_this else []
    if cached:
        text += f", of which {' and '.join(f'{format_bytes(c.cached_bytes)} cached by {c.framework}' for c in cached)}"
    return text


def _advice(error: OutOfMemory, limit_bytes: int | None, held_by: Sequence[Holder], kept: Sequence[Cache]) -> list[str]:
    if limit_bytes is not None and error.asked_bytes is not None and error.asked_bytes > limit_bytes:
        return [
            "it is more than the whole slice: nothing that you free is enough. Ask for less at a time (a smaller "
            "batch, half precision), or start your server with a larger GPU profile"
        ]
    advice = []
    cached_bytes = sum(cache.cached_bytes for cache in kept)
    if cached_bytes >= _WORTH_BYTES:
        advice.append(f"run `%vgpu free`: {format_bytes(cached_bytes)} is only cached")
    advice += [
        f"restart the Jupyter kernel of {holder.name}, or run `%vgpu free` there, if you can do without the "
        f"{format_bytes(holder.memory_bytes)} it holds"
        if holder.is_notebook
        else f"end {holder.name} if you can do without it: it holds {format_bytes(holder.memory_bytes)}"
        for holder in held_by
        if not holder.is_this and holder.memory_bytes >= _WORTH_BYTES
    ]
    if error.framework == "jax":
        advice.append(
            "JAX takes three quarters of the memory at its start: set `XLA_PYTHON_CLIENT_PREALLOCATE=false` before you "
            "import it, here and in your other notebooks"
        )
    if error.framework == "tensorflow":
        advice.append("TensorFlow takes all the memory it sees: `tf.config.experimental.set_memory_growth(gpu, True)`")
    advice.append("ask for less at a time: a smaller batch, half precision, or no gradients where none are needed")
    advice.append("`del` what you no longer need, then `%vgpu free`: the failed cell's variables are still held")
    return advice
