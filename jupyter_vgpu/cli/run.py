"""`jupyter vgpu run`: a command in a slice, with the node's agent or one of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import os
import socket
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from jupyter_vgpu.cli.agents import named_agent
from jupyter_vgpu.cli.child import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Child, Ended, end_on_signals, say
from jupyter_vgpu.cli.private import private_dir
from jupyter_vgpu.cli.wish import wished_profile
from jupyter_vgpu.client import SYSTEM_RUNTIME_DIR, GrantedClaim, HubClient
from jupyter_vgpu.errors import AgentUnreachableError, BadValueError, NotAuthorizedError
from jupyter_vgpu.model import ClaimRequest, Edits, Profile
from jupyter_vgpu.native import INTERCEPT_LIBRARY, present

if TYPE_CHECKING:
    from jupyter_vgpu.agent.service import Agent

HUB_NAME = "jupyter vgpu run"


def run(options: argparse.Namespace) -> int:
    """Run the command in a slice and return its exit code."""
    command: list[str] = options.command
    if not command:
        raise BadValueError.missing("COMMAND", "one is needed, as in: jupyter vgpu run --share 1/4 -- python train.py")
    _refuse_nesting()
    profile = wished_profile(options)
    present(INTERCEPT_LIBRARY)
    end_on_signals()
    try:
        granted = None if options.simulate else _from_agent(profile, named_agent(options.agent))
        if granted is not None:
            client, claim = granted
            try:
                return asyncio.run(_run_plainly(command, claim.edits))
            finally:
                with contextlib.suppress(AgentUnreachableError):
                    client.release_claim(claim.claim["claim"])
        with private_dir() as folder:
            return _run_private(profile, options.simulate, command, folder)
    except Ended as ended:
        return ended.exit_code


def _refuse_nesting() -> None:
    if INTERCEPT_LIBRARY.name in os.environ.get("LD_PRELOAD", "") and os.environ.get("JUPYTER_VGPU_SECRET"):
        raise BadValueError(
            "LD_PRELOAD",
            os.environ["LD_PRELOAD"],
            "a slice inside a slice is not possible: this shell runs in one already, so run the command as it is, or "
            "start a new shell outside",
        )


def _request(profile: Profile) -> ClaimRequest:
    return ClaimRequest(tenant=f"{getpass.getuser()}/{os.getpid()}", hub=HUB_NAME, uid=os.getuid(), profile=profile)


def _from_agent(profile: Profile, named: Path | None) -> tuple[HubClient, GrantedClaim] | None:
    """Return a claim of the node's agent; `None` when there is none that serves this user and none was named."""
    client = HubClient(named or SYSTEM_RUNTIME_DIR)
    if named is None and not (client.runtime_dir / "hub.sock").exists():
        return None
    try:
        return client, client.create_claim(_request(profile), while_this_process_lives=True)
    except (AgentUnreachableError, NotAuthorizedError) as error:
        if named is not None:
            raise
        say(f"using an agent of its own, since {error}")
        return None


def _run_private(profile: Profile, simulate: str | None, command: Sequence[str], folder: Path) -> int:
    from jupyter_vgpu.agent.node import find_devices, simulated_board
    from jupyter_vgpu.agent.oversight import AuditRules
    from jupyter_vgpu.agent.runtime import RuntimeDir
    from jupyter_vgpu.agent.service import Agent

    runtime = RuntimeDir(folder)
    try:
        with simulated_board(simulate, folder / "board.sim") as state:
            found = find_devices(state)

            async def serve() -> int:
                child = Child(asyncio.get_running_loop())
                # The rest of the node is not this command's business.
                rules = AuditRules(notes_strangers=False)
                agent = Agent(found.devices, runtime, None, found.simulated_state, found.nvml, rules)
                try:
                    agent.start()
                    _serve_when_asked(agent, runtime.listen("user.sock", socket.SOCK_STREAM, 0o600))
                    # Whatever descends from here is of this slice.
                    claim = await agent.claim(_request(profile), holder=os.getpid())
                    return await _run_with(child, command, claim.edits)
                finally:
                    await agent.stop()

            return asyncio.run(serve())
    finally:
        runtime.close()


async def _run_plainly(command: Sequence[str], edits: Edits) -> int:
    return await _run_with(Child(asyncio.get_running_loop()), command, edits)


def _serve_when_asked(agent: Agent, users: socket.socket) -> None:
    """Answer on `user.sock` once someone asks: until then its libraries need not be loaded, and few commands ask."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        loop.remove_reader(users.fileno())
        loop.run_in_executor(None, import_module, "jupyter_vgpu.agent.user_api").add_done_callback(loaded)

    def loaded(module: asyncio.Future[ModuleType]) -> None:
        module.result().serve_users(agent, users)

    loop.add_reader(users.fileno(), asked)


async def _run_with(child: Child, command: Sequence[str], edits: Edits) -> int:
    """Return the exit code of `command` under `edits`, once all that it started is gone."""
    try:
        child.start(command, edits.applied_to(dict(os.environ)))
    except FileNotFoundError:
        say(f"{command[0] or repr('')}: no such command")
        return EXIT_NOT_FOUND
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return EXIT_NOT_EXECUTABLE
    code = await child.wait()
    if rest := await child.end_rest():
        say(f"ended {rest} process{'es' if rest > 1 else ''} that outlived the command")
    return code
