"""A tenant that trains, with a step whose GPU time alone is known. Speaks as work.cu does.

usage: train_work.py gpt|resnet|mlp

The known figure is a step under event timing whose launches were all queued before the first ran: the GPU's part of
a step, without the host's pauses. A kernel that sleeps holds them up; the middle one of seven counts, measured after
0.3 s of training, so that clocks are what they are in training. "otherwise" answers, for the record, with the middle
one of five that were held up by the step's own graph, which does not let the GPU cool, and with that graph, replayed.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from bench.training import Training, sleep

WARM_SECONDS = 0.3


def otherwise_ns(training: Training) -> list[float]:
    """Return the GPU time of a step alone, as it is otherwise seen: held up by its own graph, and that, replayed."""
    train_for(training, WARM_SECONDS)
    return [statistics.median(training.queued_steps_ns(5)), training.replayed_ns]


def train_for(training: Training, seconds: float) -> int:
    """Train for so long as a program does, looking at the loss now and then; return how many steps."""
    steps, begun = 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        loss = training.step()
        steps += 1
        if steps % 10 == 0:
            loss.item()
    torch.cuda.synchronize()
    return steps


def main() -> None:
    """Answer until the input ends."""
    training = Training(sys.argv[1])
    training.warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("solo"):
            train_for(training, WARM_SECONDS)
            print(statistics.median(training.queued_steps_ns(7, sleep)), flush=True)
        elif line.startswith("otherwise"):
            print(*otherwise_ns(training), flush=True)
        elif line.startswith("run "):
            begun = time.monotonic()
            steps = train_for(training, float(line.split()[1]))
            print(steps, time.monotonic() - begun, 0, flush=True)
        else:
            break


if __name__ == "__main__":
    main()
