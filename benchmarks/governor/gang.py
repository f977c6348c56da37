"""Two tenants, each with two ranks of a collective on the same two GPUs."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from fractions import Fraction

from governor.experiment import TORCH_START_SECONDS, Experiment, no_torch
from governor.fairness import parts
from governor.peers import Peer
from governor.rows import Row, Target
from governor.stage import NATIVE, OURS, Answer, Stage
from governor.work import NCCL, Tenant

SECONDS, NATIVE_SECONDS = 300.0, 20.0
MOST_STOP_SECONDS = 5.0
# Of the switch between GPUs, which other machines' programs may share.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}


class Gang(Experiment):
    """An all-reduce on one stream of each GPU: whoever is held back on one of them only holds up the other."""

    name = "two NCCL tenants"
    group = "gang"
    tenants = (Tenant(NCCL, Fraction(1, 2), processes=2, devices=2),) * 2

    def why_not(self, stage: Stage) -> str:
        """Return why it cannot be run on this machine; empty = it can."""
        if stage.card.count < 2:
            return f"needs two GPUs with NCCL: this machine has {stage.card.count}"
        return "" if stage.is_simulated else no_torch(stage, self.tenants)

    def estimate_seconds(self, stage: Stage, peers: Sequence[Peer]) -> float:
        """Return about how long it takes."""
        return 2 * TORCH_START_SECONDS + (SECONDS + NATIVE_SECONDS) * stage.scale

    def measure(self, stage: Stage, peers: Sequence[Peer]) -> list[Row]:
        """Return its rows."""
        native = self._run(stage, NATIVE, NATIVE_SECONDS * stage.scale)
        seconds = SECONDS * stage.scale
        ours = self._run(stage, OURS, seconds)
        native_rates = [answer.progress.rate(0, NATIVE_SECONDS * stage.scale) for answer in native]
        rates = [answer.progress.rate(0, seconds) for answer in ours]
        stop = max(answer.progress.longest_pause(0, seconds) for answer in ours)
        return [
            Row(
                *(self.name, "two NCCL tenants: the first's part", 2, 100 * parts(rates)[0]),
                *(100 * parts(native_rates)[0], "% of what was had", self._part),
                detail={"seconds": seconds, "rates": rates, "native_rates": native_rates},
            ),
            Row(self.name, "two NCCL tenants: longest stop in 5 minutes", 2, stop, None, "s", self._stop),
        ]

    def failed(self, why: str) -> list[Row]:
        """Return its rows for when `measure` raised; a deadlock is one of the reasons."""
        return [
            Row(self.name, "two NCCL tenants: the first's part", 2, None, None, "%", self._part, error=why),
            Row(self.name, "two NCCL tenants: longest stop in 5 minutes", 2, None, None, "s", self._stop, error=why),
        ]

    _part = Target("within", 50, 3)
    _stop = Target("at most", MOST_STOP_SECONDS)

    def _run(self, stage: Stage, arm: str, seconds: float) -> list[Answer]:
        extra = [{"MASTER_PORT": str(_free_port()), **NO_MULTICAST} for _ in self.tenants]
        with stage.crew(arm, self.tenants, extra) as crew:
            for workers in crew.workers:
                for rank, worker in enumerate(workers):
                    worker.tell(f"rank {rank}")
            crew.wait_ready()
            return crew.run(seconds)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
