"""Say whether a tenant may claim another slice, by rules about slices, memory, GPU-hours and priority.

Pure functions: the caller passes what is and was held, and the time. All moments are Unix seconds, so that time zones
matter only where one is written out for people. A GPU-hour is one device's whole time for one hour: a quarter of a
device held for four hours. The time *held* counts, not the time used: what is held is nobody else's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.model import PRIORITIES, Priority
from jupyter_vgpu.reading import Entry, by, read
from jupyter_vgpu.units import format_bytes, parse_bytes, parse_fraction, to_ppm

_DAY_SECONDS = 86_400.0
_MOST_DEVICES = 100_000


class QuotaError(VGPUError):
    """More than the tenant's quota; the message names the limit, the use and when there is room again."""

    reason = "quota"
    http_status = 403


@dataclass(frozen=True)
class Quota:
    """Limits on what is claimed at once and in a rolling window. `None` = not limited by this quota.

    Attributes:
        slices: Slices at once, >= 0.
        memory_bytes: Device memory at once, the sum over slices and devices.
        gpu_hours: Share × time held within the window, in hours, >= 0.
        window_seconds: Length of the window, which ends now; > 0.
        priority: Index into `PRIORITIES` of the highest that may be claimed.
        guaranteed_ppm: Most throughput that is guaranteed at once, the sum over slices and devices, in parts per
            million of one device's time. No limit, but something given: `None` = this quota gives none.
    """

    slices: int | None = None
    memory_bytes: int | None = None
    gpu_hours: float | None = None
    window_seconds: float = 7 * _DAY_SECONDS
    priority: int | None = None
    guaranteed_ppm: int | None = None


@dataclass(frozen=True)
class Holding:
    """One slice that is or was held.

    Attributes:
        memory_bytes: Sum over its devices.
        share: Sum over its devices, 1.0 = one whole device.
        started_at: Since when.
        ended_at: Until when; `None` = it is held.
        guaranteed_ppm: What is guaranteed of it, the sum over its devices, in parts per million.
    """

    memory_bytes: int
    share: float
    started_at: float
    ended_at: float | None = None
    guaranteed_ppm: int = 0


@dataclass(frozen=True)
class Wish:
    """A slice that is asked for: memory and share summed over its devices, priority an index into `PRIORITIES`."""

    memory_bytes: int
    share: float
    priority: int = 0


def used_seconds(holdings: Iterable[Holding], window_seconds: float, now: float) -> float:
    """Return share × time held within the window that ends `now`, in seconds of one whole device.

    A clock that was put back can only make a time shorter: what starts after `now`, or ends before it starts, counts
    nothing.
    """
    since = now - window_seconds
    return math.fsum(
        holding.share * max(0.0, min(_end(holding, now), now) - max(holding.started_at, since)) for holding in holdings
    )


def _end(holding: Holding, now: float) -> float:
    return now if holding.ended_at is None else holding.ended_at


def room_again_at(holdings: Sequence[Holding], limit_seconds: float, window_seconds: float, now: float) -> float:
    """Return the first moment from `now` on at which less than `limit_seconds` are used, if nothing is held meanwhile.

    Args:
        holdings: What is and was held; what is still held is taken to end now.
        limit_seconds: Seconds of one whole device, >= 0. For 0 the answer is infinite: there never is room.
        window_seconds: Length of the window.
        now: The time.
    """
    if limit_seconds <= 0:
        return math.inf
    ended = [Holding(h.memory_bytes, h.share, h.started_at, min(_end(h, now), now)) for h in holdings]
    if used_seconds(ended, window_seconds, now) < limit_seconds:
        return now
    # Use falls from now on, in straight pieces between the moments at which a start or an end leaves the window.
    corners = sorted({m + window_seconds for h in ended for m in (h.started_at, h.ended_at or 0.0)} | {now})
    before = now
    for corner in corners:
        if corner <= now:
            continue
        if used_seconds(ended, window_seconds, corner) < limit_seconds:
            break
        before = corner
    else:
        return corners[-1]
    used_before, used_after = (used_seconds(ended, window_seconds, moment) for moment in (before, corner))
    return before + (corner - before) * (used_before - limit_seconds) / (used_before - used_after)


@dataclass(frozen=True)
class Use:
    """What one quota has left, for the spawn page.

    Attributes:
        whose: `"your"`, or `"group NAME's"`.
        quota: The limits.
        slices: Held now.
        memory_bytes: Held now.
        gpu_hours: Used within the window.
        guaranteed_ppm: Guaranteed now.
    """

    whose: str
    quota: Quota
    slices: int
    memory_bytes: int
    gpu_hours: float
    guaranteed_ppm: int = 0

    @property
    def guarantee_left_ppm(self) -> int:
        """What the quota still has to guarantee; 0 where it gives nothing."""
        return max(0, (self.quota.guaranteed_ppm or 0) - self.guaranteed_ppm)


