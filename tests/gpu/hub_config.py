"""A hub on the real GPU: one user, one profile of 16 GiB, everything on loopback."""

import os
import shutil
import sys
from pathlib import Path

from jupyter_vgpu.hub import setup

c = get_config()  # noqa: F821

folder = Path(os.environ["HUB_TEST_FOLDER"])
port, hub_port, proxy_port = os.environ["HUB_TEST_PORTS"].split(",")
proxy = shutil.which("configurable-http-proxy")

c.JupyterHub.bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{hub_port}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.pid_file = str(folder / "proxy.pid")
c.ConfigurableHTTPProxy.auth_token = "of-the-proxy"
# The machine with the GPU has no Node.js: there, the proxy written in Python.
c.ConfigurableHTTPProxy.command = (
    [proxy] if proxy else [sys.executable, "-c", "from configurable_http_proxy.cli import main; main()"]
)
c.JupyterHub.db_url = f"sqlite:///{folder / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.services = [{"name": "test", "api_token": os.environ["HUB_TEST_TOKEN"]}]
c.JupyterHub.load_roles = [
    {"name": "test", "scopes": ["admin:users", "admin:servers", "access:servers"], "services": ["test"]}
]
c.JupyterHub.spawner_class = "simple"
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root"]
c.Spawner.environment = {
    "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "PATH": os.environ["PATH"],
}
c.Spawner.notebook_dir = str(folder)
c.Spawner.start_timeout = 60

setup(
    c,
    profiles={"16 GiB": {"memory": "16GiB"}},
    agent=os.environ["HUB_TEST_AGENT"],
    ledger_url=f"sqlite:///{folder / 'vgpu.sqlite'}",
)
