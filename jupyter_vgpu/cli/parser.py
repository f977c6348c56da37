"""The command line: verbs, options, and their help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from jupyter_vgpu._version import __version__

_EXAMPLES = """\
examples:
  jupyter vgpu doctor                                  what is missing, with the fix
  jupyter vgpu run --share 1/4 -- python train.py      a command in a quarter of a GPU
  jupyter vgpu run --simulate a100-80 --memory 10GiB -- python client.py
                                                       the same without any GPU
  jupyter vgpu status                                  this slice, or this node
"""

_RUN = """\
Run COMMAND in a slice of a GPU: its programs together get no more memory than the slice has.
The slice lasts as long as COMMAND; processes that outlive it are ended.

The node's agent gives the slice when there is one that serves this user; otherwise this command
brings an agent of its own. Exit code: COMMAND's, 128+n when signal n ended it, 2 for a bad value.
"""

_RUN_EXAMPLES = """\
examples:
  jupyter vgpu run --profile "1/4 GPU" -- python train.py
  jupyter vgpu run --memory 16GiB -- python train.py            share = memory / the device's memory
  jupyter vgpu run --share 25% --ceiling 50% -- jupyter lab     memory = the same part as the share
  jupyter vgpu run --simulate h100 --share 1/2 -- python client.py   no GPU needed
"""

_AGENT = """\
Serve this node's GPUs: keep the claims of hubs, pass limits to the processes of their users.

