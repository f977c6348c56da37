"""A tenant that trains and says when each step was done. Speaks as tenant.c does.

usage: torch_tenant.py gpt|resnet|mlp|matmul

"solo" answers with the nanoseconds of GPU time of one step, all queued; "run SECONDS AT" with one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from bench.training import Training

STEPS_A_WAIT = 10


def run(training: Training, seconds: float, at: float) -> dict[str, object]:
    """Train from the clock's `at` on, one step more than fits in `seconds`; return when each step was done.

    The moments are the GPU's: events are recorded after each step and read at the end, so that nothing waits for them.
    """
    waits_each_time = training.name == "matmul"
    time.sleep(max(0.0, at - time.monotonic()))
    begin, done = torch.cuda.Event(enable_timing=True), []
    begin.record()
    begin.synchronize()
    begun = time.monotonic() - at
    while True:
        is_last = time.monotonic() - at >= seconds
        loss = training.step()
        done.append(torch.cuda.Event(enable_timing=True))
        done[-1].record()
        if waits_each_time:
            torch.cuda.synchronize()
        elif len(done) % STEPS_A_WAIT == 0:
            loss.item()
        if is_last:
            break
    torch.cuda.synchronize()
    times = [begun + begin.elapsed_time(event) / 1e3 for event in done]
    return {"units": len(times), "seconds": time.monotonic() - at, "times": [round(moment, 6) for moment in times]}


def main() -> None:
    """Answer until the input ends."""
    training = Training(sys.argv[1])
    training.warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "solo":
            print(training.queued_ns(), flush=True)
        elif words[0] == "run":
            print(json.dumps(run(training, float(words[1]), float(words[2]))), flush=True)
        else:
            break


if __name__ == "__main__":
    main()
