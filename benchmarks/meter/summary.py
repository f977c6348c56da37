"""Print the meter's newest figures, the newest row of each case; the last line says how many are met.

usage: summary.py [FILE…]   (default: all of benchmarks/results/meter-*.json of the newest one's card)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from meter import table

RESULTS = Path(__file__).resolve().parents[1] / "results"


def main() -> int:
    """Print the table; 0 whether or not the targets are met, 1 without a file."""
    files = [Path(name) for name in sys.argv[1:]] or sorted(
        path for path in RESULTS.glob("meter-*.json") if "-simulated-" not in path.name
    )
    if not files:
        sys.exit("no results yet: run benchmarks/meter/run.py on a machine with a GPU")
    results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    last = results[-1]
    rows = [row for result in results if result["card"] == last["card"] for row in result["rows"]]
    newest = {(row["case"], row["tenants"], row["neighbours"], row["quantity"]): row for row in rows}
    print(f"{files[-1].name}: {last['card']}, driver {last['driver']}, up to {last['date']}")
    print(f"{table.HEADING} commit   others")
    for row in newest.values():
        print(f"{table.line(row)} {row['commit']:8} {table.others(row)}")
    print(f"{sum(row['met'] for row in newest.values())} of {len(newest)} met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