One agent per node, as root, from a service manager: `jupyter vgpu agent --print-unit` prints a systemd
unit. As another user it works too, but is a demo: users with the agent's own rights could interfere.
It stops cleanly on SIGTERM and Ctrl-C; its claims are kept and taken up again at the next start.
"""

_AGENT_EXAMPLES = """\
examples:
  jupyter vgpu agent                                            a system agent, in /run/jupyter-vgpu
  jupyter vgpu agent --hub-user jupyterhub                      the same, for a hub that does not run as root
  jupyter vgpu agent --listen gpu1.example.org:8443 --certificate gpu1.pem --key gpu1.key --token-file hub.token
                                                                 for a hub on another node too
  jupyter vgpu agent --simulate 2xa100-80 --runtime-dir ./agent  no GPU needed
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Refuse; of an option without a value, also say how one is given that looks like an option."""
        if message.endswith("expected one argument"):
            option = message.removeprefix("argument ").partition(":")[0]
            message = f"{option}: nothing was given; {option} VALUE is, or {option}=VALUE where that begins with -"
        super().error(message)


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what stands before the first `--`, and the rest, which begins with it."""
    arguments = list(arguments)
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place:]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return verb, options and `command`; what is not understood ends the program, with the help of the verb.

    A `--` that stands behind the command's name is the command's own.

    Raises:
        SystemExit: 0 after `--help` and `--version`, 2 for what is not understood.
    """
    parser = build_parser()
    options, rest = split_command(arguments)
    if not options:
        parser.print_help(sys.stderr)
        parser.exit(2)
    parsed, unknown = parser.parse_known_args(options)
    refuse = getattr(parsed, "refuse", parser.error)
    if unknown:
        refuse(f"not understood: {' '.join(unknown)}")
    if parsed.verb is None:
        refuse("VERB: nothing was given")
    if parsed.verb == "run":
        parsed.command = [*parsed.command, *rest] if parsed.command else rest[1:]
    elif rest:
        refuse(f"not understood: {' '.join(rest)}; only `jupyter vgpu run` takes a command")
    return parsed


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `jupyter vgpu`."""
    parser = _Parser(
        prog="jupyter vgpu",
        description="Enforced slices of NVIDIA GPUs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    _add_run(verbs)
    _add_agent(verbs)
    for verb, text in (
        ("devices", "List this node's devices and what is free on each."),
        ("claims", "List who holds which slice on this node (needs the agent)."),
        ("status", "Show the slice this shell runs in, or else this node's agent."),
    ):
        listing = _add_verb(verbs, verb, text)
        listing.add_argument("--json", action="store_true", help="print JSON, in the shapes of the agent's API")
        if verb == "status":
            listing.add_argument(
                "--trace",
                metavar="FILE",
                type=Path,
                help="write who held and used the GPU, for some time from now, as a Chrome trace (open it at "
                "ui.perfetto.dev); needs the agent",
            )
            listing.add_argument(
                "--trace-seconds", metavar="SECONDS", type=float, help="for how long, 0.01 to 30 (default: 1)"
            )
        _add_agent_dir(listing)
    doctor = _add_verb(verbs, "doctor", "Check what slices need, in order; say what is missing and the fix.")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument("--simulate", metavar="BOARD", help="check the simulated driver instead of NVIDIA's")
    _add_agent_dir(doctor)
    magic = _add_verb(verbs, "enable-magic", "Have the vgpu magic in every new Jupyter kernel of this user.")
    magic.add_argument("--profile", metavar="NAME", default="default", help='IPython profile (default: "default")')
    magic.add_argument("--undo", action="store_true", help="take it back")
    return parser


def _add_verb(
    verbs: argparse._SubParsersAction[_Parser], verb: str, text: str, examples: str = ""
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        verb,
        help=text.strip().split("\n", maxsplit=1)[0].partition(":")[0].rstrip("."),
        description=text,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(refuse=parser.error, default_of=parser.get_default)
    return parser


def _add_agent_dir(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--agent",
        type=Path,
        metavar="DIR",
        help="runtime directory of the agent to ask (default: $JUPYTER_VGPU_AGENT, else /run/jupyter-vgpu)",
    )


def _add_run(verbs: argparse._SubParsersAction[_Parser]) -> None:
    run = _add_verb(verbs, "run", _RUN, _RUN_EXAMPLES)
    run.usage = "jupyter vgpu run [OPTION ...] -- COMMAND [ARGUMENT ...]"
    amount = run.add_argument_group("how much")
    amount.add_argument("--profile", metavar="NAME", help='a named offer, as "1/4 GPU"; an unknown one lists them')
    amount.add_argument("--share", metavar="PART", help='promised part of the device\'s time, as "1/4" or "25%%"')
    amount.add_argument("--memory", metavar="SIZE", help='device memory, as "10GiB" or "1/4"')
    amount.add_argument("--ceiling", metavar="PART", help="most of the device's time it may use (default: all)")
    amount.add_argument("--guarantee", metavar="PART", help="least of it each second, if wanted (default: none)")
    amount.add_argument("--config", type=Path, metavar="FILE", help='JSON file with more profiles: {"profiles": …}')
    where = run.add_argument_group("of what").add_mutually_exclusive_group()
    where.add_argument("--simulate", metavar="BOARD", help='a simulated board, as "a100-80" or "2xa100-80"')
    _add_agent_dir(where)
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run, with its arguments")


def _add_agent(verbs: argparse._SubParsersAction[_Parser]) -> None:
    agent = _add_verb(verbs, "agent", _AGENT, _AGENT_EXAMPLES)
    agent.add_argument(
        "--runtime-dir", type=Path, metavar="DIR", help="where its sockets go (default, for root: /run/jupyter-vgpu)"
    )
    agent.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="where its claims are kept (default: /var/lib/jupyter-vgpu, or DIR of --runtime-dir where that is given)",
    )
    agent.add_argument("--hub-user", metavar="USER", help="host user of the hub, who may open hub.sock beside root")
    remote = agent.add_argument_group("for hubs on other nodes")
    remote.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="",
        help="a port besides hub.sock, with TLS; without a certificate only on the loopback interface; port 0 = any, "
        "which the log names",
    )
    remote.add_argument("--certificate", type=Path, metavar="FILE", help="PEM file of the agent's certificate")
    remote.add_argument("--key", type=Path, metavar="FILE", help="PEM file of its private key, without a password")
    remote.add_argument(
        "--client-ca",
        type=Path,
        metavar="FILE",
        help="PEM file of authorities: a hub must have a certificate by one of them, besides its token",
    )
    remote.add_argument(
        "--token-file", type=Path, metavar="FILE", help="the token that hubs send (default: hub.token, made at a start)"
    )
    agent.add_argument("--simulate", metavar="BOARD", help='serve a simulated board, as "a100-80" or "2xa100-80"')
    agent.add_argument(
        "--devices",
        metavar="LIST",
        help='serve only these, by number or UUID, as "0,2" (default: those in JUPYTER_VGPU_DEVICES, or all)',
    )
    agent.add_argument(
        "--time",
        choices=("govern", "driver"),
        default="govern",
        help="who shares out GPU time: the governor, by the slices' shares and ceilings, or the NVIDIA driver alone, "
        "in equal turns and without ceilings (default: govern)",
    )
    agent.add_argument(
        "--on-bypass",
        choices=("report", "kill"),
        default="report",
        help="what to do about a process of a slice that uses the device without the library: only report it, or "
        "report it and end that process (default: report)",
    )
    agent.add_argument(
        "--on-excess",
        choices=("report", "kill"),
        default="report",
        help="what to do when by NVML a slice has had more memory than its limit for two seconds: only report it, or "
        "report it and end the process that has most beyond what it was granted (default: report)",
    )
    agent.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="how much it logs (default: info)",
    )
    agent.add_argument(
        "--print-unit",
        action="store_true",
        help="print a systemd unit for it with the other options, and do nothing else",
    )
