"""A Jupyter kernel in a server that a real hub spawned, in a slice of the real GPU."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

START_SECONDS = 90.0
CELL = """
import subprocess, torch
print(torch.cuda.mem_get_info()[1])
try:
    torch.empty(17 << 30, dtype=torch.uint8, device="cuda"); print("given")
except torch.cuda.OutOfMemoryError:
    print("refused")
model = torch.nn.Linear(256, 256).cuda(); x = torch.randn(64, 256, device="cuda")
graph = torch.cuda.CUDAGraph(); model(x); torch.cuda.synchronize()
with torch.no_grad(), torch.cuda.graph(graph):
    y = model(x)
graph.replay(); torch.cuda.synchronize(); print(torch.allclose(y, model(x), atol=1e-3))
query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
print(subprocess.check_output(query, text=True).strip())
"""


@pytest.fixture
def agent_dir() -> Iterator[Path]:
    """Return a folder for the agent, short enough for sockets however long the test's own is."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "agent"


@pytest.fixture
def hub(tmp_path: Path, agent_dir: Path) -> Iterator[tuple[str, str]]:
    """Return URL and token of a hub with an agent on this machine's GPU."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [str(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners:
        listener.close()
    token = secrets.token_hex(16)
    environment = {
        **os.environ,
        "HUB_TEST_FOLDER": str(tmp_path),
        "HUB_TEST_PORTS": ",".join(ports),
        "HUB_TEST_TOKEN": token,
        "HUB_TEST_AGENT": str(agent_dir),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
    }
    agent = subprocess.Popen(
        [sys.executable, "-m", "jupyter_vgpu.cli", "agent", "--runtime-dir", str(agent_dir)], env=environment
    )
    config = Path(__file__).with_name("hub_config.py")
    hub = subprocess.Popen([sys.executable, "-m", "jupyterhub", "-f", str(config)], cwd=tmp_path, env=environment)
    try:
        yield f"http://127.0.0.1:{ports[0]}", token
    finally:
        for process in (hub, agent):
            process.terminate()
            process.wait(30)


def test_a_cell_gets_its_slice_and_is_refused_past_it(hub: tuple[str, str]) -> None:
    import requests
    import websocket

    url, token = hub
    headers = {"Authorization": f"token {token}"}
    deadline = time.monotonic() + START_SECONDS

    def ask(method: str, path: str, expected: tuple[int, ...], **more: object) -> requests.Response:
        while True:
            try:
                answer = requests.request(method, url + path, headers=headers, timeout=60, **more)  # type: ignore[arg-type]
                if answer.status_code in expected:
                    return answer
                complaint = f"{answer.status_code}: {answer.text[:500]}"
            except requests.ConnectionError as error:
                complaint = str(error)
            assert time.monotonic() < deadline, complaint
            time.sleep(0.5)

    ask("POST", "/hub/api/users/ada", (201, 409))
    ask("POST", "/hub/api/users/ada/server", (201, 202, 400), json={"vgpu_profile": "16 GiB"})
    kernel = ask("POST", "/user/ada/api/kernels", (201,), json={"name": "python3"}).json()["id"]
    channel = websocket.create_connection(
        f"{url.replace('http', 'ws')}/user/ada/api/kernels/{kernel}/channels", header=headers, timeout=120
    )
    message = {
        "header": {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "version": "5.3",
            "username": "",
            "session": uuid.uuid4().hex,
        },
        "parent_header": {},
        "metadata": {},
        "content": {"code": CELL, "silent": False},
        "channel": "shell",
    }
    channel.send(json.dumps(message))
    printed, done = "", False
    while not done:
        answer = json.loads(channel.recv())
        kind, content = answer["msg_type"], answer["content"]
        assert kind != "error", "\n".join(content["traceback"])
        printed += content["text"] if kind == "stream" and content["name"] == "stdout" else ""
        done = kind == "execute_reply"
    time.sleep(0.5)
    channel.close()
    ask("DELETE", "/hub/api/users/ada/server", (202, 204))

    assert printed.splitlines() == [str(16 << 30), "refused", "True", "16384"]
