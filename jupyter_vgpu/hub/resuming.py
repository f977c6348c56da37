"""After a restart of the hub, begin again the starts that waited for a slice when it stopped.

A start that waits lives in the hub's memory and ends with it; its place is in the ledger. So the hub asks itself, over
its own REST API and in each user's name, for what they had asked for: rights, limits and options are those that count
for everyone. Until all stand in line again nobody is served, or a newcomer would take what another has waited for.

What had its slice already and was still starting is not begun again: if the start itself ended the hub, it would for
ever. Its slice is given back, as JupyterHub finds that the server does not run, and the user asks again.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from jupyterhub import orm
from jupyterhub.utils import make_ssl_context, url_path_join
from tornado.httpclient import AsyncHTTPClient, HTTPClientError

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.queue import KEPT_SECONDS
from jupyter_vgpu.hub.reconciliation import tenant_name
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.ledger import Place

_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_SEATING_SECONDS = 5.0  # for one; then the next is asked for
_CLOSED_SECONDS = 30.0  # for all; then whoever stands in line is served
_MOST_AT_ONCE = 1000  # requests that are not answered before their start has come to an end, or to a halt
_TOKEN_SECONDS = 60
# What a hub or an agent answers that is busy, or not ready yet. source: jupyterhub 5.3-6.1, `spawn_single_user`
_AGAIN = frozenset({429, 500, 502, 503, 504, 599})

_requests: set[asyncio.Future[int]] = set()  # what nobody refers to may vanish


async def resume_waits(app: Any, settings: VGPUHub) -> None:
    """Let those who waited wait again, and after a while give up the places of those who could not.

    Never raises a `VGPUError`.

    Args:
        app: The hub, which may still be starting.
        settings: Its settings. Nobody is served until this has had its try.
    """
    room, loop = settings.room, asyncio.get_running_loop()
    room.close_door()
    await _until_started(app)
    opening = loop.call_later(_CLOSED_SECONDS, room.open_door)
    deadline = loop.time() + KEPT_SECONDS
    places: list[Place] = []
    try:
        places = await _recalled(settings, deadline)
        open_cases = list(places) if room.timeout_seconds else []
        while open_cases and loop.time() < deadline:
            open_cases = [place for place in open_cases if not await _is_settled(app, settings, place)]
            await asyncio.sleep(_PAUSE_SECONDS if open_cases else 0)
    finally:
        opening.cancel()
        room.open_door()
    if any(room.is_lost(place) for place in places):
        await asyncio.sleep(max(0.0, deadline - loop.time()))
    for place in places:
        if room.is_lost(place):
            await room.forget(place, "did not come back")


async def _until_started(app: Any) -> None:
    """Wait until the hub has started, after a while whether it has or not: what it has to do by then goes first.

    A hub that is asked for much while it starts may fail to reach its own proxy in time, and give up.
    source: jupyterhub 5.3-6.1, app.py, `JupyterHub.start`
    """
    started = getattr(app, "_start_future", None)
    if isinstance(started, asyncio.Future):
        await asyncio.wait([started], timeout=_CLOSED_SECONDS)


async def _recalled(settings: VGPUHub, deadline: float) -> list[Place]:
    while asyncio.get_running_loop().time() < deadline:
        try:
            return await settings.room.recall()
        except VGPUError as error:
            settings.log.warning("who waited for a GPU cannot be looked up now: %s", error)
            await asyncio.sleep(_CLOSED_SECONDS)
    return []


async def _is_settled(app: Any, settings: VGPUHub, place: Place) -> bool:
    """Ask for one start, and return whether nothing more is to be done about it."""
    room = settings.room
    user = app.users.get(place.user)
    if user is None:
        await room.forget(place, "its user is gone")
        return True
    spawner = user.spawners.get(place.server)
    if spawner is not None and spawner.ready:
        await room.forget(place, "its server runs")
        return True
    if spawner is not None and spawner.pending:
        return not room.is_lost(place)  # it is being looked after, or its user was faster
    request = asyncio.ensure_future(_post(app, settings, place))
    _requests.add(request)
    request.add_done_callback(_requests.discard)
    for _ in range(int(_SEATING_SECONDS / _LOOK_SECONDS)):
        if request.done() or not room.is_lost(place):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return not request.done() or request.result() not in _AGAIN


async def _post(app: Any, settings: VGPUHub, place: Place) -> int:
    """Start a server with the options of last time, as its user; return the status, 599 when there was no answer."""
    tenant = tenant_name(place.user, place.server)
    path = ("servers", quote(place.server, safe="")) if place.server else ("server",)
    url = url_path_join(app.hub.api_url, "users", quote(place.user, safe=""), *path)
    try:
        token = orm.User.find(app.db, place.user).new_api_token(
            note="jupyter_vgpu: goes on waiting after a restart of the hub",
            scopes=["servers!user"],
            expires_in=_TOKEN_SECONDS,
        )
    except ValueError as error:
        settings.log.warning("%s cannot wait on for a GPU: its user may not start it (%s)", tenant, error)
        return 403
    try:
        answer = await AsyncHTTPClient(force_instance=True, max_clients=_MOST_AT_ONCE).fetch(
            url,
            method="POST",
            body="",
            headers={"Authorization": f"token {token}"},
            request_timeout=KEPT_SECONDS,
            ssl_options=_ssl_options(app),
        )
        settings.log.info("%s waits on for a GPU, after a restart of the hub", tenant)
        return int(answer.code)
    except HTTPClientError as error:
        if error.code not in _AGAIN:
            said = error.response.body.decode(errors="replace") if error.response is not None else str(error)
            settings.log.warning("%s cannot wait on for a GPU: %s", tenant, " ".join(said.split()))
        return int(error.code)
    except OSError:
        return 599  # it does not listen yet
    finally:
        found = orm.APIToken.find(app.db, token)
        if found is not None:
            app.db.delete(found)
            app.db.commit()


def _ssl_options(app: Any) -> Any:
    if not app.internal_ssl:
        return None
    return make_ssl_context(app.internal_ssl_key, app.internal_ssl_cert, cafile=app.internal_ssl_ca)
