"""Processes that a benchmark starts: each with a time limit on every answer, none outlives the benchmark."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1  # source: <linux/prctl.h>
_LIBC = ctypes.CDLL(None, use_errno=True)


class WorkerError(Exception):
    """A process ended, or did not answer in time; the message has its last words."""


def die_with_parent() -> None:
    """Have the kernel end this process when the one that started it dies, however that comes. For `preexec_fn`."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Worker:
    """A process that answers requests, one line each, on its stdin and stdout; in a process group of its own."""

    def __init__(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str], log: Path) -> None:
        """Start it.

        Args:
            name: For messages.
            command: Program and arguments.
            environment: All of its environment.
            log: File for its stderr.
        """
        self.name = name
        self._log = log
        self._heard = b""
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def tell(self, line: str) -> None:
        """Send one request.

        Raises:
            WorkerError: It has ended.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise self._failure("ended") from None

    def hear(self, limit_seconds: float) -> str:
        """Return the next line it says.

        Raises:
            WorkerError: It ended, or said nothing in time.
        """
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + limit_seconds
        while b"\n" not in self._heard:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise self._failure(f"said nothing for {limit_seconds:.0f} s")
            told = os.read(descriptor, 1 << 16)
            if not told:
                raise self._failure("ended")
            self._heard += told
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def hear_json(self, limit_seconds: float) -> Any:
        """Return the next line it says, decoded.

        Raises:
            WorkerError: As for `hear`, or it is no JSON.
        """
        line = self.hear(limit_seconds)
        try:
            return json.loads(line)
        except ValueError:
            raise self._failure(f"said {line[:80]!r}") from None

    def end(self) -> None:
        """End it with all that it started; twice is once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _failure(self, what: str) -> WorkerError:
        code = self.process.poll()
        words = self._log.read_text(errors="replace").strip().splitlines()[-3:] if self._log.exists() else []
        ended = "" if code is None else f" with code {code}"
        return WorkerError(f"{self.name}: {what}{ended}{': ' if words else ''}{' / '.join(words)[-400:]}")
