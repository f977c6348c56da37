"""A database that takes what is said to it and does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_vgpu.client import HubClient
from jupyter_vgpu.hub import desk, errands
from jupyter_vgpu.ledger import Ledger, LedgerError


@pytest.fixture
def stopped(postgres: Any) -> Iterator[list[int]]:
    """What is to be woken up again after the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def test_a_start_is_refused_and_the_hub_goes_on(
    postgres: Any, stopped: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(postgres.url)

    async def ask() -> tuple[list[Any], list[Any]]:
        one = desk.ClaimDesk(HubClient(tmp_path), ledger, "node")
        assert await one.in_ledger(ledger.open_entries) == []
        patience_seconds = errands._LEDGER_SECONDS
        monkeypatch.setattr(errands, "_LEDGER_SECONDS", 1.0)
        server = psutil.Process(postgres.process.pid)
        stopped.extend(process.pid for process in (server, *server.children()))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

        during = await asyncio.gather(
            *(one.in_ledger(ledger.open_entry, user, "", user, "1/4 GPU", "node") for user in ("ada", "bob")),
            return_exceptions=True,
        )
        while stopped:
            os.kill(stopped.pop(), signal.SIGCONT)
        monkeypatch.setattr(errands, "_LEDGER_SECONDS", patience_seconds)
        return during, await one.in_ledger(ledger.open_entries)

    during, after = asyncio.run(ask())

    assert [type(error) for error in during] == [LedgerError, LedgerError]
    assert "has not answered within 1 s" in str(during[0])
    assert [entry.user for entry in after] in ([], ["ada"])  # the one that had begun may have been written
    ledger.close()
