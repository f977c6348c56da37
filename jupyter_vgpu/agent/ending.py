"""End one process of a tenant, and surely no other."""

from __future__ import annotations

import os
import signal

from jupyter_vgpu.agent.origin import Facts, ancestors_of, real_uid
from jupyter_vgpu.agent.peers import started_ticks


def end_process(facts: Facts, uid: int) -> str:
    """Kill a process that is still the one that was looked at; return why it was not, `""` when it was.

    Never the agent, nor a process that the agent descends from, nor one of another user than `uid`.
    """
    pid = facts.pid
    if pid == os.getpid() or pid in ancestors_of(os.getpid()):
        return "the agent depends on it"
    if facts.uid != uid:
        return f"it is uid {facts.uid}'s, and the slice uid {uid}'s"
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        return error.strerror or "it is gone"
    try:
        # Read after the pidfd is open: the id cannot have gone to another process in between.
        if started_ticks(pid) != facts.started_ticks or real_uid(pid) != uid:
            return "it is gone"
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError as error:
        return error.strerror or "it is gone"
    finally:
        os.close(pidfd)
    return ""


def end_attached(pidfd: int, pid: int) -> str:
    """Kill an attached process; return why it was not, `""` when it was. Never the agent, nor one it descends from."""
    if pid == os.getpid() or pid in ancestors_of(os.getpid()):
        return "the agent depends on it"
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError as error:
        return error.strerror or "it is gone"
    return ""
