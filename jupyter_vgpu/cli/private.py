"""The directory of an agent that lives inside one command, and what killed ones left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "jupyter-vgpu-run-"
_LONGEST_BASE_BYTES = 60  # leaves room for the names of sockets
_YOUNG_SECONDS = 10.0
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def base_dir() -> Path:
    """Return the directory for temporary files; /tmp where the user's own is too long for sockets in it."""
    base = Path(tempfile.gettempdir())
    return base if len(os.fsencode(base)) <= _LONGEST_BASE_BYTES else Path("/tmp")


@contextlib.contextmanager
def private_dir() -> Iterator[Path]:
    """Hold a new directory that only this user may enter; it goes, with all in it, at the end."""
    prune(base_dir())
    # A signal between making the directory and noting that it is to go would leave it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base_dir()))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        yield path
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        shutil.rmtree(path, ignore_errors=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def prune(base: Path) -> list[Path]:
    """Remove directories that killed commands of this user left in `base`; return them.

    A living one holds a lock on its directory (see `RuntimeDir`), or is about to.
    """
    removed = []
    for path in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(fd)
                is_ours = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700
                if is_ours and time.time() - status.st_mtime > _YOUNG_SECONDS:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                    removed.append(path)
            finally:
                os.close(fd)
    return removed
