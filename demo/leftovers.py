"""End every process that the demo started, also those whose parent died before them.

Linux hands an orphan to its nearest ancestor that asked for it. The demo asks, so
nothing that it started gets out of its sight: proxy, agent, servers, Jupyter kernels.
"""

from __future__ import annotations

import ctypes
import os
import signal

import psutil

# source: prctl(2)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans.

    Raises:
        OSError: The host kernel refuses (it does since Linux 3.4 only for nonsense).
    """
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_with_parent() -> None:
    """In a child: be told to end when the demo is killed and can no longer do it itself."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def end_descendants(patience_seconds: float = 5.0) -> None:
    """End all descendants of this process: ask, then make them.

    Args:
        patience_seconds: Time to follow the request, > 0. Longer than that, and the process is killed.
    """
    for send in (psutil.Process.terminate, psutil.Process.kill):
        processes = psutil.Process().children(recursive=True)
        for process in processes:
            try:
                send(process)
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(processes, timeout=patience_seconds)
    _bury()


def _bury() -> None:
    # Adopted orphans that have ended wait for their new parent.
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return
