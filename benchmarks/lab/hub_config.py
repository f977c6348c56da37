"""Configuration of the lab's hub: as an admin would write it, but for what makes a day pass in minutes."""

import os
import sys
from pathlib import Path

from jupyterhub.spawner import SimpleLocalProcessSpawner
from sqlalchemy import event
from sqlalchemy.engine import Engine

from jupyter_vgpu.hub import setup

c = get_config()  # noqa: F821

folder = Path(os.environ["HUB_TEST_FOLDER"])
port, hub_port, proxy_port = os.environ["HUB_TEST_PORTS"].split(",")
users = int(os.environ["LAB_USERS"])


@event.listens_for(Engine, "connect")
def commit_without_waiting_for_the_disk(connection, record):
    """Spare JupyterHub's own database, which it writes to ten times per start, what a larger one would not ask."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


c.JupyterHub.bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{hub_port}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.pid_file = str(folder / "proxy.pid")
c.ConfigurableHTTPProxy.auth_token = "of-the-proxy"
c.ConfigurableHTTPProxy.log_level = "error"
c.JupyterHub.db_url = f"sqlite:///{folder / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.allow_named_servers = True
c.JupyterHub.concurrent_spawn_limit = users + 100  # those who wait are among them
c.JupyterHub.services = [{"name": "lab", "api_token": os.environ["HUB_TEST_TOKEN"]}]
c.JupyterHub.load_roles = [{"name": "lab", "scopes": ["admin:users", "admin:servers"], "services": ["lab"]}]
c.JupyterHub.load_groups = {
    "seminar": {"users": [f"student-{number}" for number in range(0, users, 5)]},
    "greedy": {"users": [f"student-{number}" for number in range(3, users, 20)]},
}

c.JupyterHub.spawner_class = SimpleLocalProcessSpawner
c.SimpleLocalProcessSpawner.home_dir_template = str(folder / "homes" / "{username}")
c.Spawner.cmd = [sys.executable, "-I", str(Path(__file__).with_name("student.py"))]
c.Spawner.environment = {"LAB_RECORDS": str(folder / "records"), "TMPDIR": str(folder)}
c.Spawner.poll_interval = 5
c.Spawner.consecutive_failure_limit = 5
c.LocalProcessSpawner.interrupt_timeout = 10
c.VGPUHub.reconcile_interval_seconds = 2.0
c.VGPUHub.queue_timeout_seconds = 600.0
c.VGPUHub.queue_patience_seconds = 30.0
c.VGPUHub.queue_length = users
c.VGPUHub.quotas = {
    "everyone": {"slices": int(os.environ["LAB_SLICES_EACH"])},
    "members": {
        "greedy": {
            "slices": int(os.environ["LAB_SLICES_EACH"]),
            "gpu_hours": float(os.environ["LAB_GREEDY_HOURS"]),
            "window_days": 1,
        }
    },
    "groups": {"seminar": {"slices": int(os.environ["LAB_SEMINAR_SLICES"])}},
}
setup(
    c,
    agent=os.environ["HUB_TEST_AGENT"],
    profiles={"1/4 GPU": {"share": "1/4"}, "1/2 GPU": {"share": "1/2"}, "whole GPU": {"backend": "whole"}},
)
