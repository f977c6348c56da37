"""The table: one row of figures as one line of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADING = f"{'case':36} {'tenants':>7} {'error':>9} {'truth':>8} {'target':>7}          "


def line(row: Mapping[str, Any]) -> str:
    """Return a row as one line, without what is known of others and clocks; rows of earlier days lack the truth's."""
    tenants = f"{row['tenants']}+{row['neighbours']}"
    sure = f"± {row['truth_spread']:.2%}" if "truth_spread" in row else ""
    verdict = "met" if row["met"] else "NOT MET"
    error, target = (
        (f"{row['flagged_seconds']:.2f} s" if row["flagged_seconds"] is not None else "never", f"{row['target']:g} s")
        if "flagged_seconds" in row
        else (f"{row['error']:+.2%}", f"{row['target']:.0%}")
    )
    return f"{row['case']:36} {tenants:>7} {error:>9} {sure:>8} {target:>7} {verdict:8}"


def others(row: Mapping[str, Any]) -> str:
    """Return what other ways to measure the same are off by, and how many honest tenants the agent accused."""
    told = [f"{name} {error:+.0%}" for name, error in row.get("others_errors", {}).items()]
    if row.get("wrongly_flagged"):
        told.append(f"flagged and honest: tenant {', '.join(map(str, row['wrongly_flagged']))}")
    return ", ".join(told)


def clocks(row: Mapping[str, Any]) -> str:
    """Return the SM clock before, during and after, as far as it is known; empty = it is not."""
    seen = row.get("sm_clock_mhz", {})
    spans = [f"{seen[span]:.0f}" for span in ("before", "during", "after") if span in seen]
    return f"{'/'.join(spans)} MHz" if spans else ""


def cost_line(row: Mapping[str, Any]) -> str:
    """Return what the library costs in one row of the governor's table as one line."""
    verdict = "met" if row["met"] else "NOT MET"
    figures = f"{row['cost']:>+9.2%} {'':8} {row['target']:>7.1%}"
    return f"{row['name']:36} {row['tenants']:>5}+0 {figures} {verdict:8} {row['commit']}"
