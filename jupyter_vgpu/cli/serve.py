"""`jupyter vgpu agent`."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import shutil
import sys
from pathlib import Path

from jupyter_vgpu.client import SYSTEM_RUNTIME_DIR
from jupyter_vgpu.errors import BadValueError

_UNIT = Path(__file__).resolve().parent.parent / "data" / "jupyter-vgpu-agent.service"
# Of what was parsed: no options of the agent that the unit is to start.
_NOT_IN_UNIT = {"verb", "print_unit", "refuse", "default_of"}


def agent(options: argparse.Namespace) -> int:
    """Serve this node's devices until SIGTERM or SIGINT; return 0."""
    if options.print_unit:
        print(_unit(options), end="")
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


def _unit(options: argparse.Namespace) -> str:
    """Return a systemd unit of an agent with these options.

    Raises:
        BadValueError: An option is given whose place the unit itself decides.
    """
    for name in ("runtime_dir", "state_dir"):
        if getattr(options, name) is not None:
            raise BadValueError(
                f"--{name.replace('_', '-')}",
                str(getattr(options, name)),
                "none is with --print-unit: systemd makes the agent's directories, in /run and /var/lib",
            )
    words = [shutil.which("jupyter-vgpu") or f"{sys.executable} -m jupyter_vgpu.cli", "agent"]
    for name, value in vars(options).items():
        if name not in _NOT_IN_UNIT and value != options.default_of(name):
            # systemd has another working directory. source: systemd.exec(5), WorkingDirectory=
            text = str(value.absolute()) if isinstance(value, Path) else str(value)
            words += [f"--{name.replace('_', '-')}", _quoted(text)]
    unit = _UNIT.read_text(encoding="utf-8").replace("@COMMAND@", " ".join(words))
    if options.listen:
        unit = unit.replace("RestrictAddressFamilies=AF_UNIX\n", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n")
        unit = unit.replace("PrivateNetwork=yes\n", "")
    return unit


def _quoted(text: str) -> str:
    """Return a word of ExecStart=. source: systemd.service(5), "Command lines"; systemd.unit(5), "Specifiers"."""
    return shlex.quote(text.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$"))


def _default_runtime_dir() -> Path:
    if os.geteuid() != 0:
        raise BadValueError(
            "--runtime-dir", None, f"a directory must be given, since only root may use {SYSTEM_RUNTIME_DIR}"
        )
    return SYSTEM_RUNTIME_DIR
