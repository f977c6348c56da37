"""The meter's cases: what the tenants do, how many there are, how wrong the meter may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ONE_LAUNCH = ("half-way", "after it")


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        name: As shown.
        command: What each tenant runs, after the worker's name: `("work", "burn", "20")` or `("train", "gpt")`.
        tenants: How many of them.
        target: Largest relative error of the quantity that is allowed; for `"seconds until flagged"`, seconds.
        neighbours: Saturating tenants beside those that are measured.
        quantity: What of theirs is looked at.
        neighbour: What each neighbour runs.
        kind: How it is measured: `known_work`, `one_launch` or `lying`.
        is_first: Of one launch: whether it is its program's first.
        said: Of a liar: the part of its GPU time that it lets stand.
    """

    name: str
    command: tuple[str, ...]
    tenants: int
    target: float
    neighbours: int = 0
    quantity: Literal["gpu_time", "wait", "seconds until flagged"] = "gpu_time"
    neighbour: tuple[str, ...] = ("known", "burn", "20")
    kind: Literal["known_work", "one_launch", "lying"] = "known_work"
    is_first: bool = False
    said: float = 1.0

    @property
    def row_names(self) -> tuple[str, ...]:
        """The rows that come of it."""
        return tuple(f"{self.name}, {when}" for when in ONE_LAUNCH) if self.kind == "one_launch" else (self.name,)

    def as_row(self) -> dict[str, object]:
        """Return what of it stands in a row."""
        return {
            "case": self.name,
            "tenants": self.tenants,
            "neighbours": self.neighbours,
            "quantity": self.quantity,
            "target": self.target,
        }


def launch_cases() -> list[Case]:
    """Return the cases of one launch length, always busy, at 1, 2, 4 and 8 tenants."""
    lengths_us = (5, 20, 100, 500, 1000, 2000, 3600, 20000, 100000)
    return [
        Case(
            f"{length_us} us launches",
            ("work", "burn", str(length_us)),
            tenants,
            0.02 if 20 <= length_us <= 2000 else 0.05,
        )
        for length_us in lengths_us
        for tenants in (1, 2, 4, 8)
    ]


def shape_cases() -> list[Case]:
    """Return mixed functions, graphs, many streams, captures in between, and waiting for each launch."""
    return [
        Case(name, command, tenants, target)
        for name, command, target in (
            ("mixed functions, 100 us", ("work", "mixed", "100"), 0.02),
            ("graphs of 20 x 20 us", ("work", "graph", "20"), 0.03),
            ("16 streams", ("work", "streams", "20", "16"), 0.05),
            ("100 streams", ("work", "streams", "20", "100"), 0.05),
            ("3 functions on 16 streams", ("work", "crowd", "40", "16"), 0.05),
            ("captures in between, legacy stream", ("work", "capture", "20"), 0.02),
            ("waiting for each launch, 500 us", ("work", "sync", "500"), 0.02),
        )
        for tenants in (1, 2, 4)
    ]


def nested_cases() -> list[Case]:
    """Return launches that are made by a launch on the device."""
    return [
        Case(f"device-side launches, {length_us} us", ("nested", "nested", str(length_us)), tenants, 0.05)
        for length_us in (100, 1000)
        for tenants in (1, 2, 4)
    ]


def training_cases() -> list[Case]:
    """Return the three training loops alone and together."""
    return [
        Case(f"training {name}", ("train", name), tenants, 0.03)
        for name in ("gpt", "resnet", "mlp")
        for tenants in (1, 2, 4)
    ]


def wait_cases() -> list[Case]:
    """Return short launches beside saturating neighbours: how long they waited."""
    return [
        Case("a 20 us launch every 2 ms waits", ("work", "burst", "20"), 1, 0.10, neighbours, "wait")
        for neighbours in (1, 3)
    ] + [
        Case("200 us waited for each time waits", ("work", "sync", "200"), 1, 0.10, neighbours, "wait")
        for neighbours in (1, 3)
    ]


def argument_cases() -> list[Case]:
    """Return launches of which an argument says how long they take: one function, grid and block."""
    return [
        Case(name, ("known", mode, "100"), tenants, 0.05)
        for name, mode in (("arguments: 100 us and 1 ms in turn", "two"), ("arguments: 100 us to 1 ms", "random"))
        for tenants in (1, 2, 4)
    ]


def memory_cases() -> list[Case]:
    """Return copies and fills within the device, which its SMs do."""
    return [
        Case(f"{told} of 256 MiB in the device", ("known", mode, "256"), tenants, 0.05)
        for told, mode in (("copies", "copy"), ("fills", "fill"))
        for tenants in (1, 2, 4)
    ]


def one_launch_cases() -> list[Case]:
    """Return one launch of four seconds, as a persistent kernel is, alone and beside a busy tenant."""
    return [
        Case(name, ("known", "one", "4000000"), 1, 0.05, neighbours, kind="one_launch", is_first=is_first)
        for name, is_first in (("first launch, 4 s", True), ("later launch, 4 s", False))
        for neighbours in (0, 1)
    ]


def lying_cases() -> list[Case]:
    """Return a busy tenant that writes too little into its usage page, alone and beside an honest one."""
    burn = ("known", "burn", "20")
    return [
        Case(name, burn, 1, 2.0, neighbours, "seconds until flagged", kind="lying", said=said)
        for name, said in (("usage halved: flagged after", 0.5), ("usage zero: flagged after", 0.0))
        for neighbours in (0, 1)
    ]


ALL = {
    "launches": launch_cases,
    "arguments": argument_cases,
    "memory": memory_cases,
    "one launch": one_launch_cases,
    "lying": lying_cases,
    "nested": nested_cases,
    "shapes": shape_cases,
    "training": training_cases,
    "waits": wait_cases,
}
