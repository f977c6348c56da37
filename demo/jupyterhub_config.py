"""Configuration of the hub that `make demo` runs; `demo/run.py` passes the folder and the board.

What a hub of your own needs is the line `setup(c)`. The rest makes a hub of one machine,
two made-up users and nothing left behind.
"""

import os
import sys
from pathlib import Path

from jupyter_vgpu.hub import setup

c = get_config()  # type: ignore[name-defined]  # noqa: F821  (JupyterHub puts it there)

folder = Path(os.environ["JUPYTER_VGPU_DEMO_DIR"])
runtime_dir = os.environ["JUPYTER_VGPU_AGENT"]

# --- who may come in: two users with one password, printed by `make demo` ---------------------------
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["JUPYTER_VGPU_DEMO_PASSWORD"]
c.Authenticator.allowed_users = {"alice", "bob"}

# --- where it listens and keeps its things -----------------------------------------------------------
c.JupyterHub.bind_url = f"http://127.0.0.1:{os.environ['JUPYTER_VGPU_DEMO_PORT']}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{os.environ['JUPYTER_VGPU_DEMO_HUB_PORT']}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{os.environ['JUPYTER_VGPU_DEMO_PROXY_PORT']}"
c.ConfigurableHTTPProxy.pid_file = str(folder / "proxy.pid")
c.JupyterHub.db_url = f"sqlite:///{folder / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")

# --- the users' servers: processes of whoever runs the demo, each with a folder for a home ------------
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(folder / "users" / "{username}")
c.Spawner.cmd = [str(Path(sys.executable).with_name("jupyterhub-singleuser"))]
c.Spawner.args = ["--allow-root"] if os.getuid() == 0 else []
c.Spawner.default_url = "/lab/tree/try-your-slice.ipynb"
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.Spawner.environment = {"TMPDIR": str(folder / "tmp")}

# --- the node agent: a service of the hub, here only. In production it is a system service ------------
board = os.environ.get("JUPYTER_VGPU_DEMO_BOARD")
c.JupyterHub.services = [
    {
        "name": "jupyter-vgpu-agent",
        "command": [
            *(sys.executable, "-m", "jupyter_vgpu.cli", "agent", "--runtime-dir", runtime_dir),
            *(("--simulate", board) if board else ()),
        ],
    }
]

# --- slices of a GPU ------------------------------------------------------------------------------------
setup(c, agent=runtime_dir)
