"""The live tables, through the real proxy: what changes is sent, what is not one's own never is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

Hub = Any


@contextmanager
def stream_of(client: httpx.Client) -> Iterator[Iterator[str]]:
    """Open the stream, and give the tables as they come; the next one that never comes fails by time-out."""
    with client.stream("GET", "/live") as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield (json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: "))


def until(tables: Iterator[str], part: str) -> str:
    """Return the first tables that contain `part`."""
    return next(html for html in tables if part in html)


def test_a_slice_that_is_claimed_and_one_that_is_revoked_come_by_themselves(hub: Hub) -> None:
    with hub.as_user("quick-root") as root, hub.as_user("quick-root") as watcher, stream_of(watcher) as tables:
        first = next(tables)
        hub.spawn("quick-ada")
        claimed = until(tables, "1 slice is held")
        root.delete(f"/api/claims/{hub.claim_of('quick-ada')}")
        revoked = until(tables, "0 slices are held")

    assert "0 slices are held" in first
    assert "quick-ada" in claimed
    assert "quick-ada" not in revoked


def test_a_user_is_sent_what_is_theirs_and_nothing_of_others(hub: Hub) -> None:
    with hub.as_user("quick-ada") as ada, stream_of(ada) as tables:
        first = next(tables)
        hub.spawn("quick-bob")
        hub.spawn("quick-ada")
        mine = until(tables, "quick-ada")

    assert "0 slices are held" in first
    assert "quick-bob" not in mine
    assert "Devices" not in mine


def test_too_many_open_streams_are_refused_with_the_number_until_some_are_closed(hub: Hub) -> None:
    with hub.as_user("quick-bob") as bob:
        streams = [bob.stream("GET", "/live") for _ in range(16)]
        try:
            codes = [stream.__enter__().status_code for stream in streams]
            one_more = bob.get("/live")
        finally:
            for stream in streams:
                stream.__exit__(None, None, None)

        def opens() -> bool:
            with bob.stream("GET", "/live") as answer:
                return answer.status_code == 200

        hub.wait_until(opens, "the service notices that the streams were closed")

    assert codes == [200] * 16
    assert one_more.status_code == 429
    assert "16 pages of yours are open already" in one_more.text
