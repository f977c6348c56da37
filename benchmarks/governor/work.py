"""What tenants do: on a GPU and, as far as it goes, on a simulated board."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from jupyter_vgpu.model import Priority

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
TORCH = "torch_tenant.py"


@dataclass(frozen=True)
class Work:
    """One kind of work.

    Attributes:
        name: For people, and to tell one kind from another.
        mode: Mode of tenant.c, or the argument of `script`.
        launch_us: Length of one launch, for tenant.c.
        settings: Environment of tenant.c, beside the launch's length.
        script: Python program beside this file that does it, with torch; empty = tenant.c does.
        memory_bytes: What a tenant needs on the device.
        simulated: What stands for it on a simulated board; `None` = itself.
    """

    name: str
    mode: str
    launch_us: float = 20.0
    settings: Mapping[str, str] = field(default_factory=dict)
    script: str = ""
    memory_bytes: int = GIB
    simulated: Work | None = None

    def command(self, program: Path) -> list[str]:
        """Return what to run; `program` is tenant.c, compiled."""
        if self.script:
            return [sys.executable, str(HERE / self.script), self.mode]
        return [str(program), self.mode]

    def environment(self, ns_per_iteration: float) -> dict[str, str]:
        """Return the settings of tenant.c; an iteration of its loop was measured to take so long."""
        if self.script:
            return {}
        launch_ns = self.launch_us * 1e3
        told = {
            "LAUNCH_US": str(self.launch_us),
            "FUNCTION": f"sim_busy_{launch_ns:.0f}ns",
            "ITERS": str(max(1, round(launch_ns / ns_per_iteration))),
        }
        return {**told, **self.settings}


def busy(launch_us: float) -> Work:
    """Return launches of one length back to back, which fill the GPU."""
    return Work(f"{launch_us:g} us" if launch_us < 1000 else f"{launch_us / 1000:g} ms", "busy", launch_us)


def _loop(name: str, launch_us: float, host_us: float, every: int, waits: bool) -> Work:
    settings = {"HOST_US": str(host_us), "SYNC_EVERY": str(every), "WAITS": str(int(waits))}
    return Work(f"{name}-like loop", "loop", launch_us, settings)


BURN = busy(20)
# The stand-ins' lengths are those of probes/governor_model.py, which reproduce the parts of time measured on the GPU.
GPT = Work("gpt", "gpt", script=TORCH, memory_bytes=14 * GIB, simulated=_loop("gpt", 60, 30, 300, True))
RESNET = Work("resnet", "resnet", script=TORCH, memory_bytes=14 * GIB, simulated=_loop("resnet", 40, 64, 100, False))
MLP = Work("mlp", "mlp", script=TORCH, memory_bytes=4 * GIB, simulated=_loop("mlp", 5, 18, 180, True))
MATMUL = Work(
    "matmul and wait", "matmul", script=TORCH, memory_bytes=6 * GIB, simulated=Work("1.4 ms and wait", "sync", 1400)
)
GRAPHS = Work("graphs of 20 × 20 us", "graph")
EXTENDED = Work("20 us, extended", "busy", settings={"LAUNCH": "extended"})
COOPERATIVE = Work("20 us, cooperative", "busy", settings={"LAUNCH": "cooperative"})
CELL = Work("one launch every 5 ms", "cell", settings={"PERIOD_US": "5000"})
# As measured for FACTS.md: 1,000 iterations in 16 blocks. How long that takes was not; a simulated board says 4.3 us.
SMALL = Work("16 of 132 SMs", "busy", 4.3, {"GRID": "16", "ITERS": "1000"})
# What a user would call cheating.
STREAMS = Work("100 streams", "busy", settings={"STREAMS": "100"})
QUEUED = Work("1,000 launches queued", "busy", settings={"IN_FLIGHT_US": "20000"})
COPIES = Work("copies of 256 MiB", "copy", launch_us=125)
FAULT = Work("20 us, then an illegal access", "fault")
IDLE = Work("a context", "idle")
# An all-reduce of 64 MiB takes about as long between two GPUs with NVLink; not measured.
_COLLECTIVE = Work("collectives of 0.2 ms", "200", script="collective_tenant.py")
NCCL = Work("NCCL all-reduce", "all-reduce", script="nccl_tenant.py", memory_bytes=6 * GIB, simulated=_COLLECTIVE)


def on_and_off(milliseconds: float) -> Work:
    """Return work that is busy for so long, then idle for as long."""
    told = f"{milliseconds:g}"
    return Work(f"{told} ms on, {told} ms off", "onoff", settings={"ON_MS": told, "OFF_MS": told})


@dataclass(frozen=True)
class Tenant:
    """Who works: what it does, and what it was promised.

    Attributes:
        work: What each of its processes does.
        share: Promised part of the device, in (0, 1].
        ceiling: Most it may use, in [share, 1].
        processes: How many processes it has.
        devices: How many devices it has, with the same share of each.
        priority: Who comes first where more is left than was promised.
    """

    work: Work
    share: Fraction
    ceiling: Fraction = Fraction(1)
    processes: int = 1
    devices: int = 1
    priority: Priority = "normal"


def equal(work: Work, count: int) -> tuple[Tenant, ...]:
    """Return tenants that have the device in equal parts."""
    return (Tenant(work, Fraction(1, count)),) * count


def weighted(work: Work, *weights: int) -> tuple[Tenant, ...]:
    """Return tenants with shares in these proportions, which together have the device."""
    return tuple(Tenant(work, Fraction(weight, sum(weights))) for weight in weights)


def capped(work: Work, percent: int) -> tuple[Tenant, ...]:
    """Return one tenant whose ceiling is its share."""
    return (Tenant(work, Fraction(percent, 100), Fraction(percent, 100)),)
