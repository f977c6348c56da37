"""Others to compare with: NVIDIA's MPS, and any other preload library that is named by its path."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bench.processes import WorkerError, die_with_parent

from governor.stage import Stage
from governor.work import Tenant
from jupyter_vgpu.sim.faults import set_mps

START_SECONDS = 20.0
STOP_SECONDS = 20.0
MPS_CONTROL = "nvidia-cuda-mps-control"


class Peer(Protocol):
    """Another way to share a GPU.

    Attributes:
        name: Of its column.
    """

    name: str

    def running(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        """Return a context in which tenants can be started.

        Raises:
            WorkerError: It does not start.
        """

    def environment(self, tenant: Tenant, number: int) -> Mapping[str, str]:
        """Return what a tenant's processes need in their environment, beside what native ones have."""


class Mps:
    """NVIDIA's MPS: a server of our own, in a pipe directory of its own; on a simulated board, its switch."""

    name = "mps"

    def __init__(self) -> None:
        """Start nothing yet."""
        self._environment: dict[str, str] = {}

    @contextmanager
    def running(self, stage: Stage) -> Iterator[None]:
        """Run the control daemon, in the foreground; it ends with its server."""
        if stage.is_simulated:
            state = stage.environment["JUPYTER_VGPU_SIM"]
            set_mps(state, True)
            try:
                yield
            finally:
                set_mps(state, False)
            return
        control = shutil.which(MPS_CONTROL)
        if control is None:
            raise WorkerError(f"there is no {MPS_CONTROL} on this machine")
        pipe, logs = stage.folder / "mps", stage.folder / "mps-log"
        for folder in (pipe, logs):
            folder.mkdir(exist_ok=True)
        self._environment = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(logs)}
        environment = {**stage.environment, **self._environment}
        daemon = subprocess.Popen(
            [control, "-f"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (pipe / "control").exists():
                if daemon.poll() is not None or time.monotonic() > deadline:
                    raise WorkerError(f"{MPS_CONTROL} does not start (code {daemon.poll()})")
                time.sleep(0.05)
            yield
        finally:
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                subprocess.run([control], input=b"quit\n", env=environment, timeout=STOP_SECONDS, capture_output=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()

    def environment(self, tenant: Tenant, number: int) -> Mapping[str, str]:
        """Return the way to the server, and the nearest thing it has to a ceiling: a part of the SMs."""
        if tenant.ceiling == 1:
            return self._environment
        return {**self._environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(round(100 * tenant.ceiling))}


class PreloadPeer:
    """Another interception library."""

    def __init__(self, name: str, library: Path, settings: Sequence[str]) -> None:
        """Say which.

        Args:
            name: Of its column.
            library: For LD_PRELOAD.
            settings: `NAME=VALUE` for its tenants' environment; in a value, `{share}` and `{ceiling}` stand for a
                tenant's in whole per cents, `{memory_mib}` for its memory, `{number}` for its place, from 0.

        Raises:
            ValueError: There is no such library, or a setting is not of that form.
        """
        if not library.is_file():
            raise ValueError(f"--peer-preload: there is no file {library}")
        self.name = name
        self._library = library.resolve()
        self._settings: dict[str, str] = {}
        for setting in settings:
            key, separator, value = setting.partition("=")
            if not key or not separator:
                raise ValueError(f"--peer-env: {setting!r} is not NAME=VALUE")
            try:
                value.format(share=0, ceiling=0, memory_mib=0, number=0)
            except (KeyError, IndexError, ValueError):
                raise ValueError(
                    f"--peer-env: in {setting!r} only {{share}}, {{ceiling}}, {{memory_mib}} and {{number}} are known"
                ) from None
            self._settings[key] = value

    @contextmanager
    def running(self, stage: Stage) -> Iterator[None]:
        """Do nothing: it lives in its tenants."""
        yield

    def environment(self, tenant: Tenant, number: int) -> Mapping[str, str]:
        """Return the preload and its settings, for one tenant."""
        told = {
            key: value.format(
                share=round(100 * tenant.share),
                ceiling=round(100 * tenant.ceiling),
                memory_mib=(tenant.work.memory_bytes >> 20) + 1024,
                number=number,
            )
            for key, value in self._settings.items()
        }
        return {"LD_PRELOAD": str(self._library), **told}
