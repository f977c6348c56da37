"""Who has which quota, as an admin wrote it.

Pure functions: what was written in, quotas out, or a message that says what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import PRIORITIES, Priority
from jupyter_vgpu.quota import DAY_SECONDS, Quota
from jupyter_vgpu.reading import Entry, by, read
from jupyter_vgpu.units import parse_bytes, parse_fraction, to_ppm

_MOST_DEVICES = 100_000


@dataclass(frozen=True)
class Quotas:
    """Who has which quota.

    Attributes:
        everyone: For each user that nothing below is for.
        members: For each member of a group; of several, the one most generous counts, limit by limit.
        groups: For all members of a group together.
        users: For single users; nothing above but `groups` counts for them.
    """

    everyone: Quota = field(default_factory=Quota)
    members: Mapping[str, Quota] = field(default_factory=dict)
    groups: Mapping[str, Quota] = field(default_factory=dict)
    users: Mapping[str, Quota] = field(default_factory=dict)

    @property
    def longest_window_seconds(self) -> float:
        """How far back holdings matter, 0 when no quota counts hours."""
        return max((quota.window_seconds for quota in self._all if quota.gpu_hours is not None), default=0.0)

    @property
    def guarantee_something(self) -> bool:
        """Whether any quota guarantees throughput."""
        return any(quota.guaranteed_ppm is not None for quota in self._all)

    @property
    def _all(self) -> list[Quota]:
        return [self.everyone, *self.members.values(), *self.groups.values(), *self.users.values()]

    def of_user(self, user: str, groups: Iterable[str]) -> Quota:
        """Return the quota of one user who is in `groups`."""
        if user in self.users:
            return self.users[user]
        quotas = [self.members[group] for group in groups if group in self.members]
        return _most_generous(quotas) if quotas else self.everyone


def _most_generous(quotas: Sequence[Quota]) -> Quota:
    def largest(values: Iterable[float | None]) -> float | None:
        found = list(values)
        return None if None in found else max(value for value in found if value is not None)

    def rate(quota: Quota) -> float:
        return math.inf if quota.gpu_hours is None else quota.gpu_hours / quota.window_seconds

    hours = max(quotas, key=rate)
    slices, memory = largest(q.slices for q in quotas), largest(q.memory_bytes for q in quotas)
    priority = largest(q.priority for q in quotas)
    return Quota(
        slices=None if slices is None else int(slices),
        memory_bytes=None if memory is None else int(memory),
        gpu_hours=hours.gpu_hours,
        window_seconds=hours.window_seconds,
        priority=None if priority is None else int(priority),
        guaranteed_ppm=max(q.guaranteed_ppm or 0 for q in quotas) or None,
    )


def parse_throughput(value: object, key: str) -> int:
    """Return how much of the time of devices `value` names, in parts per million of one device's.

    Args:
        value: A part of one device, as `parse_fraction` takes it, or a number of devices above 1.
        key: Name of the setting, for the message.

    Raises:
        BadValueError: It is neither.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and 1 < value <= _MOST_DEVICES:  # type: ignore[operator]
        return to_ppm(Fraction(repr(value)))
    try:
        return to_ppm(parse_fraction(value, key))
    except BadValueError:
        raise BadValueError(
            key,
            value,
            f'a part of one GPU\'s time is, as "1/4" or "25%", or a number of GPUs up to {_MOST_DEVICES}, as 2 or 1.5',
        ) from None


class QuotaEntry(Entry):
    """A quota as it is written."""

    slices: int | None = Field(None, ge=0, le=100_000, description="a whole number of slices from 0 to 100000 is")
    memory: Annotated[int | None, by(parse_bytes)] = None
    gpu_hours: float | None = Field(
        None, ge=0, le=1e9, allow_inf_nan=False, description="a number of hours from 0 is, as 20 or 7.5"
    )
    window_days: float = Field(
        7.0, ge=1 / 24, le=3660, description="a number of days from 1/24 to 3660 is, as 7 or 0.5"
    )
    priority: Priority | None = Field(None, description=f"one of {', '.join(PRIORITIES)} is")
    guaranteed_throughput: Annotated[int | None, by(parse_throughput)] = None


QUOTA_KEYS = tuple(QuotaEntry.model_fields)


def parse_quota(entry: object, key: str) -> Quota:
    """Return one quota.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    written = read(QuotaEntry, entry, key)
    assert isinstance(entry, Mapping)
    if "window_days" in entry and written.gpu_hours is None:
        raise BadValueError(f"{key}.window_days", entry["window_days"], "it is with gpu_hours only, whose window it is")
    return Quota(
        slices=written.slices,
        memory_bytes=written.memory,
        gpu_hours=written.gpu_hours,
        window_seconds=written.window_days * DAY_SECONDS,
        priority=None if written.priority is None else PRIORITIES.index(written.priority),
        guaranteed_ppm=written.guaranteed_throughput,
    )


def _quotas_by_name(entries: object, key: str) -> dict[str, Quota]:
    if not isinstance(entries, Mapping):
        raise BadValueError(key, entries, "a mapping from names to quotas is")
    for name in entries:
        if not isinstance(name, str) or not name:
            raise BadValueError(key, name, "a name is")
    return {name: parse_quota(entry, f"{key}[{name!r}]") for name, entry in entries.items()}


class _QuotasEntry(Entry):
    everyone: Annotated[Quota, by(parse_quota)] = Quota()
    members: Annotated[Mapping[str, Quota], by(_quotas_by_name)] = Field(default_factory=dict)
    groups: Annotated[Mapping[str, Quota], by(_quotas_by_name)] = Field(default_factory=dict)
    users: Annotated[Mapping[str, Quota], by(_quotas_by_name)] = Field(default_factory=dict)


def parse_quotas(value: object, key: str = "quotas") -> Quotas:
    """Return the quotas that an admin wrote.

    Args:
        value: `{"everyone": QUOTA, "members": {GROUP: QUOTA}, "groups": {GROUP: QUOTA}, "users": {USER: QUOTA}}`, each
            part optional; QUOTA is a mapping with some of `QUOTA_KEYS`. `{}` for a user lifts every limit of theirs.
        key: Name of the setting, for messages.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    written = read(_QuotasEntry, value, key)
    return Quotas(written.everyone, written.members, written.groups, written.users)
