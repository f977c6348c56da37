"""The ways to get device memory: how each takes some, and gives it back.

Each `Way` is a row of docs/memory.md. `walk.py` goes it in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from driver import Driver

Kind = Literal["charged", "overhead", "another's", "none"]

# What a way's `take` returns: all that its `give` needs.
Taken = Any
Take = Callable[[Driver, int], Taken]
Give = Callable[[Driver, Taken], None]


@dataclass(frozen=True)
class Way:
    """One way.

    Attributes:
        family: Heading in the table.
        name: What a reader calls it.
        functions: Exported symbols it goes by. A driver that lacks one of them does not have the way.
        take: Takes at least so many bytes, a multiple of 2 MiB; raises `DriverError` with the driver's answer.
        give: Gives back what `take` returned.
        kind: `charged`: by the call. `overhead`: no call shows how much; the agent reads it from NVML.
            `another's`: the memory is its exporter's, a process of the same slice. `none`: takes no device memory.
        size_bytes: How much is taken; `None` = the way has a size of its own (a context).
        simulated_only: Not gone on a real GPU.
    """

    family: str
    name: str
    functions: tuple[str, ...]
    take: Take
    give: Give
    kind: Kind = "charged"
    size_bytes: int | None = 64 << 20
    simulated_only: bool = False


@dataclass
class Ways:
    """A collection that ways are added to by decorating their `take`."""

    all: list[Way] = field(default_factory=list)

    def __iter__(self) -> Iterator[Way]:
        return iter(self.all)

    def add(
        self,
        family: str,
        name: str,
        functions: str,
        give: Give,
        kind: Kind = "charged",
        size_bytes: int | None = 64 << 20,
        simulated_only: bool = False,
    ) -> Callable[[Take], Take]:
        """Return a decorator that adds a way; `functions` are separated by spaces."""

        def with_take(take: Take) -> Take:
            names = tuple(functions.split())
            self.all.append(Way(family, name, names, take, give, kind, size_bytes, simulated_only))
            return take

        return with_take
