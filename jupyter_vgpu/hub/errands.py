"""What blocks, in threads of our own: questions to the agent from any of many, all of the ledger from one.

The ledger's one thread keeps its writes in order. An errand to the agent may use the ledger on its way: a start then
comes back to the hub's event loop once, not after each step, and does not stand in line there behind all else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Generic, TypeVar

from jupyter_vgpu.hub.timing import resumed
from jupyter_vgpu.ledger import LedgerError

_Result = TypeVar("_Result")

_AGENT_THREADS = 32
_LEDGER_SECONDS = 20.0  # a database that hangs must not hang the hub


class Errand(Generic[_Result]):
    """Work that a thread does while the event loop goes on.

    Attributes:
        future: What comes of it.
    """

    def __init__(self) -> None:
        """Have it to be done."""
        self._ready_at = 0.0
        self._done: Future[_Result] = Future()
        self.future: asyncio.Future[_Result] = asyncio.wrap_future(self._done)

    def do(self, work: Callable[..., _Result], *args: Any) -> None:
        """Do it in this thread, where `work` may block, unless it was withdrawn."""
        if not self._done.set_running_or_notify_cancel():
            return
        try:
            result = work(*args)
        except BaseException as error:
            self._ready_at = time.monotonic()
            self._done.set_exception(error)
        else:
            self._ready_at = time.monotonic()
            self._done.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Let nothing come of it but `error`."""
        if self._done.set_running_or_notify_cancel():
            self._ready_at = time.monotonic()
            self._done.set_exception(error)

    def end(self, result: _Result) -> None:
        """Let `result` come of it."""
        if self._done.set_running_or_notify_cancel():
            self._ready_at = time.monotonic()
            self._done.set_result(result)

    def withdraw(self) -> None:
        """Let it not be done if it has not begun: its `future` is cancelled then, and else as it would be."""
        self._done.cancel()

    async def result(self, seconds: float | None = None) -> _Result:
        """Return what came of it; who is cancelled meanwhile leaves the thread to its work.

        Raises:
            TimeoutError: It took longer than `seconds`; `None` = no limit.
        """
        try:
            return await asyncio.wait_for(asyncio.shield(self.future), seconds)
        finally:
            if self._ready_at:
                resumed(self._ready_at)


class Errands:
    """One hub's threads."""

    def __init__(self) -> None:
        """Start none yet."""
        self._ledger_thread = ThreadPoolExecutor(1, "jupyter-vgpu-ledger")
        # Threads of our own: in the loop's few, starts would wait for one another while an agent hangs.
        self._agent_threads = ThreadPoolExecutor(_AGENT_THREADS, "jupyter-vgpu-agent")
        self._turns_thread = ThreadPoolExecutor(1, "jupyter-vgpu-turns")

    def to_agent(self, work: Callable[..., _Result], *args: Any) -> Errand[_Result]:
        """Send a thread to the agent; `work` may use `from_ledger`."""
        return _sent(self._agent_threads, Errand(), work, *args)

    def in_turn(self, work: Callable[..., _Result], *args: Any) -> Errand[_Result]:
        """Do as `to_agent`, each after the one before has come back."""
        return _sent(self._turns_thread, Errand(), work, *args)

    async def ask_agent(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Return what `work` does in a thread; it may use `from_ledger`."""
        return await self.to_agent(work, *args).result()

    async def in_ledger(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Return what a method of the ledger does, in the ledger's thread.

        Raises:
            LedgerError: The ledger does not answer.
        """
        errand = _sent(self._ledger_thread, Errand[_Result](), work, *args)
        try:
            return await errand.result(_LEDGER_SECONDS)
        except asyncio.TimeoutError:
            errand.withdraw()  # what it writes late, if it has begun, is reconciled
            raise _hanging() from None

    def from_ledger(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Return what `in_ledger` does, in a thread that may wait.

        Raises:
            LedgerError: The ledger does not answer.
        """
        done = self._ledger_thread.submit(work, *args)
        try:
            return done.result(_LEDGER_SECONDS)
        except FutureTimeoutError:
            done.cancel()
            raise _hanging() from None


def _sent(threads: Executor, errand: Errand[_Result], work: Callable[..., _Result], *args: Any) -> Errand[_Result]:
    threads.submit(errand.do, work, *args)
    return errand


def _hanging() -> LedgerError:
    return LedgerError(
        f"the ledger's database has not answered within {_LEDGER_SECONDS:.0f} s: see its log, or restart it"
    )
