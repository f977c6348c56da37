"""What `setup` adds to a hub's configuration for `/services/vgpu/`: the service, its rights, and everybody's.

Nothing of the admin's is replaced: lists are added to, and a service or a role of our name that is there is left alone.
source: https://jupyterhub.readthedocs.io/en/stable/reference/services.html and .../rbac/
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyterhub.app import JupyterHub
from jupyterhub.roles import get_default_roles
from jupyterhub.services.service import Service
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from jupyter_vgpu.scopes import ADMIN, CUSTOM_SCOPES, READ, SETTINGS_VARIABLE, TO_READ, TO_REVOKE

NAME = "vgpu"
ADMIN_ROLE = "jupyter-vgpu-admin"
SERVICE_ROLE = "jupyter-vgpu-service"

_ACCESS = f"access:services!service={NAME}"
_USER_SCOPES = [_ACCESS, f"{READ}!user"]
_SERVER_SCOPES = [_ACCESS, f"{READ}!server"]

_PATIENCE_SECONDS = 120

# Kept open as long as the hub runs.
_port: socket.socket | None = None
_settings: list[int] = []


def add_service(c: Config, settings: Mapping[str, Any], sections: Sequence[Config]) -> list[str]:
    """Add the service to a hub's configuration, and return what was done, in sentences.

    Args:
        c: The configuration.
        settings: For `jupyter_vgpu.service.settings.ServiceSettings`.
        sections: The parts of `c` that speak of the spawner, most special first.
    """
    hub = c.JupyterHub
    if any(service.get("name") == NAME for service in _given(c, "services")):
        return [f"a service {NAME!r} is configured already and was left as it is"]
    if hub.get("internal_ssl", False):
        return [f"no service /services/{NAME}/: it cannot speak over internal_ssl yet"]
    _add(hub, "services", [_service(settings)])
    _add_scopes(hub)
    added = _add_roles(c)
    _widen_server_tokens(c, sections)
    return [
        f"service /services/{NAME}/: who holds what, and revoking, for who may read or stop servers",
        f"roles: {', '.join(added)}; scopes: {READ}, {ADMIN}",
        "tokens of servers may read what their own server holds",
    ]


def _service(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": NAME,
        "url": f"http://127.0.0.1:{_reserved_port()}",
        "command": [sys.executable, "-m", "jupyter_vgpu.service"],
        "environment": {SETTINGS_VARIABLE: _handed_over({**settings, "hub_pid": os.getpid()})},
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": [*TO_READ, *TO_REVOKE],
        "info": {"description": "Who holds which slice of a GPU"},
        # JupyterHub 5 waits ten seconds and has no setting for that; see `jupyter_vgpu.service.early`.
        **({"timeout": _PATIENCE_SECONDS} if "timeout" in Service.class_trait_names() else {}),
    }


def _add_scopes(hub: Config) -> None:
    scopes = hub.get("custom_scopes", {})
    if isinstance(scopes, LazyConfigValue):
        scopes.update(CUSTOM_SCOPES)
    else:
        hub.custom_scopes = {**CUSTOM_SCOPES, **scopes}


def _add_roles(c: Config) -> list[str]:
    """Add the roles of the service and of who may revoke, let everybody see what is theirs; return the new roles."""
    roles = {role.get("name"): role for role in _given(c, "load_roles")}
    added: list[dict[str, Any]] = [
        {
            "name": SERVICE_ROLE,
            "description": "Stop the server of a slice that is revoked",
            "scopes": ["delete:servers"],
            "services": [NAME],
        }
    ]
    if ADMIN_ROLE in roles:
        roles[ADMIN_ROLE].setdefault("scopes", [_ACCESS, ADMIN])
    else:
        added.append(
            {
                "name": ADMIN_ROLE,
                "description": "See who holds which slice of a GPU, and take slices away",
                "scopes": [_ACCESS, ADMIN],
            }
        )
    _widen_user_role(c, roles.get("user"), added)
    _add(c.JupyterHub, "load_roles", added)
    return [str(role["name"]) for role in added]


def _widen_user_role(c: Config, role: dict[str, Any] | None, added: list[dict[str, Any]]) -> None:
    """Let everybody in, to see what is theirs."""
    if role is not None and "scopes" in role:
        role["scopes"] = _joined(role["scopes"], _USER_SCOPES)
    elif role is None and "extra_user_scopes" in JupyterHub.class_trait_names():  # JupyterHub 6
        given = c.JupyterHub.get("extra_user_scopes", set())
        if isinstance(given, LazyConfigValue):
            given.update(set(_USER_SCOPES))
        else:
            c.JupyterHub.extra_user_scopes = {*given, *_USER_SCOPES}
    elif role is not None:
        role["scopes"] = _joined(_default_scopes("user"), _USER_SCOPES)
    else:
        default = next(dict(known) for known in get_default_roles() if known["name"] == "user")
        added.append({**default, "scopes": _joined(default["scopes"], _USER_SCOPES)})


def _widen_server_tokens(c: Config, sections: Sequence[Config]) -> None:
    """Let the token of each server read what that server holds."""
    section = next((one for one in sections if "server_token_scopes" in one), c.Spawner)
    given = section.get("server_token_scopes")
    if given is None:
        role = next((role for role in _given(c, "load_roles") if role.get("name") == "server"), {})
        section.server_token_scopes = _joined(role.get("scopes", _default_scopes("server")), _SERVER_SCOPES)
    elif isinstance(given, LazyConfigValue):
        given.extend(_SERVER_SCOPES)
    elif callable(given):
        section.server_token_scopes = _widened(given)
    else:
        section.server_token_scopes = _joined(given, _SERVER_SCOPES)


def _widened(given: Callable[[Any], Sequence[str]]) -> Callable[[Any], list[str]]:
    def server_token_scopes(spawner: Any) -> list[str]:
        return _joined(given(spawner), _SERVER_SCOPES)

    return server_token_scopes


def _default_scopes(role: str) -> list[str]:
    return next(list(known["scopes"]) for known in get_default_roles() if known["name"] == role)


def _joined(given: Sequence[str], more: Sequence[str]) -> list[str]:
    return [*given, *(scope for scope in more if scope not in given)]


def _given(c: Config, name: str) -> list[dict[str, Any]]:
    """Return the entries of a list of `c.JupyterHub`, which is written out if only additions to it were.

    The lists that are meant are empty by default.
    """
    given = c.JupyterHub.get(name, [])
    if isinstance(given, LazyConfigValue):
        given = c.JupyterHub[name] = given.get_value([])
    return [entry for entry in given if isinstance(entry, dict)]


def _add(section: Config, name: str, entries: list[dict[str, Any]]) -> None:
    section[name] = [*section.get(name, []), *entries]


def _reserved_port() -> int:
    """Return a port of the loopback interface that only processes of this user can listen on while the hub runs.

    Bound here and never listened on, so that nobody is given it before the service comes, or while it is restarted.
    source: socket(7), SO_REUSEPORT: all sockets of one port have one effective user
    """
    global _port
    if _port is None:
        _port = socket.socket()
        _port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _port.bind(("127.0.0.1", 0))
    port: int = _port.getsockname()[1]
    return port


def _handed_over(settings: Mapping[str, Any]) -> str:
    """Return a path where this user's processes read `settings`, as long as the hub runs; it is on no disk."""
    descriptor = os.memfd_create("jupyter-vgpu-service")
    os.write(descriptor, json.dumps(settings).encode())
    _settings.append(descriptor)
    return f"/proc/{os.getpid()}/fd/{descriptor}"
