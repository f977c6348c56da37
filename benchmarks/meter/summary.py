"""Print the meter's newest figures, the newest row of each case; the last line says how many are met.

What the meter costs is measured by the governor's benchmark, the library with it against none, in turns within one run
("alone …", "saturated …", "N × …"); its rows are read from the newest table of the same card.

usage: summary.py [FILE…]   (default: all of benchmarks/results/meter-*.json of the newest one's card)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from governor.summary import newest as newest_table

from meter import table

RESULTS = Path(__file__).resolve().parents[1] / "results"


# Largest part of native throughput that may be lost: alone, and with neighbours.
MOST_ALONE, MOST_BESIDE = 0.003, 0.01
COST_GROUPS = {"alone": MOST_ALONE, "saturated": MOST_BESIDE, "training": MOST_BESIDE}


def cost_rows(governor: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the library costs with its meter, read off a table of the governor's benchmark.

    Only of equal tenants: what has to be uneven, or is a ceiling, is no cost.
    """
    found = []
    for row in governor["rows"]:
        is_total = row["name"].startswith("alone, ") or row["name"].endswith("equal: total")
        if row["group"] in COST_GROUPS and is_total and row["ratio"] is not None:
            cost, target = 1 - row["ratio"], COST_GROUPS[row["group"]]
            found.append({**row, "cost": cost, "target": target, "met": cost <= target})
    return found


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
    card_name = last["card"].replace(" ", "-").lower()
    governor = newest_table(list(RESULTS.glob(f"governor-*-{card_name}.json")))
    costs = cost_rows(json.loads(governor.read_text(encoding="utf-8"))) if governor else []
    if governor and costs:
        print(f"\n{governor.name}: throughput lost against no library, native sharing beside others; below 0 = gained")
        for row in costs:
            print(table.cost_line(row))
    every = [*newest.values(), *costs]
    print(f"{sum(row['met'] for row in every)} of {len(every)} met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
