"""An agent of a tenant's own that would grant anything; run by test_limits_hold in a mount namespace.

Prints whether the library believed it: whether it got as far as sending its secret.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

NOBODY = 65534

os.setgid(NOBODY)
os.setuid(NOBODY)
path = Path(sys.argv[1]) / "false.sock"
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(str(path))
listener.listen(8)
got: list[bytes] = []


def answer() -> None:
    connection, _ = listener.accept()
    got.append(connection.recv(4096))
    connection.close()


threading.Thread(target=answer, daemon=True).start()
environment = {
    **os.environ,
    "LD_PRELOAD": os.environ["FALSE_PRELOAD"],
    "JUPYTER_VGPU_SOCKET": str(path),
    "JUPYTER_VGPU_SECRET": "a" * 64,
}
program = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
subprocess.run(["/usr/bin/python3", "-c", program], env=environment, check=True, timeout=120)
sys.stdout.write(f"believed {bool(got and got[0])}\n")
