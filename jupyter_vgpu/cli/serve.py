"""`jupyter vgpu agent`."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from pathlib import Path

from jupyter_vgpu.client import SYSTEM_RUNTIME_DIR
from jupyter_vgpu.errors import BadValueError

_UNIT = Path(__file__).resolve().parent.parent / "data" / "jupyter-vgpu-agent.service"


def agent(options: argparse.Namespace) -> int:
    """Serve this node's devices until SIGTERM or SIGINT; return 0."""
    if options.print_unit:
        program = shutil.which("jupyter-vgpu") or f"{sys.executable} -m jupyter_vgpu.cli"
        print(_UNIT.read_text(encoding="utf-8").replace("@COMMAND@", program), end="")
        return 0
    from jupyter_vgpu.agent.app import ServeOptions, serve
    from jupyter_vgpu.agent.listening import ListenOptions

    logging.basicConfig(
        level=options.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname).1s %(message)s",
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    serve(
        ServeOptions(
            runtime_dir=options.runtime_dir or _default_runtime_dir(),
            state_dir=options.state_dir,
            simulate=options.simulate,
            devices=options.devices,
            hub_user=options.hub_user,
            on_bypass=options.on_bypass,
            on_excess=options.on_excess,
            govern=options.time == "govern",
            listen=ListenOptions(
                options.listen, options.certificate, options.key, options.client_ca, options.token_file
            ),
        )
    )
    return 0


def _default_runtime_dir() -> Path:
    if os.geteuid() != 0:
        raise BadValueError(
            "--runtime-dir", None, f"a directory must be given, since only root may use {SYSTEM_RUNTIME_DIR}"
        )
    return SYSTEM_RUNTIME_DIR
