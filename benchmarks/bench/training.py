"""Training steps of which the GPU time alone is known; what torch clients of the benchmarks run."""

from __future__ import annotations

import torch

WARM_UP_STEPS = 8
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

    def replayed_ns(self) -> float:
        """Return the GPU time of one step, captured as a graph and replayed back to back: the best of three.

        Too short for steps of many short launches: in a graph a launch starts a microsecond sooner after the one
        before than on a stream (docs/meter.md).
        """
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        replays, best = 20, float("inf")
        for _ in range(4):
            begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record()
            for _ in range(replays):
                graph.replay()
            ended.record()
            torch.cuda.synchronize()
            best = min(best, begun.elapsed_time(ended) * 1e6 / replays)
        return best

    def queued_ns(self) -> float:
        """Return the GPU time of one step whose launches were all queued before the first ran: the best of five.

        A kernel that sleeps holds the stream until the host has made the step's launches, so that none waits for the
        host. Of a step with more launches than a stream's queue takes (1,021), the rest is launched meanwhile.
        """
        sleep_cycles, best = 20_000_000, float("inf")  # some 10 ms
        for _ in range(5):
            begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            while True:
                torch.cuda._sleep(sleep_cycles)
                begun.record()
                self.step()
                queued_in_time = not begun.query()
                ended.record()
                torch.cuda.synchronize()
                if queued_in_time or sleep_cycles > 400_000_000:
                    break
                sleep_cycles *= 2
            best = min(best, begun.elapsed_time(ended) * 1e6)
        return best
