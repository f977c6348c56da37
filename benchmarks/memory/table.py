"""Make docs/memory.md's table of what `make memory-matrix` last found.

usage: table.py [--check]       (--check: change nothing, exit code 1 when the page is not current)

The results are the JSON files that matrix.py writes, and what it printed on a machine of which no more came back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "memory.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- table: made by benchmarks/memory/table.py -->", "<!-- end of the table -->"
MARKS = ("limited", "counted", "freed")


def printed(path: Path, ways: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what matrix.py printed, as it would have written it.

    Args:
        path: What was printed, below a line that begins with the device's name and a comma.
        ways: The same ways as gone elsewhere: what each goes by is not printed.
    """
    by_name = {(way["family"], way["name"]): way for way in ways}
    head, *lines = path.read_text().splitlines()
    family, rows = "", []
    for line in lines:
        if not line.startswith(" "):
            family = line
            continue
        key = (family, line[2:58].strip())
        words = line[58:].split()
        if key in by_name:
            gone = len(words) >= len(MARKS) and all(word in ("yes", "NO") for word in words[: len(MARKS)])
            marks = {mark: gone and word == "yes" for mark, word in zip(MARKS, words, strict=False)}
            note = "" if gone and all(marks.values()) else line[58:].strip()
            rows.append({**by_name[key], "gone": gone, **marks, "note": note})
    return {"device": head.split(",")[0], "measured": head.split(":")[0], "ways": rows}


def results() -> list[dict[str, Any]]:
    """Return what was found last on each device, the simulated one first."""
    written = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("memory-*.json"))]
    ways = [way for result in written for way in result["ways"]]
    found = [printed(path, ways) for path in sorted(RESULTS.glob("memory-*.txt"))] + written
    last = {result["device"]: result for result in found}
    return sorted(last.values(), key=lambda result: (not result["device"].startswith("simulated"), result["device"]))


def cell(outcome: dict[str, Any] | None, mark: str) -> str:
    """Return one cell. None is empty: what was not gone says why."""
    if outcome is None:
        return "not yet gone"
    if not outcome["gone"]:
        return str(outcome["note"]).split(":")[0]
    if not outcome[mark]:
        return f"**no**: {outcome['note']}"
    if outcome["kind"] == "none":
        return "takes none"
    if outcome["kind"] == "another's":
        return {"limited": "yes, its maker", "counted": "yes, once"}.get(mark, "yes")
    if outcome["kind"] == "overhead":
        return {"limited": "once passed", "counted": "as overhead"}.get(mark, "yes")
    return "yes"


def table(found: list[dict[str, Any]]) -> str:
    """Return the table with a group of columns for each device."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    by_device = [{(way["family"], way["name"]): way for way in result["ways"]} for result in found]
    for ways in by_device:
        for key, way in ways.items():
            rows.setdefault(key, way)
    heads = [f"{mark}, {result['device']}" for result in found for mark in MARKS]
    lines = ["| way | functions | " + " | ".join(heads) + " |", "|---" * (2 + len(heads)) + "|"]
    family = ""
    for key, way in rows.items():
        if key[0] != family:
            family = key[0]
            lines.append(f"| **{family}** |" + " |" * (1 + len(heads)))
        functions = " ".join(f"`{name}`" for name in way["functions"])
        cells = [cell(ways.get(key), mark) for ways in by_device for mark in MARKS]
        lines.append(f"| {way['name']} | {functions} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(ways: list[dict[str, Any]]) -> str:
    """Return how many of the paths that the driver has held."""
    gone = [way for way in ways if way["gone"]]
    counts = ", ".join(f"{sum(way[mark] for way in gone)} {mark}" for mark in MARKS)
    return f"{len(gone)} paths: {counts}"


def totals(found: list[dict[str, Any]]) -> str:
    """Return a line for each device, as `make memory-matrix` ends."""
    return "\n\n".join(f"{result.get('measured', result['device'])}: {summary(result['ways'])}." for result in found)


def page() -> str:
    """Return the page as it should be."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _old, after = rest.split(END)
    found = results()
    return f"{before}{BEGIN}\n{totals(found)}\n\n{table(found)}\n{END}{after}"


def main() -> int:
    """Write the page, or check it."""
    wanted = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == wanted else 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
