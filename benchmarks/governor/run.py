"""Measure what each tenant gets of a GPU under the governor, beside native sharing and others, in one table.

Every row is measured in the same run as its native twin. What a tenant got is counted in its own finished work,
of which the GPU time alone is measured in the same run as well. Writes the table after each experiment; one that
is done for this source is not run again, so that a run cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE.parent)]

from bench.agent import NodeAgent, running_agent  # noqa: E402
from bench.machine import Card, card, commit, source  # noqa: E402
from bench.processes import WorkerError  # noqa: E402

from governor.experiment import Experiment  # noqa: E402
from governor.peers import Mps, Peer, PreloadPeer  # noqa: E402
from governor.rows import HEADING, Table, line, tally  # noqa: E402
from governor.stage import Stage, native_environment  # noqa: E402
from governor.summary import newest  # noqa: E402
from governor.table import GROUPS, experiments  # noqa: E402
from jupyter_vgpu.errors import BadValueError  # noqa: E402
from jupyter_vgpu.native import INTERCEPT_LIBRARY, present  # noqa: E402
from jupyter_vgpu.sim import create_boards, parse_boards  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression ({error})") from None


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_argument_group("what")
    what.add_argument("--only", choices=GROUPS, action="append", help="one group of experiments; may be repeated")
    what.add_argument(
        "--match", type=_pattern, metavar="REGEX", help="experiments in whose name it is found (`--list` names them)"
    )
    what.add_argument("--again", action="store_true", help="also those that are done for this source")
    what.add_argument("--list", action="store_true", help="list the experiments, and run none")
    how = parser.add_argument_group("how")
    how.add_argument("--simulate", metavar="BOARD", help='on a simulated board, as "h200": shape, not figures')
    how.add_argument(
        "--budget",
        type=float,
        default=540.0,
        metavar="SECONDS",
        help="no experiment is begun that would not end within so many seconds (540)",
    )
    how.add_argument("--scale", type=float, default=1.0, help="what all durations are multiplied by (1)")
    peers = parser.add_argument_group("beside native")
    peers.add_argument("--mps", action="store_true", help="under NVIDIA's MPS, too, with a server of our own")
    peers.add_argument("--peer-preload", type=Path, metavar="LIBRARY", help="with another preload library, too")
    peers.add_argument("--peer-name", default="peer", metavar="NAME", help="its name in the table (peer)")
    peers.add_argument(
        "--peer-env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="its settings; {share}, {ceiling} (whole per cents), {memory_mib} and {number} are a tenant's; may be "
        "repeated",
    )
    record = parser.add_argument_group("where it goes")
    record.add_argument(
        "--out", type=Path, metavar="FILE", help="the table (benchmarks/results/governor-DATE-CARD.json)"
    )
    record.add_argument(
        "--resume",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="FILE",
        help="take over the rows of an earlier table of this card (the newest in benchmarks/results)",
    )
    record.add_argument("--commit", default=commit(), help="what is measured, for the record (from git)")
    record.add_argument(
        "--source", default=source(), help="what an experiment is done for (a digest of the product's sources)"
    )
    options = parser.parse_args(arguments)
    if not 0 < options.scale <= 10:
        parser.error(f"--scale: {options.scale} is not above 0 and at most 10")
    if options.peer_env and not options.peer_preload:
        parser.error("--peer-env: is for the library of --peer-preload, and none is named")
    if not wanted(options):
        parser.error("--only and --match leave no experiment: `--list` names them")
    if options.simulate:
        try:
            parse_boards(options.simulate)
        except BadValueError as error:
            parser.error(f"--simulate: {options.simulate!r} is not known; {error.allowed}")
    return options


def wanted(options: argparse.Namespace) -> list[Experiment]:
    """Return the experiments that the options name, in the order they are run."""
    return [
        experiment
        for experiment in experiments()
        if (options.only is None or experiment.group in options.only)
        and (options.match is None or options.match.search(experiment.name))
    ]


def asked_peers(options: argparse.Namespace) -> list[Peer]:
    """Return whom to compare with, beside native sharing.

    Raises:
        ValueError: A setting of the other library is not allowed.
    """
    peers: list[Peer] = [Mps()] if options.mps else []
    if options.peer_preload:
        peers.append(PreloadPeer(options.peer_name, options.peer_preload, options.peer_env))
    return peers


def _earlier(options: argparse.Namespace, device: Card) -> Path | None:
    if options.resume is None:
        return None
    if options.resume != Path():
        return Path(options.resume)
    return newest(list(RESULTS.glob(f"governor-*-{device.file_name}.json")))


def measure(stage: Stage, experiment: Experiment, peers: Sequence[Peer], table: Table, told: dict[str, object]) -> None:
    """Run one experiment, put its rows into the table and print them."""
    begun = time.monotonic()
    try:
        stage.agent.ensure()
        fresh = experiment.measure(stage, peers)
    except WorkerError as error:
        fresh = experiment.failed(str(error))
    table.add(
        fresh,
        {
            **told,
            "group": experiment.group,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "took_seconds": round(time.monotonic() - begun, 1),
            "scale": stage.scale,
            "peers_asked": sorted(peer.name for peer in peers),
        },
    )
    for row in table.rows:
        if row["experiment"] == experiment.name:
            print(line(row), flush=True)


def run_all(stage: Stage, options: argparse.Namespace, peers: Sequence[Peer], table: Table) -> None:
    """Run what is wanted and not done, as far as the budget goes."""
    begun = time.monotonic()
    told: dict[str, object] = {"commit": options.commit, "source": options.source}
    names = [peer.name for peer in peers]
    skipped: dict[str, str] = {}
    left = 0
    print(HEADING)
    for experiment in wanted(options):
        if reason := experiment.why_not(stage):
            skipped[experiment.name] = reason
            print(f"not run: {experiment.name}: {reason}")
        elif not options.again and table.is_done(experiment.name, options.source, stage.scale, names):
            continue
        elif time.monotonic() - begun + experiment.estimate_seconds(stage, peers) > options.budget:
            left += 1
        else:
            measure(stage, experiment, peers, table, told)
    table.note_skipped(skipped)
    if left:
        print(f"out of budget: {left} experiments are left; run again with --resume to go on")
    print(tally(table.rows))


def list_experiments(options: argparse.Namespace, peers: Sequence[Peer]) -> None:
    """Print what is wanted, and about how long it takes."""
    # Nothing is started: only what has to do with lengths is looked at.
    stage = Stage(Card("", "", 2), Path(), NodeAgent(Path(), {}), {}, bool(options.simulate), options.scale)
    seconds = [experiment.estimate_seconds(stage, peers) for experiment in wanted(options)]
    for experiment, one in zip(wanted(options), seconds, strict=True):
        print(f"{experiment.group:10} {one:6.0f} s  {experiment.name}")
    print(f"{'':10} {sum(seconds):6.0f} s  in all, at most")


def _card_here() -> Card:
    try:
        return card()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no NVIDIA GPU is found here ({error}): `--simulate h200` measures on a simulated board")


def _simulated_card(boards: str) -> Card:
    return Card(f"simulated {boards}", "simulated", len(parse_boards(boards)))


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Measure what is still missing; 0 whether or not the targets are met."""
    options = parse(arguments)
    try:
        peers = asked_peers(options)
    except ValueError as error:
        sys.exit(str(error))
    if options.list:
        list_experiments(options, peers)
        return 0
    present(INTERCEPT_LIBRARY)
    # What is to be undone is undone when this is ended, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    date = time.strftime("%Y-%m-%d")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jvgpu-governor-")))
        state = create_boards(folder / "boards", options.simulate) if options.simulate else None
        device = _simulated_card(options.simulate) if options.simulate else _card_here()
        path = options.out or RESULTS / f"governor-{date}-{device.file_name}.json"
        head = {"date": date, "card": device.name, "driver": device.driver, "processors": os.cpu_count()}
        table = Table(path, head, _earlier(options, device))
        environment = native_environment(state)
        try:
            agent = stack.enter_context(running_agent(folder, environment))
        except WorkerError as error:
            sys.exit(str(error))
        stage = Stage(device, folder, agent, environment, state is not None, options.scale)
        run_all(stage, options, peers, table)
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
