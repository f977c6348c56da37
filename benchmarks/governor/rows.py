"""The table: rows with their targets, and the file they are kept in."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Target:
    """What a row has to reach.

    Attributes:
        kind: `"at least"`, `"at most"`, or `"within"` (of `value`, by `tolerance` to either side).
        value: In the row's unit; where `of_native`, a fraction of the native figure.
        tolerance: In the row's unit; for `"within"` only.
        of_native: Whether the ratio to the native figure is meant, not the figure itself.
    """

    kind: Literal["at least", "at most", "within"]
    value: float
    tolerance: float = 0.0
    of_native: bool = False

    def is_met(self, ours: float | None, ratio: float | None) -> bool:
        """Return whether a row reaches it; what was not measured does not."""
        figure = ratio if self.of_native else ours
        if figure is None:
            return False
        if self.kind == "within":
            return abs(figure - self.value) <= self.tolerance
        return figure >= self.value if self.kind == "at least" else figure <= self.value

    def __str__(self) -> str:
        """Return it as shown in the table."""
        if self.kind == "within":
            return f"{self.value:g} ± {self.tolerance:g}"
        return f"{'≥' if self.kind == 'at least' else '≤'} {self.value:g}{' of native' if self.of_native else ''}"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        experiment: Name of the experiment it is from; it is measured again as a whole.
        name: What was measured.
        tenants: How many.
        ours, native: Figures with the library and without; `None` = not measured, or means nothing there.
        peers: Figures of others by name: `"mps"`, or what `--peer-name` says.
        unit: Of all figures.
        target: What ours has to reach.
        runs: Ours, one by one, where the figure is a median.
        detail: More of ours that explains the figure, by name.
        error: Why there is no figure; empty = there is one.
    """

    experiment: str
    name: str
    tenants: int
    ours: float | None
    native: float | None
    unit: str
    target: Target
    peers: Mapping[str, float | None] = field(default_factory=dict)
    runs: Sequence[float] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours as a fraction of native; `None` where one is missing or native is 0."""
        return self.ours / self.native if self.ours is not None and self.native else None

    @property
    def is_met(self) -> bool:
        """Whether the target is reached."""
        return not self.error and self.target.is_met(self.ours, self.ratio)

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in the file."""
        digits = 5
        told = asdict(self)
        told["target"] = str(self.target)
        told["ratio"] = self.ratio
        told["met"] = self.is_met
        told["runs"] = list(self.runs)
        return {key: _rounded(value, digits) for key, value in told.items()}


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one, digits) for one in value]
    return value


class Table:
    """The rows of one card on one day, on disk after every experiment."""

    def __init__(self, path: Path, head: Mapping[str, Any], earlier: Path | None = None) -> None:
        """Take up what is there.

        Args:
            path: The file; written by `add`.
            head: What is true of the machine: card, driver, …
            earlier: File whose rows are taken over when there is none at `path`; only if it is of the same card.
        """
        self.path = path
        self.head = dict(head)
        self.rows: list[dict[str, Any]] = []
        found = path if path.exists() else earlier
        if found is not None and found.exists():
            told = json.loads(found.read_text(encoding="utf-8"))
            if told.get("card") == self.head.get("card"):
                self.rows = list(told["rows"])

    def is_done(self, experiment: str, source: str, scale: float, peers: Collection[str]) -> bool:
        """Return whether an experiment has figures of this source, no shorter, and with all of these peers."""
        mine = [row for row in self.rows if row["experiment"] == experiment]
        return bool(mine) and all(
            row["source"] == source
            and not row["error"]
            and row["scale"] >= scale
            and set(peers) <= set(row["peers_asked"])
            for row in mine
        )

    def add(self, rows: Sequence[Row], measured_at: Mapping[str, Any]) -> None:
        """Put an experiment's rows in the place of its earlier ones, and write the file.

        Args:
            rows: Of one experiment, at least one.
            measured_at: What is true of these rows alone: commit, source, scale, …
        """
        fresh = [{**row.as_json(), **measured_at} for row in rows]
        place = next((i for i, row in enumerate(self.rows) if row["experiment"] == rows[0].experiment), len(self.rows))
        kept = [row for row in self.rows if row["experiment"] != rows[0].experiment]
        self.rows = [*kept[:place], *fresh, *kept[place:]]
        self._write()

    def note_skipped(self, reasons: Mapping[str, str]) -> None:
        """Keep why some experiments cannot be run on this machine, by name."""
        if reasons:
            self.head["skipped"] = dict(reasons)
        if self.rows:
            self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        temporary.write_text(json.dumps({**self.head, "rows": self.rows}, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self.path)


def tally(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the last line of every table: how many targets are met."""
    return f"{sum(bool(row['met']) for row in rows)} of {len(rows)} met"


def line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of text."""
    if row["error"]:
        return f"{row['name']:<52} {row['tenants']:>3}  {'NOT MET':7}  {row['error']}"
    peers = "  ".join(f"{name} {shown(value)}" for name, value in row["peers"].items())
    return (
        f"{row['name']:<52} {row['tenants']:>3}  {'met' if row['met'] else 'NOT MET':7}"
        f" {shown(row['ours']):>10} {shown(row['native']):>10} {shown(row['ratio']):>7}  {row['target']:<18}"
        f" {row['unit']:<22} {peers}"
    ).rstrip()


HEADING = f"{'':<52} {'ten':>3}  {'':7} {'ours':>10} {'native':>10} {'ratio':>7}  {'target':<18} unit"


def shown(value: float | None) -> str:
    """Return a figure for people: four digits, `-` where there is none."""
    return "-" if value is None else f"{value:.4g}"