def guarantee_of(share_ppm: int, devices: int, uses: Iterable[Use]) -> int:
    """Return what a new slice is guaranteed of each of its devices: as much of its share as one of the quotas has left.

    Args:
        share_ppm: Its share of each, in parts per million.
        devices: How many it has, >= 1.
        uses: The quotas that count for its user.
    """
    left_ppm = max((use.guarantee_left_ppm for use in uses), default=0)
    return min(share_ppm, left_ppm // devices)


def use_of(whose: str, quota: Quota, holdings: Sequence[Holding], now: float) -> Use:
    """Return how much of `quota` is used."""
    held = [holding for holding in holdings if holding.ended_at is None]
    return Use(
        whose,
        quota,
        len(held),
        sum(holding.memory_bytes for holding in held),
        used_seconds(holdings, quota.window_seconds, now) / 3600,
        sum(holding.guaranteed_ppm for holding in held),
    )


def check(
    wish: Wish, whose: str, quota: Quota, holdings: Sequence[Holding], now: float, zone: tzinfo | None = None
) -> None:
    """Return if `wish` is within `quota` besides `holdings`.

    Args:
        wish: What is asked for.
        whose: `"your"`, or `"group NAME's"`, for the message.
        quota: The limits.
        holdings: What those whom the quota is for hold, and held within its window.
        now: The time.
        zone: Time zone for the message; `None` = this machine's.

    Raises:
        QuotaError: It is not. The message names the limit, what is used, and when or how there is room again.
    """
    use = use_of(whose, quota, holdings, now)
    if quota.priority is not None and wish.priority > quota.priority:
        raise QuotaError(
            f"{whose} quota allows no priority above {PRIORITIES[quota.priority]!r}, and this profile has "
            f"{PRIORITIES[wish.priority]!r}: choose another profile"
        )
    if quota.slices is not None and use.slices + 1 > quota.slices:
        raise QuotaError(
            f"{whose} quota is {_count(quota.slices, 'slice')} at once, and {use.slices} {_are(use.slices)} held now: "
            + ("an administrator may raise it" if quota.slices == 0 else "stop a server, then start this one")
        )
    if quota.memory_bytes is not None and use.memory_bytes + wish.memory_bytes > quota.memory_bytes:
        left = max(0, quota.memory_bytes - use.memory_bytes)
        limit, held, wished = (format_bytes(n) for n in (quota.memory_bytes, use.memory_bytes, wish.memory_bytes))
        raise QuotaError(
            f"{whose} quota is {limit} of GPU memory at once; {held} are held now and this slice has {wished}: "
            f"choose a profile of at most {format_bytes(left)}" + (", or stop a server first" if use.slices else "")
        )
    if quota.gpu_hours is not None and use.gpu_hours >= quota.gpu_hours:
        again = room_again_at(holdings, quota.gpu_hours * 3600, quota.window_seconds, now)
        raise QuotaError(
            f"{whose} quota is {format_hours(quota.gpu_hours)} in {_window(quota.window_seconds)}, and "
            f"{format_hours(use.gpu_hours)} are used: "
            + (
                "an administrator may raise it"
                if math.isinf(again)
                else f"there is room again from {format_moment(again, zone)}"
                + (" if the servers that run now are stopped" if use.slices else "")
            )
        )


def format_hours(hours: float) -> str:
    """Return GPU-hours for people: `"4.5 GPU-hours"`; small ones with two digits, `"0.0012 GPU-hours"`."""
    return f"{round(hours, 1) if hours >= 1 else float(f'{hours:.2g}'):.10g} GPU-hours"


def format_moment(moment: float, zone: tzinfo | None = None) -> str:
    """Return a moment for people, in full minutes rounded up, with its offset: `"2026-11-30 14:05 UTC+01:00"`.

    Args:
        moment: Unix seconds.
        zone: Time zone; `None` = this machine's.
    """
    minute = math.ceil(moment / 60) * 60
    try:
        local = datetime.fromtimestamp(minute, zone).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return "a time beyond all calendars"
    offset = local.utcoffset() or timedelta()
    sign, minutes = ("-", -offset) if offset < timedelta() else ("+", offset)
    hours, rest = divmod(int(minutes.total_seconds()) // 60, 60)
    return f"{local:%Y-%m-%d %H:%M} UTC{sign}{hours:02}:{rest:02}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _window(seconds: float) -> str:
    days = seconds / _DAY_SECONDS
    return f"{days:.10g} days" if days != 1 else "24 hours"


# Settings


@dataclass(frozen=True)
class Quotas:
    """Who has which quota.

    Attributes:
        everyone: For each user that nothing below is for.
        members: For each member of a group; of several, the one most generous counts, limit by limit.
        groups: For all members of a group together.
        users: For single users; nothing above but `groups` counts for them.
    """

    everyone: Quota = Quota()
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
        window_seconds=written.window_days * _DAY_SECONDS,
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
