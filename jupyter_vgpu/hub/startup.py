"""Start the hub's side together with the hub, whichever way its spawner was configured.

JupyterHub makes the first spawner object when the first user comes, and tells no spawner class that it starts. So
handing out or making a vGPU spawner class, in a hub that is reading its configuration, is taken as the sign: the
start follows as soon as the configuration has been read, before the hub listens.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, NoReturn

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.utils import url_path_join
from tornado.ioloop import PeriodicCallback

from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.hub import pages
from jupyter_vgpu.hub.overdue import stop_overdue
from jupyter_vgpu.hub.reconciliation import ServerKey
from jupyter_vgpu.hub.resuming import resume_waits
from jupyter_vgpu.hub.settings import VGPUHub

STATE_KEY = "vgpu_claim_id"  # in a spawner's saved state

_FIRST_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 4.0

_running: list[PeriodicCallback | asyncio.Future[None]] = []  # what nobody refers to may vanish


def arrange(mixin: type) -> None:
    """See to it that the hub's side starts with the hub, if this process is one that is starting.

    Args:
        mixin: Class by which vGPU spawners are known.
    """
    if not JupyterHub.initialized() or VGPUHub.initialized():
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # no hub that is starting: documentation, a test of a class, a shell
    loop.call_soon(_start, mixin)


def _start(mixin: type) -> None:
    app = JupyterHub.instance()
    if VGPUHub.initialized():
        return
    try:
        if not issubclass(app.spawner_class, mixin):
            _refuse_other_spawner(app)
            return
        settings = VGPUHub.start(app)
    except VGPUError as error:
        give_up(error)
    _add_pages(app)
    _reconcile_for_ever(app, settings)


def _add_pages(app: Any) -> None:
    """Add our pages to the hub's, whether it has made its list of pages already or not."""
    if getattr(app, "tornado_application", None) is None:
        app.extra_handlers = [*app.extra_handlers, *pages.HANDLERS]
    else:
        handlers = [(url_path_join(app.hub_prefix, path), handler) for path, handler in pages.HANDLERS]
        app.tornado_application.add_handlers(".*", handlers)


def _refuse_other_spawner(app: Any) -> None:
    """Refuse to go on with settings for slices and a spawner that gives none.

    Raises:
        BadValueError: There are such settings.
    """
    if "VGPUHub" in app.config:
        raise BadValueError(
            "JupyterHub.spawner_class",
            app.spawner_class.__name__,
            "a vGPU spawner is, since VGPUHub is configured: set spawner_class in the configuration file before "
            "jupyter_vgpu.hub.setup(c), not after it nor on the command line",
        )


def give_up(error: VGPUError) -> NoReturn:
    """End the hub's start with one line that says why."""
    sys.exit(f"jupyter_vgpu: {' '.join(str(error).split())}")


def _reconcile_for_ever(app: Any, settings: VGPUHub) -> None:
    async def reconcile() -> None:
        await settings.desk.reconcile(lambda: servers_of(app))
        await stop_overdue(app, settings)

    async def reconcile_soon() -> None:
        # An agent that starts together with the hub needs a moment.
        for _ in range(_FIRST_ATTEMPTS):
            if await settings.desk.reconcile(lambda: servers_of(app)):
                return
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)

    periodic = PeriodicCallback(reconcile, settings.reconcile_interval_seconds * 1000)
    periodic.start()
    waits = asyncio.ensure_future(resume_waits(app, settings))
    _running.extend((periodic, asyncio.ensure_future(reconcile_soon()), waits))


def servers_of(app: Any) -> dict[ServerKey, str | None]:
    """Return the servers that the hub believes in, starting and stopping ones too, with the claims they hold.

    A server is in the database from before its claim is made until after its processes have ended.

    Args:
        app: The running hub.
    """
    # One question for all, by columns: the loop stands still meanwhile.
    columns = (orm.User.name, orm.Spawner.name, orm.Spawner.state)
    rows = app.db.query(*columns).join(orm.User, orm.Spawner.user_id == orm.User.id)
    running = rows.filter(orm.Spawner.server_id != None)  # noqa: E711 (SQL)
    return {(user, server): (state or {}).get(STATE_KEY) for user, server, state in running}
