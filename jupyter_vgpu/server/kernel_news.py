"""Hear when a Jupyter kernel of this server comes, goes or does something else.

Whoever waits for that need not look again and again, where Jupyter Server tells of it: its event log when one starts,
stops or is restarted, its kernel managers when their execution state changes. Gateways and other kinds of kernel
managers may tell nothing; then `is_told` says that somebody has to look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet

# source: jupyter_server, event_schemas/kernel_actions/v1.yaml
_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
_STATE = "execution_state"


class KernelNews(Protocol):
    """What is to be known about changes, in one event loop."""

    @property
    def is_told(self) -> bool:
        """Whether `listen`'s callable is called at every change from now on, as far as `states` has seen."""

    def states(self) -> list[tuple[str, str]]:
        """Return, at once, what is another list when a Jupyter kernel came, went or does something else."""

    def listen(self, on_news: Callable[[], None]) -> None:
        """Have `on_news` called at each change."""


class ServerNews:
    """The news of a Jupyter server."""

    def __init__(self, kernel_manager: Any, event_log: Any, log: logging.Logger) -> None:
        """Listen to nothing yet.

        Args:
            kernel_manager: The server's `MappingKernelManager`.
            event_log: The server's `EventLogger`; `None` where it has none.
            log: Where a kernel manager that does not do what Jupyter Server's does is told.
        """
        self._kernels = kernel_manager
        self._events = event_log
        self._log = log
        self._observed: WeakSet[Any] = WeakSet()
        self._on_news: Callable[[], None] | None = None
        self._tells_states = True
        self._tells_actions = False

    @property
    def is_told(self) -> bool:
        """Whether no change goes by untold, as far as the Jupyter kernels of the last `states` are concerned."""
        return self._tells_actions and self._tells_states

    def listen(self, on_news: Callable[[], None]) -> None:
        """Have `on_news` called at each change, in the server's event loop."""
        self._on_news = on_news
        try:
            self._tells_actions = self._events is not None and _ACTIONS in self._events.schemas
            if self._tells_actions:
                self._events.add_listener(schema_id=_ACTIONS, listener=self._on_action)
        except Exception:
            self._tells_actions = False
            self._log.exception("jupyter_vgpu: Jupyter kernels are looked at again and again: nobody tells of them")

    def states(self) -> list[tuple[str, str]]:
        """Return which there are and what they do, without asking anybody: their ids and execution states."""
        self._tells_states = False
        managers = [(each, self._kernels.get_kernel(each)) for each in self._kernels.list_kernel_ids()]
        observed = [self._is_observed(manager) for _, manager in managers]
        self._tells_states = all(observed)
        return [(kernel_id, state_of(manager)) for kernel_id, manager in managers]

    def _is_observed(self, manager: Any) -> bool:
        """Observe a kernel manager, if it can be; return whether it is."""
        has_trait = getattr(manager, "has_trait", None)
        if self._on_news is None or has_trait is None or not has_trait(_STATE):
            return False
        if manager not in self._observed:
            manager.observe(self._on_state, _STATE)
            self._observed.add(manager)
        return True

    def _on_state(self, _: object) -> None:
        if self._on_news is not None:
            self._on_news()

    async def _on_action(self, **_: object) -> None:
        if self._on_news is not None:
            self._on_news()


def state_of(manager: Any) -> str:
    """Return what a kernel manager's Jupyter kernel does: `"idle"`, `"busy"`, ..., `"unknown"`."""
    return str(getattr(manager, _STATE, "unknown"))
