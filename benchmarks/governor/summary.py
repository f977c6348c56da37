"""Print the newest table of the governor; the last line says how many targets are met.

usage: summary.py [FILE]   (default: the newest benchmarks/results/governor-*.json, of a real card if there is one)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from governor import rows

RESULTS = Path(__file__).resolve().parents[1] / "results"


def newest(files: Sequence[Path]) -> Path | None:
    """Return the table to show of several: a real card's before a simulated board's, then the latest day's."""
    return max(files, key=lambda path: ("-simulated-" not in path.name, path.name), default=None)


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0 whether or not the targets are met, 1 without a file."""
    path = Path(arguments[0]) if arguments else newest(list(RESULTS.glob("governor-*.json")))
    if path is None or not path.exists():
        sys.exit("no table yet: `make bench` makes one, on a machine with a GPU or with BENCH='--simulate h200'")
    told = json.loads(path.read_text(encoding="utf-8"))
    print(f"{path.name}: {told['card']}, driver {told['driver']}, {told['date']}")
    print(rows.HEADING)
    group = ""
    for row in told["rows"]:
        if row["group"] != group:
            group = row["group"]
            print(f"-- {group}")
        print(rows.line(row))
    commits = sorted({row["commit"] for row in told["rows"]})
    print(f"measured at {', '.join(commits)}")
    short = [row for row in told["rows"] if row["scale"] < 1]
    if short:
        print(f"{len(short)} rows were measured for a shorter time than they should be")
    for experiment, reason in told.get("skipped", {}).items():
        print(f"not run: {experiment}: {reason}")
    print(rows.tally(told["rows"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
