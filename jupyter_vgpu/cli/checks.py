"""The checks of `jupyter vgpu doctor`. Each looks at one thing and changes nothing."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from jupyter_vgpu.cli.agents import the_agent
from jupyter_vgpu.errors import AgentUnreachableError, NotAuthorizedError, VGPUError
from jupyter_vgpu.native import INTERCEPT_LIBRARY, SIMULATED_CUDA, present

_SIMULATE = "or do without a GPU: add --simulate a100-80"
_GLIBC_FLOOR = (2, 17)
_SECONDS = 10


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        name: What was looked for.
        state: `"ok"`, `"missing"` (no slice without it), or `"note"` (one can do without).
        found: What there is.
        fix: What would put it right; `""` when nothing is wrong.
    """

    name: str
    state: str
    found: str
    fix: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether there is no slice without it."""
        return self.state == "missing"


def driver_library(simulated: Path | None) -> Finding:
    """Look for the CUDA driver's library, or the simulated one's."""
    name = "driver library" if simulated is None else "simulated driver library"
    wanted = "libcuda.so.1" if simulated is None else str(SIMULATED_CUDA)
    try:
        ctypes.CDLL(wanted)
    except OSError as error:
        if simulated is not None:
            return Finding(name, "missing", str(error), "install the wheel of this platform, or run `make native`")
        return Finding(name, "missing", str(error), f"install NVIDIA's driver (libcuda1), {_SIMULATE}")
    return Finding(name, "ok", wanted)


def nvml_devices(simulated: Path | None) -> Finding:
    """Ask NVML for the devices, with its time limit."""
    from jupyter_vgpu.agent.node import find_devices

    try:
        devices = find_devices(simulated).devices
    except VGPUError as error:
        text = str(error).partition("; ")[0]
        return Finding("NVML and devices", "missing", text, f"see that `nvidia-smi` lists devices, {_SIMULATE}")
    names = ", ".join(f"{device.index}: {device.name}" for device in devices)
    return Finding("NVML and devices", "ok", f"driver {devices[0].driver_version}, {names}")


def glibc() -> Finding:
    """Look at the C library's version. source: confstr(3), _CS_GNU_LIBC_VERSION."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") or ""
        version = tuple(int(part) for part in said.split()[-1].split("."))
    except (ValueError, OSError, IndexError):
        return Finding("glibc", "missing", "not glibc", "use a distribution with glibc 2.17 or later")
    if version < _GLIBC_FLOOR:
        return Finding("glibc", "missing", said, "use a distribution with glibc 2.17 or later")
    return Finding("glibc", "ok", f"{said} on {platform.machine()}")


def intercept_library() -> Finding:
    """Preload the library into a program that does nothing: the loader says on stderr what is wrong."""
    name = "interception library"
    try:
        present(INTERCEPT_LIBRARY)
        tried = subprocess.run(
            ["/bin/true"],
            env={"LD_PRELOAD": str(INTERCEPT_LIBRARY)},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except VGPUError as error:
        return Finding(name, "missing", str(error).partition(": ")[0], str(error).partition(": ")[2])
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, "missing", f"it cannot be preloaded: {error}", "reinstall the wheel of this platform")
    if tried.returncode or tried.stderr:
        said = tried.stderr.strip() or f"a program with it ended with {tried.returncode}"
        return Finding(name, "missing", said, "reinstall the wheel of this platform")
    return Finding(name, "ok", str(INTERCEPT_LIBRARY))


def agent_library() -> Finding:
    """Load the agent's native part and compare its layout."""
    from jupyter_vgpu import pages

    try:
        pages.request_bytes()
    except VGPUError as error:
        return Finding("agent library", "missing", str(error).partition(": ")[0], str(error).partition(": ")[2])
    return Finding("agent library", "ok", f"page layout {pages.LAYOUT}")


def sealed_pages() -> Finding:
    """Make a pair of pages as every claim has them."""
    from jupyter_vgpu.pages import TenantPages

    try:
        TenantPages(1).close()
    except VGPUError as error:
        return Finding("sealed pages", "missing", str(error), "use Linux 5.1 or later, with memfd_create allowed")
    return Finding("sealed pages", "ok", f"memfd with seals, Linux {platform.release()}")


def pidfd() -> Finding:
    """Open a pidfd, by which the agent sees deaths."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding("pidfd", "missing", str(error), "use Linux 5.3 or later, with pidfd_open allowed")
    return Finding("pidfd", "ok", "deaths of processes are seen at once")


def device_permissions(simulated: Path | None) -> Finding:
    """See whether this user may use the driver's device files."""
    if simulated is not None:
        return Finding("device files", "ok", "not needed by the simulated driver")
    nodes = [*sorted(Path("/dev").glob("nvidia[0-9]*")), Path("/dev/nvidiactl"), Path("/dev/nvidia-uvm")]
    there = [node for node in nodes if node.exists()]
    if not there:
        return Finding("device files", "note", "no /dev/nvidia*", "load the driver: `nvidia-modprobe -u -c 0`")
    if closed := [str(node) for node in there if not os.access(node, os.R_OK | os.W_OK)]:
        return Finding("device files", "missing", f"closed to this user: {', '.join(closed)}", "chmod or a group")
    return Finding("device files", "ok", f"{len(there)} that this user may open")


def is_simulated(agent: Path | None) -> bool:
    """Return whether the node's agent serves simulated devices; not where it does not say."""
    try:
        return the_agent(agent).health()["simulated"]
    except VGPUError:
        return False


def node_agent(agent: Path | None) -> Finding:
    """Ask the node's agent for its health."""
    client = the_agent(agent)
    try:
        health = client.health()
    except AgentUnreachableError as error:
        return Finding(
            "node agent",
            "note",
            str(error).partition(": start")[0],
            "`jupyter vgpu run` brings its own; a hub needs one: `jupyter vgpu agent` (see its --help)",
        )
    except NotAuthorizedError as error:
        return Finding(
            "node agent", "note", str(error), "only its hub, root and its own user may; slices work all the same"
        )
    note = health["note"]
    what = " with simulated devices" if health["simulated"] else ""
    found = f"{health['version']}{what} in {client.runtime_dir}"
    return Finding("node agent", "note" if note else "ok", found, note)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def jupyterhub() -> Finding:
    """Look for JupyterHub, which only the hub's machine needs."""
    version = _version("jupyterhub")
    if version is None:
        return Finding("JupyterHub", "note", "not installed", "needed on the hub only: pip install jupyter-vgpu[hub]")
    return Finding("JupyterHub", "ok", version)


def jupyter_server() -> Finding:
    """Look for Jupyter Server, whose extension shows users their slice."""
    version = _version("jupyter_server")
    if version is None:
        return Finding("Jupyter Server", "note", "not installed", "needed for the panel: pip install jupyter_server")
    return Finding("Jupyter Server", "ok", version)


def panel() -> Finding:
    """Look for the JupyterLab panel."""
    from jupyter_vgpu import native

    bundled = native.LIB_DIR.parent / "labextension" / "package.json"
    prefixes = [Path(sys.prefix) / "share/jupyter/labextensions/@jupyter-vgpu/labextension/package.json", bundled]
    for path in prefixes:
        if path.is_file():
            return Finding("JupyterLab panel", "ok", str(path.parent))
    return Finding("JupyterLab panel", "note", "not built", "install the wheel, or `make labextension`")
