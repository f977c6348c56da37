"""Configuration of the hub under test: a real one, real proxy, real single-user servers, everything on loopback.

Users called slow…, late…, broken… and quick… have servers like that, those called lab… JupyterLab; those of pensive…
are pending for JupyterHub before anything is asked of an agent. All else is as an admin would write it.
"""

import asyncio
import itertools
import json
import os
import secrets
import sys
from pathlib import Path

from jupyterhub.handlers import BaseHandler
from jupyterhub.spawner import SimpleLocalProcessSpawner

from jupyter_vgpu.hub import NodeInjector, setup

sys.path.append(str(Path(__file__).parents[1] / "lib"))
from harness.ports import is_free

c = get_config()  # noqa: F821

folder = Path(os.environ["HUB_TEST_FOLDER"])
port, hub_port, proxy_port = os.environ["HUB_TEST_PORTS"].split(",")
server_ports = [int(each) for each in os.environ["HUB_TEST_SERVER_PORTS"].split(",")]
# From anywhere on: a hub that was killed may have given one to a server that does not listen yet.
next_ports = itertools.islice(itertools.cycle(server_ports), secrets.randbelow(len(server_ports)), None)

c.JupyterHub.bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{hub_port}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.pid_file = str(folder / "proxy.pid")
c.ConfigurableHTTPProxy.auth_token = "of-the-proxy"
c.JupyterHub.db_url = f"sqlite:///{folder / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "pass"
c.Authenticator.allow_all = True
c.Authenticator.admin_users = set(os.environ.get("HUB_TEST_ADMINS", "boss").split())
c.JupyterHub.allow_named_servers = True
c.JupyterHub.services = [{"name": "test", "api_token": os.environ["HUB_TEST_TOKEN"]}]
c.JupyterHub.load_roles = [
    {
        "name": "test",
        "scopes": [
            "admin:users",
            "admin:groups",
            "tokens",
            "admin:servers",
            "access:servers",
            "admin:server_state",
            "read:metrics",
        ],
        "services": ["test"],
    }
]


class Peculiar(SimpleLocalProcessSpawner):
    """A spawner with the accidents of life."""

    async def start(self):
        if self.user.name.startswith(("slow", "late")):
            await asyncio.sleep(600)
        if self.user.name.startswith("broken"):
            raise RuntimeError("broken on purpose")
        # JupyterHub would take one that the host kernel may give to another before the server listens.
        self.port = next(filter(is_free, next_ports))
        address = await super().start()
        if self.user.name.startswith("quick-unheard"):
            await asyncio.sleep(600)
        return address


async def before(spawner):
    with (folder / "hooks").open("a") as hooks:
        hooks.write(f"pre_spawn {spawner.user.name}\n")
    if spawner.user.name.startswith("late"):
        spawner.start_timeout = 2
    if spawner.user.name.startswith("pensive"):
        # source: JupyterHub, handlers/pages.py, `_wrap_spawn_single_user`: after one second it shows the progress page.
        await asyncio.sleep(1.5)
    if spawner.user.name.startswith("quick"):
        spawner.cmd = [sys.executable, "-I", "-S", str(Path(__file__).with_name("quick_server.py"))]
        spawner.args = []
    if spawner.user.name.startswith("lab"):
        bare = ("JUPYTERHUB_SINGLEUSER_APP", "JUPYTER_NO_CONFIG")
        spawner.environment = {name: value for name, value in spawner.environment.items() if name not in bare}


def after(spawner):
    with (folder / "hooks").open("a") as hooks:
        hooks.write(f"post_stop {spawner.user.name}\n")


def place(spawner, node):
    """Start it here all the same, where all nodes of a test are, and say where it should be."""
    spawner.environment = {**spawner.environment, "PLACED_ON": node}


class Failures(BaseHandler):
    """Shows the counter that ends the hub at `consecutive_failure_limit`."""

    def get(self):
        self.write({"failures": self.settings.get("failure_count", 0)})


c.JupyterHub.extra_handlers = [("/test/failures", Failures)]
c.JupyterHub.spawner_class = Peculiar
c.Spawner.cmd = [str(Path(sys.executable).with_name("jupyterhub-singleuser"))]
c.Spawner.args = ["--allow-root"]
c.Spawner.environment = {
    # The bare server: what these tests start and stop has no need of the lab and its extensions.
    "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
    "JUPYTER_NO_CONFIG": "1",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "TMPDIR": str(folder),
}
c.SimpleLocalProcessSpawner.home_dir_template = str(folder / "homes" / "{username}")
c.Spawner.poll_interval = 1
c.Spawner.consecutive_failure_limit = 4
c.Spawner.start_timeout = 180
c.Spawner.http_timeout = 180
c.Spawner.pre_spawn_hook = before
c.Spawner.post_stop_hook = after
c.LocalProcessSpawner.interrupt_timeout = 5
c.VGPUHub.reconcile_interval_seconds = 1.0
for name, value in json.loads(os.environ.get("HUB_TEST_SETTINGS", "{}")).items():
    c.VGPUHub[name] = value

if os.environ.get("HUB_TEST_OWN_FORM"):
    c.Spawner.options_form = '<label>Image <input name="image" value="lab"></label>'
    c.Spawner.options_from_form = lambda form: {"image": form["image"][0]}

    def apply_user_options(spawner, user_options):
        """Refuse what it does not know, as a careful admin's would."""
        if set(user_options) - {"image"}:
            raise ValueError(f"what is {user_options}?")
        spawner.environment = {**spawner.environment, "IMAGE": user_options.get("image", "")}

    c.Spawner.apply_user_options = apply_user_options

if "HUB_TEST_SERVICE" in os.environ:
    c.JupyterHub.load_roles.append({"name": "jupyter-vgpu-admin", "users": ["quick-tutor"]})

setup(
    c,
    agent=os.environ["HUB_TEST_AGENT"] or None,
    injector=NodeInjector(place, lambda spawner: os.getuid()) if "HUB_TEST_PLACES" in os.environ else None,
    service="HUB_TEST_SERVICE" in os.environ,
    profiles=json.loads(os.environ.get("HUB_TEST_PROFILES", "null"))
    or {
        "1/4 GPU": {"share": "1/4"},
        "1/2 GPU": {"share": "1/2"},
        "whole GPU": {"backend": "whole"},
        **({"two GPUs": {"backend": "whole", "devices": 2}} if "HUB_TEST_SETTINGS" in os.environ else {}),
    },
)
