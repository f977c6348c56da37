"""A tenant that trains, with a step whose GPU time alone is known. Speaks as work.cu does.

usage: train_work.py gpt|resnet|mlp

The known figure is a step under event timing whose launches were all queued before the first ran: the GPU's part of
a step, without the host's pauses. Beside it, for the record, the same step captured as a CUDA graph and replayed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from bench.training import Training


def main() -> None:
    """Answer until the input ends."""
    training = Training(sys.argv[1])
    training.warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("solo"):
            print(training.queued_ns(), training.replayed_ns(), flush=True)
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
