"""One look at the user's slice, through the agent, as a plain answer.

Blocking; the event loop calls it on a thread (see `live.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_vgpu.client import SliceInfo, UsageInfo, UserClient
from jupyter_vgpu.errors import UnknownClaimError, VGPUError

OK = "ok"
NO_SLICE = "no-slice"

_WITHOUT_SLICE = (
    "This server has no GPU slice: it was started without one. "
    "Choose a GPU profile when you start your server, or start it with `jupyter vgpu run`."
)


@dataclass(frozen=True)
class Figures:
    """What is known about the slice at one moment.

    Attributes:
        state: `"ok"`, `"no-slice"`, or the `reason` of the `VGPUError` that
            stood in the way (`"agent-unreachable"`, `"unknown-claim"`, ...).
        message: One sentence for the user; empty when the state is `"ok"`.
        slice_info: SLICE as in `docs/contracts.md`; `None` unless `"ok"`.
        usage: USAGE as in `docs/contracts.md`; `None` unless `"ok"`.
    """

    state: str
    message: str = ""
    slice_info: SliceInfo | None = None
    usage: UsageInfo | None = None


def read_figures() -> Figures:
    """Return the slice and its use, or why there is none.

    Takes as long as the client's time limit at most (5 s a call).
    """
    try:
        client = UserClient.from_environment()
    except UnknownClaimError:
        return Figures(NO_SLICE, _WITHOUT_SLICE)
    try:
        return Figures(OK, slice_info=client.slice(), usage=client.usage())
    except VGPUError as error:
        return Figures(error.reason, str(error))
