"""An agent's runtime directory: one agent in it at a time, its sockets, its token."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import socket
import stat
import time
from pathlib import Path

from jupyter_vgpu.agent.peers import peer_of
from jupyter_vgpu.errors import BadValueError, VGPUError

# source: unix(7), sun_path has 108 bytes with its terminator
_LONGEST_PATH_BYTES = 107
_LONGEST_NAME_BYTES = len("/attach.sock")
BACKLOG = 4096


class RuntimeDirError(VGPUError):
    """The runtime directory cannot be used: taken, not ours, or open to others."""

    reason = "runtime-dir"


class RuntimeDir:
    """A directory held by this process until `close`."""

    def __init__(self, path: Path, mode: int = 0o755) -> None:
        """Make the directory if it is missing, and take it.

        Args:
            path: Where; its parent must exist.
            mode: Permissions of a directory that is made.

        Raises:
            BadValueError: The path is too long for the sockets in it.
            RuntimeDirError: Another agent has it, or others may write in it.
        """
        self.path = path.absolute()
        self._bound: list[Path] = []
        if len(os.fsencode(self.path)) > _LONGEST_PATH_BYTES - _LONGEST_NAME_BYTES:
            raise BadValueError(
                "runtime directory",
                str(self.path),
                f"a path of at most {_LONGEST_PATH_BYTES - _LONGEST_NAME_BYTES} bytes is, since sockets lie in it",
            )
        try:
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=mode)
                self.path.chmod(mode)
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise RuntimeDirError(f"runtime directory {self.path}: {error.strerror}") from error
        try:
            self._check_owner()
            self._lock()
        except BaseException:
            os.close(self._fd)
            raise
        # In monotonic seconds: any earlier agent here had ended by then.
        self.taken_at = time.monotonic()

    def _check_owner(self) -> None:
        """Refuse a directory in which others could put sockets in place of ours."""
        status = os.fstat(self._fd)
        if status.st_uid != os.geteuid():
            raise RuntimeDirError(
                f"runtime directory {self.path} belongs to uid {status.st_uid}; the agent needs one of its own "
                f"(uid {os.geteuid()})"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise RuntimeDirError(
                f"runtime directory {self.path} is writable by others (mode {stat.S_IMODE(status.st_mode):04o}), who "
                f"could replace the agent's sockets: chmod go-w {self.path}"
            )

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                raise
            raise RuntimeDirError(
                f"another agent{self._other_agent()} serves {self.path}: stop it first, or give this one another "
                "directory with --runtime-dir"
            ) from error

    def _other_agent(self) -> str:
        """Return ` (process N)` for a message, as far as the other agent can be asked."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            probe.settimeout(1.0)
            probe.connect(str(self.path / "attach.sock"))
            return f" (process {peer_of(probe).pid})"
        return ""

    def listen(self, name: str, kind: socket.SocketKind, mode: int, owner: int | None = None) -> socket.socket:
        """Return a listening socket `name`, in place of one that an earlier agent left; see `bind`."""
        listener = self.bind(name, kind, mode, owner)
        listener.listen(BACKLOG)
        return listener

    def bind(self, name: str, kind: socket.SocketKind, mode: int, owner: int | None = None) -> socket.socket:
        """Return a socket `name`, in place of one that an earlier agent left. It refuses connections until it listens.

        Args:
            name: File name in the directory.
            kind: `SOCK_SEQPACKET` or `SOCK_STREAM`.
            mode: Who may connect; writing is connecting.
            owner: Host user to give it to; `None` = the agent's own.

        Raises:
            RuntimeDirError: The directory does not take it.
        """
        path = self.path / name
        # No longer than the name, and renamed into place: nobody finds no socket where there was one.
        made = self.path / f".{name[:-1]}"
        made.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            # Bound closed and then opened, so that nobody slips in between.
            old_umask = os.umask(0o777)
            try:
                listener.bind(str(made))
            finally:
                os.umask(old_umask)
            made.chmod(mode)
            if owner is not None:
                os.chown(made, owner, -1)
            self._bound.append(path)
            made.rename(path)
        except OSError as error:
            listener.close()
            made.unlink(missing_ok=True)
            raise RuntimeDirError(f"socket {path}: {error.strerror}") from error
        return listener

    def hub_token(self, owner: int | None = None) -> str:
        """Return the hub token in `hub.token`, made at the first time; it outlives the agent, as hubs know it.

        Args:
            owner: Host user to give the file to; `None` = the agent's own.

        Raises:
            RuntimeDirError: The file cannot be read or made.
        """
        path = self.path / "hub.token"
        try:
            token = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            token = ""
        except (OSError, ValueError) as error:
            raise RuntimeDirError(f"{path} cannot be read: {error}") from error
        try:
            if len(token) < 32:
                token = secrets.token_hex(32)
                path.unlink(missing_ok=True)
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
                    file.write(token + "\n")
            if owner is not None:
                os.chown(path, owner, -1)
        except OSError as error:
            raise RuntimeDirError(f"{path} cannot be made: {error.strerror}") from error
        return token

    def close(self) -> None:
        """Remove the sockets and let another agent in. The directory, the token and the claims stay."""
        for path in self._bound:
            path.unlink(missing_ok=True)
        self._bound.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
