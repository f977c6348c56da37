"""A student's server: up at once, and at work on its slice of a GPU until it is told to end.

Answers every request, as any web server behind a hub may. Writes one line to the file LAB_RECORDS: what the slice
showed and gave it. Nothing but the standard library, for 200 of them on two cores.
"""

import contextlib
import ctypes
import http.server
import json
import os
import threading
import urllib.parse

OWN_BYTES = 64 << 20


class Answer(http.server.BaseHTTPRequestHandler):
    """Says yes."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def use_gpu() -> dict[str, int]:
    """Allocate a little and keep it, ask for more than the slice has, and return what came of it."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, free, total = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    own, more = ctypes.c_uint64(), ctypes.c_uint64()
    steps = {
        "init": driver.cuInit(0),
        "device": driver.cuDeviceGet(ctypes.byref(device), 0),
        "context": driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        "current": driver.cuCtxSetCurrent(context),
        "info": driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
        "own": driver.cuMemAlloc_v2(ctypes.byref(own), ctypes.c_size_t(OWN_BYTES)),
    }
    too_much = ctypes.c_size_t(total.value - OWN_BYTES + 1)
    return {
        "failed_steps": sum(code != 0 for code in steps.values()),
        "total_bytes": total.value,
        "over_limit": driver.cuMemAlloc_v2(ctypes.byref(more), too_much),
    }


def record() -> None:
    """Use the GPU and write down what came of it."""
    try:
        found: dict[str, object] = dict(use_gpu())
    except OSError as error:
        found = {"error": str(error)}
    line = json.dumps({"user": os.environ["JUPYTERHUB_USER"], **found}) + "\n"
    with open(os.environ["LAB_RECORDS"], "a", encoding="utf-8") as records:  # noqa: PTH123 (pathlib is slow to import)
        records.write(line)


address = urllib.parse.urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
server = http.server.ThreadingHTTPServer((address.hostname or "127.0.0.1", address.port or 0), Answer)
threading.Thread(target=record, daemon=True).start()
with contextlib.suppress(KeyboardInterrupt):
    server.serve_forever()
