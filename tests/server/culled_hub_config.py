"""Configuration of a real hub whose idle servers are culled: as an admin would write it, but with seconds for hours."""

import os
import sys
from pathlib import Path

from jupyter_vgpu.hub import setup

c = get_config()  # noqa: F821

folder = Path(os.environ["HUB_TEST_FOLDER"])
port, hub_port, proxy_port = os.environ["HUB_TEST_PORTS"].split(",")

c.JupyterHub.bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{hub_port}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.pid_file = str(folder / "proxy.pid")
c.ConfigurableHTTPProxy.auth_token = os.environ["HUB_TEST_TOKEN"]
c.JupyterHub.db_url = f"sqlite:///{folder / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.services = [{"name": "test", "api_token": os.environ["HUB_TEST_TOKEN"]}]
c.JupyterHub.load_roles = [
    {"name": "test", "scopes": ["admin:users", "tokens", "admin:servers", "access:servers"], "services": ["test"]}
]
# How often the hub asks the proxy, and the servers tell the hub, when something was last done.
c.JupyterHub.last_activity_interval = 1
c.Spawner.environment = {
    "JUPYTERHUB_ACTIVITY_INTERVAL": "1",
    "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
    "JUPYTER_CONFIG_PATH": os.environ["HUB_TEST_EXTENSION"],
    "PYTHONPATH": os.environ["PYTHONPATH"],
    "TMPDIR": str(folder),
}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(folder / "homes" / "{username}")
c.Spawner.cmd = [str(Path(sys.executable).with_name("jupyterhub-singleuser"))]
c.Spawner.args = ["--allow-root"]
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.Spawner.poll_interval = 1

c.VGPUHub.quotas = {"everyone": {"gpu_hours": 20}}
setup(c, profiles={"1/4 GPU": {"share": "1/4", "max_hours": 3}}, agent=os.environ["HUB_TEST_AGENT"])
