"""What `setup` adds for the service, and that it replaces nothing of the admin's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from traitlets.config import Config

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.hub import setup
from jupyter_vgpu.scopes import ADMIN, CUSTOM_SCOPES, READ, SETTINGS_VARIABLE
from jupyter_vgpu.service.settings import read_settings

ACCESS = "access:services!service=vgpu"


def hub_of(c: Config) -> JupyterHub:
    """Return JupyterHub as it understands a configuration; no instance of the process, nothing is started."""
    return JupyterHub(config=c)


def roles_of(hub: JupyterHub) -> dict[str, dict[str, Any]]:
    return {role["name"]: role for role in hub.load_roles}


def user_scopes_of(hub: JupyterHub) -> set[str]:
    """Return what everybody may do besides what JupyterHub gives them."""
    return {*roles_of(hub).get("user", {}).get("scopes", ()), *getattr(hub, "extra_user_scopes", ())}


def test_a_bare_hub_gets_the_service_its_scopes_and_its_roles() -> None:
    c = Config()

    setup(c)
    hub = hub_of(c)

    (service,) = hub.services
    assert service["name"] == "vgpu"
    assert set(service["oauth_client_allowed_scopes"]) == {READ, ADMIN, "read:servers", "delete:servers"}
    assert hub.custom_scopes == CUSTOM_SCOPES
    assert roles_of(hub)["jupyter-vgpu-service"]["scopes"] == ["delete:servers"]
    assert roles_of(hub)["jupyter-vgpu-admin"]["scopes"] == [ACCESS, ADMIN]
    assert {ACCESS, f"{READ}!user"} <= user_scopes_of(hub)
    assert set(c.Spawner.server_token_scopes) >= {"users:activity!user", "access:servers!server", f"{READ}!server"}


def test_the_service_is_told_where_things_are_and_only_by_what_its_user_can_read(tmp_path: Path) -> None:
    c = Config()
    c.JupyterHub.db_url = f"sqlite:///{tmp_path / 'hub.sqlite'}"
    c.VGPUHub.hub_name = "lab"

    setup(c, agent="/run/there")

    environment = c.JupyterHub.services[0]["environment"]
    settings = read_settings(environment)
    assert settings.agent == "/run/there"
    assert settings.ledger_url == c.VGPUHub.ledger_url == f"sqlite:///{tmp_path / 'jupyter_vgpu.sqlite'}"
    assert (settings.hub_name, settings.hub_pid) == ("lab", os.getpid())


def test_a_password_of_the_ledger_is_in_no_command_line_and_no_environment() -> None:
    c = Config()

    setup(c, ledger_url="postgresql://ledger:very-secret@db/vgpu")

    assert "very-secret" not in json.dumps(c.JupyterHub.services)
    assert "very-secret" in read_settings(c.JupyterHub.services[0]["environment"]).ledger_url


def assigned(c: Config) -> None:
    c.JupyterHub.services = [{"name": "cull", "command": ["cull"]}]
    c.JupyterHub.load_roles = [
        {"name": "cull", "scopes": ["list:users"], "services": ["cull"]},
        {"name": "user", "scopes": ["self", "list:groups"]},
    ]
    c.JupyterHub.custom_scopes = {"custom:mine:read": {"description": "mine"}}
    c.Spawner.server_token_scopes = ["users:activity!user"]


def added_to(c: Config) -> None:
    c.JupyterHub.services.append({"name": "cull", "command": ["cull"]})
    c.JupyterHub.load_roles.extend(
        [
            {"name": "cull", "scopes": ["list:users"], "services": ["cull"]},
            {"name": "user", "scopes": ["self", "list:groups"]},
        ]
    )
    c.JupyterHub.custom_scopes.update({"custom:mine:read": {"description": "mine"}})
    c.Spawner.server_token_scopes.append("users:activity!user")


@pytest.mark.parametrize("write", [assigned, added_to], ids=["assigned", "added to"])
def test_what_the_admin_wrote_stays(write: Any) -> None:
    c = Config()
    write(c)

    setup(c)
    hub = hub_of(c)

    assert [service["name"] for service in hub.services] == ["cull", "vgpu"]
    assert roles_of(hub)["cull"]["scopes"] == ["list:users"]
    assert set(roles_of(hub)["user"]["scopes"]) >= {"self", "list:groups", ACCESS, f"{READ}!user"}
    assert set(hub.custom_scopes) == {"custom:mine:read", READ, ADMIN}
    spawner = c.JupyterHub.spawner_class(config=c)
    assert set(spawner.server_token_scopes) >= {"users:activity!user", ACCESS, f"{READ}!server"}


def test_an_admins_own_choice_of_server_scopes_is_asked_and_widened() -> None:
    c = Config()
    c.LocalProcessSpawner.server_token_scopes = lambda spawner: [f"shares!user={spawner}"]

    setup(c)

    assert c.LocalProcessSpawner.server_token_scopes("ada") == ["shares!user=ada", ACCESS, f"{READ}!server"]


def test_an_admin_role_and_a_service_of_our_names_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    c = Config()
    c.JupyterHub.services = [{"name": "vgpu", "url": "http://elsewhere:9"}]

    setup(c)

    assert c.JupyterHub.services == [{"name": "vgpu", "url": "http://elsewhere:9"}]
    assert "left as it is" in capsys.readouterr().err


def test_members_of_the_admin_role_are_the_admins_to_name() -> None:
    c = Config()
    c.JupyterHub.load_roles = [{"name": "jupyter-vgpu-admin", "groups": ["tutors"]}]

    setup(c)

    role = roles_of(hub_of(c))["jupyter-vgpu-admin"]
    assert (role["groups"], role["scopes"]) == (["tutors"], [ACCESS, ADMIN])


@pytest.mark.parametrize("how", ["service=False", "internal_ssl"])
def test_a_hub_without_the_service_gets_no_roles_for_it(how: str) -> None:
    c = Config()
    c.JupyterHub.internal_ssl = how == "internal_ssl"

    setup(c, service=how != "service=False")

    assert "services" not in c.JupyterHub
    assert "load_roles" not in c.JupyterHub


@pytest.mark.parametrize(
    "written",
    ["", "[]", '{"agent": "/run/x"}', '{"agent": "", "ledger_url": "x"}', '{"agent":"a","ledger_url":"b","more":1}',
     '{"agent":"a","ledger_url":"b","sample_seconds":0}', '{"agent":"a","ledger_url":"b","sample_seconds":"soon"}'],
)  # fmt: skip
def test_settings_that_are_not_understood_are_refused_by_name(written: str, tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text(written)

    with pytest.raises(BadValueError, match=SETTINGS_VARIABLE):
        read_settings({SETTINGS_VARIABLE: str(path)})


def test_a_path_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match="nowhere"):
        read_settings({SETTINGS_VARIABLE: str(tmp_path / "nowhere")})
