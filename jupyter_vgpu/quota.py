"""Say whether a tenant may claim another slice, by rules about slices, memory, GPU-hours and priority.

Pure functions: the caller passes what is and was held, and the time. All moments are Unix seconds, so that time zones
matter only where one is written out for people. A GPU-hour is one device's whole time for one hour: a quarter of a
device held for four hours. The time *held* counts, not the time used: what is held is nobody else's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.model import PRIORITIES
from jupyter_vgpu.units import format_bytes

DAY_SECONDS = 86_400.0


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
    window_seconds: float = 7 * DAY_SECONDS
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
    name = f"UTC{sign}{hours:02}:{rest:02}" if hours or rest else "UTC"
    return f"{local:%Y-%m-%d %H:%M} {name}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _window(seconds: float) -> str:
    days = seconds / DAY_SECONDS
    return f"{days:.10g} days" if days != 1 else "24 hours"
