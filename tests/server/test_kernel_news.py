"""Who waits for a change of a Jupyter kernel hears of it, or knows that nobody tells."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from jupyter_events import EventLogger
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager, ServerKernelManager

from jupyter_vgpu.server.kernel_news import ServerNews

LOG = logging.getLogger("test")
ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


def news_of(event_log: Any, **managers: Any) -> tuple[ServerNews, list[str]]:
    """Return the news of a server with these Jupyter kernels, and a list that gets longer with each."""
    kernels = AsyncMappingKernelManager()
    kernels._kernels.update(managers)
    news, told = ServerNews(kernels, event_log, LOG), list[str]()
    news.listen(lambda: told.append("news"))
    return news, told


@pytest.fixture
def event_log() -> EventLogger:
    """Return an event log that knows the schema, as each kernel manager sees to."""
    log: EventLogger = ServerKernelManager().event_logger
    return log


def test_a_jupyter_kernel_that_does_something_else_is_told(event_log: EventLogger) -> None:
    manager = ServerKernelManager(execution_state="idle")
    news, told = news_of(event_log, k1=manager)
    assert news.states() == news.states() == [("k1", "idle")]

    manager.execution_state = "busy"

    assert news.is_told
    assert told == ["news"]
    assert news.states() == [("k1", "busy")]


@pytest.mark.parametrize("action", ["start", "shutdown", "restart"])
def test_one_that_comes_or_goes_is_told(event_log: EventLogger, action: str) -> None:
    async def emit() -> list[str]:
        news, told = news_of(event_log)
        assert news.states() == []
        assert news.is_told
        done = {"kernel_id": str(uuid4()), "kernel_name": "python3", "action": action, "status": "success", "msg": ""}
        event_log.emit(schema_id=ACTIONS, data=done)
        deadline = asyncio.get_running_loop().time() + 60
        while not told and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0)
        return told

    assert asyncio.run(emit()) == ["news"]


def test_where_one_of_them_tells_nothing_somebody_has_to_look(event_log: EventLogger) -> None:
    silent = SimpleNamespace(execution_state="busy")  # as of a gateway, or of somebody's own kernel manager
    news, _ = news_of(event_log, k1=ServerKernelManager(execution_state="idle"), k2=silent)

    assert news.states() == [("k1", "idle"), ("k2", "busy")]
    assert not news.is_told


@pytest.mark.parametrize(
    "event_log", [None, EventLogger(), object()], ids=["none", "without the schema", "of another kind"]
)
def test_where_nobody_tells_which_come_and_go_somebody_has_to_look(event_log: Any) -> None:
    news, _ = news_of(event_log, k1=ServerKernelManager(execution_state="idle"))

    assert news.states() == [("k1", "idle")]
    assert not news.is_told


def test_where_what_they_do_cannot_be_seen_somebody_has_to_look(event_log: EventLogger) -> None:
    kernels: Any = SimpleNamespace(list_kernel_ids=list)
    news = ServerNews(kernels, event_log, LOG)
    news.listen(lambda: None)
    assert (news.states(), news.is_told) == ([], True)

    kernels.list_kernel_ids = lambda: ["k1"]  # there is none such
    with pytest.raises(AttributeError):
        news.states()

    assert not news.is_told
