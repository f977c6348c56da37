"""The one line of an admin: `jupyter_vgpu.hub.setup(c)`, on the spawner they already run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from jupyterhub.app import JupyterHub
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets.config import Config
from traitlets.utils.importstring import import_item

from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.hub.injectors import Injector, injector_for
from jupyter_vgpu.hub.settings import VGPUHub, ledger_beside
from jupyter_vgpu.hub.spawner import VGPULocalProcessSpawner, VGPUSimpleLocalProcessSpawner, VGPUSpawnerMixin
from jupyter_vgpu.hub.startup import arrange, give_up
from jupyter_vgpu.hub.unread import refuse_unread_sections
from jupyter_vgpu.hub.wiring import add_service

_READY_MADE: dict[type, type[VGPUSpawnerMixin]] = {
    LocalProcessSpawner: VGPULocalProcessSpawner,
    SimpleLocalProcessSpawner: VGPUSimpleLocalProcessSpawner,
}
_HOOKS = (
    "options_form",
    "options_from_form",
    "apply_user_options",
    "auth_state_hook",
    "pre_spawn_hook",
    "post_stop_hook",
    "environment",
)


def with_vgpu(spawner_class: type, injector: Injector | None = None) -> type[VGPUSpawnerMixin]:
    """Return `spawner_class` with slices of a GPU; its settings (`c.ThatSpawner.…`) and hooks stay as they are.

    Args:
        spawner_class: Any spawner class.
        injector: How edits reach its servers; `None` = by its platform. For a spawner of unknown platform whose
            servers are processes of this node, pass `LocalInjector()`; for one that can start them on other nodes,
            `NodeInjector`.

    Raises:
        BadValueError: No injector is known for it. Its servers would start without a limit, and say nothing.
    """
    arrange(VGPUSpawnerMixin)
    if issubclass(spawner_class, VGPUSpawnerMixin):
        return spawner_class
    if injector is None and spawner_class in _READY_MADE:
        return _READY_MADE[spawner_class]
    injector = injector or injector_for(spawner_class)
    if injector is None:
        raise BadValueError(
            "JupyterHub.spawner_class",
            spawner_class.__name__,
            "a spawner whose servers are processes of this node is (LocalProcessSpawner and its kind); for another "
            "of that kind say so: with_vgpu(ThatSpawner, injector=LocalInjector()), and for one whose servers run on "
            "other nodes, injector=NodeInjector(…)",
        )
    name = f"VGPU{spawner_class.__name__}"
    namespace = {"vgpu_injector": injector, "__doc__": f"{spawner_class.__name__} with slices of a GPU."}
    return type(name, (VGPUSpawnerMixin, spawner_class), {**namespace, "__module__": __name__})


def setup(
    c: Config,
    profiles: Mapping[str, Any] | None = None,
    agent: str | None = None,
    ledger_url: str | None = None,
    injector: Injector | None = None,
    service: bool = True,
) -> None:
    """Give the users of this hub slices of a GPU, on the spawner that `c` names; say what was done on stderr.

    A mistake ends the start of the hub with one line that names it.

    Args:
        c: The configuration, as in `jupyterhub_config.py`. Its `JupyterHub.spawner_class` may be a class, a name
            with dots, or an entry point; it must have been set before.
        profiles: See `VGPUHub.profiles`; `None` = what `c` says, else the built-in ones.
        agent: Runtime directory of the agent, see `VGPUHub.agent`; `None` = what `c` says, else the system's.
        ledger_url: See `VGPUHub.ledger_url`; `None` = what `c` says, else a file beside the hub's database.
        injector: See `with_vgpu`.
        service: Whether to add the service `/services/vgpu/`, where users see what they hold and administrators who
            holds what, with the scopes and roles for it; see `wiring`.
    """
    for name, value in (("profiles", profiles), ("agent", agent), ("ledger_url", ledger_url)):
        if value is not None:
            c.VGPUHub[name] = value
    try:
        settings = VGPUHub.read(c)
        if not settings.endpoints:
            c.VGPUHub.agent = settings.agent  # also the trace by which the hub's start knows that this was called
        given = _given_spawner(c)
        c.JupyterHub.spawner_class = with_vgpu(given, injector)
        refuse_unread_sections(c)
        added = _add_service(c, settings, given) if service else []
    except VGPUError as error:
        give_up(error)
    names = ", ".join(profile.name + (" (default)" if profile.is_default else "") for profile in settings.offered)
    kept = sorted({hook for section in _sections(c, given) for hook in _HOOKS if hook in section})
    _say(f"{given.__name__} now starts servers in slices of a GPU ({c.JupyterHub.spawner_class.__name__})")
    nodes = ", ".join(f"{name} at {endpoint.url}" for name, endpoint in settings.endpoints.items())
    _say(f"profiles: {names}; {f'agents: {nodes}' if nodes else f'agent: {settings.agent}'}")
    for sentence in added:
        _say(sentence)
    if kept:
        _say(f"kept as configured, and still run: {', '.join(kept)}")


def _add_service(c: Config, settings: VGPUHub, spawner_class: type) -> list[str]:
    """Add the service, and say so; hub and service are to open the same ledger."""
    if "ledger_url" not in c.VGPUHub:
        c.VGPUHub.ledger_url = ledger_beside(_hub_db_url(c))
    told = {"agent": settings.agent, "ledger_url": c.VGPUHub.ledger_url, "hub_name": settings.hub_name}
    told["agents"] = {name: endpoint.to_wire() for name, endpoint in settings.endpoints.items()}
    return add_service(c, told, _sections(c, spawner_class))


def _hub_db_url(c: Config) -> str:
    """Return where the hub keeps its own database: as the command line says, else `c`, else JupyterHub's default."""
    command_line = JupyterHub.instance().cli_config if JupyterHub.initialized() else Config()
    default = JupyterHub.class_traits()["db_url"].default_value
    return str(command_line.JupyterHub.get("db_url", c.JupyterHub.get("db_url", default)))


def _given_spawner(c: Config) -> type:
    """Return the spawner class that `c` names so far, JupyterHub's own default when it names none.

    Raises:
        BadValueError: There is no such class.
    """
    given = c.JupyterHub.get("spawner_class", LocalProcessSpawner)
    if isinstance(given, str):
        entry_points = JupyterHub.class_traits()["spawner_class"].load_entry_points()
        try:
            entry_point = entry_points.get(given.lower())
            given = entry_point.load() if entry_point is not None else import_item(given)
        except (ImportError, AttributeError, ValueError) as error:
            names = ", ".join(sorted(entry_points))
            raise BadValueError(
                "JupyterHub.spawner_class", given, f"an importable class or one of {names} is ({error})"
            ) from error
    if not isinstance(given, type):
        raise BadValueError("JupyterHub.spawner_class", given, "a class, or the name of one, is")
    return given


def _sections(c: Config, spawner_class: type) -> list[Config]:
    """Return the parts of `c` that speak of this spawner."""
    return [c[name] for name in (cls.__name__ for cls in spawner_class.__mro__) if name in c]


def _say(text: str) -> None:
    sys.stderr.write(f"jupyter_vgpu: {text}\n")
