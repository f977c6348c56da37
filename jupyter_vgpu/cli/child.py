"""A command run on someone's behalf: signals passed on, exit code passed back, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# source: Linux, include/uapi/linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36

EXIT_NOT_FOUND = 127
EXIT_NOT_EXECUTABLE = 126
EXIT_SIGNAL = 128

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
# Python ignores these, and an ignored signal stays so over exec. source: signal(7)
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
_PATIENCE_SECONDS = 2.0


class Ended(SystemExit):
    """A signal came before there was a command to pass it on to.

    A `SystemExit`, since an event loop lets only those through its callbacks.
    """

    def __init__(self, number: int) -> None:
        """Note the signal's number."""
        super().__init__(EXIT_SIGNAL + number)
        self.exit_code = EXIT_SIGNAL + number


def _handled_signals() -> list[int]:
    """Return the signals to pass on: those that whoever started us has not had ignored (nohup does)."""
    return [number for number in _PASSED_ON if signal.getsignal(number) not in (signal.SIG_IGN, None)]


def end_on_signals() -> None:
    """From now on a signal raises `Ended`, so that what has been made is removed on the way out."""

    def end(number: int, frame: object) -> None:
        raise Ended(number)

    for number in _handled_signals():
        signal.signal(number, end)


def exit_code_of(status: int) -> int:
    """Return the exit code for a status of waitpid: the process's own, or 128 + the signal that ended it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else EXIT_SIGNAL - code


class Child:
    """One command, with everything it starts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take over this process's signals and its descendants; the command is not started yet."""
        self._loop = loop
        self._pid = 0
        self._ended: asyncio.Future[int] = loop.create_future()
        self._signals = _handled_signals()
        # What the command leaves behind becomes our child instead of init's, and so can be found.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (*self._signals, signal.SIGCHLD):
            signal.signal(number, self._signalled)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start `command` with `environment`.

        Raises:
            OSError: It cannot be started: not found, or not executable.
            Ended: A signal came already.
        """
        if self._ended.done():
            raise Ended(self._ended.result() - EXIT_SIGNAL)
        program = _find(command[0], environment)
        self._pid = os.posix_spawn(program, list(command), dict(environment), setsigdef=[*self._signals, *_RESTORED])

    async def wait(self) -> int:
        """Return the command's exit code, 128 + n when signal n ended it."""
        return await self._ended

    def _signalled(self, number: int, frame: object) -> None:
        """Go on in the loop. Once that is closed the command is over, and nothing is to disturb the cleaning up.

        Not `loop.add_signal_handler`: a closing loop would give the signals back their deadly default.
        """
        with contextlib.suppress(RuntimeError):
            if number == signal.SIGCHLD:
                self._loop.call_soon_threadsafe(self._reap)
            else:
                self._loop.call_soon_threadsafe(self._pass_on, number)

    def _pass_on(self, number: int) -> None:
        if not self._pid:
            if not self._ended.done():
                self._ended.set_result(EXIT_SIGNAL + number)
        elif not (number in _FROM_TERMINAL and _is_in_foreground()):
            # In the foreground the terminal has sent it to the command as well.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._pid = 0
                if not self._ended.done():
                    self._ended.set_result(exit_code_of(status))

    async def end_rest(self) -> int:
        """End everything the command left behind; return how many processes that were.

        First by SIGTERM, then, after two seconds, by SIGKILL.
        """
        ended = descendants(os.getpid())
        if not ended:
            return 0
        _send(ended, signal.SIGTERM)
        deadline = self._loop.time() + _PATIENCE_SECONDS
        while (left := descendants(os.getpid())) and self._loop.time() < deadline:
            await asyncio.sleep(0.02)
            self._reap()
        deadline = self._loop.time() + _PATIENCE_SECONDS
        while left and self._loop.time() < deadline:
            _send(left, signal.SIGKILL)
            await asyncio.sleep(0.02)
            self._reap()
            left = descendants(os.getpid())
        return len(ended)


def _find(program: str, environment: Mapping[str, str]) -> str:
    """Return the path of `program`, looked up as a shell does."""
    import shutil

    if "/" in program:
        return program
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(2, os.strerror(2), program)
    return found


def _is_in_foreground() -> bool:
    """Return whether the terminal sends its signals to this process's group, and so to the command."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


def _send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def descendants(root: int) -> list[int]:
    """Return the living descendants of process `root`, zombies left out.

    source: proc_pid_stat(5), fields 3 (state) and 4 (parent).
    """
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (
                (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[:2]
            )
        except (OSError, ValueError):
            continue
        children.setdefault(int(parent), []).append(int(entry.name))
        if state in "ZX":
            dead.add(int(entry.name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return [pid for pid in found if pid not in dead]


def say(message: str) -> None:
    """Print a line of `run` itself to stderr, apart from what the command prints."""
    print(f"jupyter vgpu run: {message}", file=sys.stderr)
