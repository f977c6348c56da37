"""Training steps of which the GPU time alone is known; what torch clients of the benchmarks run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import torch

WARM_UP_STEPS = 8
MOST_HOLD_MS = 200
NAMES = ("gpt", "resnet", "mlp", "matmul")


class Training:
    """A model and one step of it; or, for "matmul", one matrix product of 8192 × 8192."""

    def __init__(self, name: str) -> None:
        """Make the model on the GPU.

        Args:
            name: One of `NAMES`.
        """
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = True
        self.name = name
        if name == "matmul":
            self.a, self.b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            self.c = torch.empty_like(self.a)
        elif name == "resnet":
            import torchvision

            self.model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
            self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
            self.x = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
            self.y = torch.randint(0, 1000, (64,), device="cuda")
        elif name == "mlp":
            layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()) for _ in range(8)]
            self.model = torch.nn.Sequential(*layers).cuda()
            self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3, capturable=True)
            self.x = torch.randn(256, 512, device="cuda")
        else:
            layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
            self.model = torch.nn.TransformerEncoder(layer, 12).cuda()
            self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, capturable=True)
            self.x = torch.randn(16, 512, 1024, device="cuda")

    def step(self) -> torch.Tensor:
        """Make one step; return its loss (for "matmul", an element of the product)."""
        if self.name == "matmul":
            torch.mm(self.a, self.b, out=self.c)
            return self.c[0, 0]
        self.optimizer.zero_grad(set_to_none=self.name != "mlp")
        with torch.autocast("cuda", torch.bfloat16, enabled=self.name != "mlp", cache_enabled=False):
            y = self.model(self.x)
            loss = torch.nn.functional.cross_entropy(y, self.y) if self.name == "resnet" else y.float().pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def warm_up(self) -> None:
        """Make the first steps, which are not like the others."""
        for _ in range(WARM_UP_STEPS):
            self.step()
        torch.cuda.synchronize()

    @cached_property
    def graph(self) -> torch.cuda.CUDAGraph:
        """One step, captured as a CUDA graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph

    @cached_property
    def replayed_ns(self) -> float:
        """The GPU time of one step, captured as a graph and replayed back to back: the best of three.

        Too short for steps of many short launches: in a graph a launch starts a microsecond sooner after the one
        before than on a stream (docs/meter.md).
        """
        replays, best = 5, float("inf")
        for _ in range(3):
            begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record()
            for _ in range(replays):
                self.graph.replay()
            ended.record()
            torch.cuda.synchronize()
            best = min(best, begun.elapsed_time(ended) * 1e6 / replays)
        return best

    def queued_ns(self) -> float:
        """Return the GPU time of one step whose launches were all queued before the first ran: the best of five."""
        return min(self.queued_steps_ns(5, sleep))

    def queued_steps_ns(self, count: int, hold: Callable[[int], None] | None = None) -> list[float]:
        """Return the GPU time of some steps whose launches were all queued before the first of them ran.

        What holds the stream until the host has made a step's launches is a kernel that sleeps, in which a GPU cools;
        or the step's own graph, replayed, which keeps its power and with it its clocks where training has them. Of a
        step with more launches than a stream's queue takes (1,021), the rest is launched meanwhile.

        Args:
            count: How many steps.
            hold: Puts so many milliseconds of work on the stream; `None` = the step's own graph.
        """
        graph_ms = 0.0 if hold is not None else self.replayed_ns / 1e6
        hold_ms, found = 10, list[float]()
        while len(found) < count:
            begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if hold is not None:
                hold(hold_ms)
            else:
                for _ in range(math.ceil(hold_ms / graph_ms)):
                    self.graph.replay()
            begun.record()
            self.step()
            is_queued = not begun.query()
            ended.record()
            torch.cuda.synchronize()
            if is_queued or hold_ms >= MOST_HOLD_MS:
                found.append(begun.elapsed_time(ended) * 1e6)
            else:
                hold_ms *= 2
        return found


def sleep(milliseconds: int) -> None:
    """Put a kernel on the stream that sleeps for about so long."""
    torch.cuda._sleep(milliseconds * 2_000_000)  # clock cycles
