"""A tenant that trains, with a step whose GPU time alone is known. Speaks as work.cu does.

usage: train_work.py gpt|resnet|mlp

The known figure is the same step captured as a CUDA graph and replayed back to back under event
timing: the GPU's part of a step, without the host's pauses.
"""

from __future__ import annotations

import sys
import time

import torch

WARM_UP_STEPS = 8


class Training:
    """A model and one step of it."""

    def __init__(self, name: str) -> None:
        """Make the model on the GPU."""
        torch.manual_seed(0)
        if name == "resnet":
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
        self.name = name

    def step(self) -> torch.Tensor:
        """Make one step of training."""
        self.optimizer.zero_grad(set_to_none=self.name != "mlp")
        with torch.autocast("cuda", torch.bfloat16, enabled=self.name != "mlp", cache_enabled=False):
            y = self.model(self.x)
            loss = torch.nn.functional.cross_entropy(y, self.y) if self.name == "resnet" else y.float().pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def alone_ns(self) -> float:
        """Return the GPU time of one step: the captured step, replayed, the best of three."""
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


def main() -> None:
    """Answer until the input ends."""
    torch.backends.cuda.matmul.allow_tf32 = True
    training = Training(sys.argv[1])
    for _ in range(WARM_UP_STEPS):
        training.step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("solo"):
            print(training.alone_ns(), flush=True)
        elif line.startswith("run "):
            seconds, steps, begun = float(line.split()[1]), 0, time.monotonic()
            while time.monotonic() - begun < seconds:
                loss = training.step()
                steps += 1
                if steps % 10 == 0:
                    loss.item()
            torch.cuda.synchronize()
            print(steps, time.monotonic() - begun, 0, flush=True)
        else:
            break


if __name__ == "__main__":
    main()
