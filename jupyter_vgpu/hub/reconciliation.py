"""Compare what agent, hub and ledger believe, and say what to correct.

Pure. The hub knows which servers run, the agent which claims hold a slice; the
ledger is only a memory and is corrected after the two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_vgpu.client import ClaimInfo
from jupyter_vgpu.ledger import Entry

ServerKey = tuple[str, str]  # user, named server; "" = the default server


def tenant_name(user: str, server: str) -> str:
    """Return the tenant: the user, or `user/server` for a named server; neither holds a slash in JupyterHub."""
    return f"{user}/{server}" if server else user


@dataclass(frozen=True)
class Correction:
    """What to do, each with why.

    Attributes:
        release: Claims that hold a slice for no running server.
        close: Entries of the ledger whose claim is gone.
        adopt: Claims of running servers that the ledger has forgotten.
    """

    release: list[tuple[ClaimInfo, str]] = field(default_factory=list)
    close: list[tuple[Entry, str]] = field(default_factory=list)
    adopt: list[tuple[ServerKey, ClaimInfo]] = field(default_factory=list)


def correction(
    entries: Sequence[Entry],
    claims: Sequence[ClaimInfo],
    servers: Mapping[ServerKey, str | None],
    answering: Collection[str] | None = None,
) -> Correction:
    """Return what to correct.

    The three must have been read in this order. What happens meanwhile then errs on the side of doing nothing: a
    claim made after `entries` were read has no entry and a server that is known.

    Args:
        entries: Open entries of this hub.
        claims: This hub's claims at the agent.
        servers: Servers that run, start or stop now, with the claim they are known to hold; `None` = not known, as
            while they start.
        answering: Names of the nodes whose claims these are, where other nodes are silent: what an entry says of those
            stays as it is. `None` = no node is silent.
    """
    result = Correction()
    running = {tenant_name(*key): key for key in servers}
    known = {entry.claim_id for entry in entries}
    held = {claim["claim"] for claim in claims}
    in_use = set(servers.values())
    for claim in claims:
        key = running.get(claim["tenant"])
        if key is None:
            if claim["claim"] not in in_use:  # its user may have been renamed
                result.release.append((claim, "its server does not run"))
        elif servers[key] not in (None, claim["claim"]):
            result.release.append((claim, "its server holds another claim"))
        elif servers[key] == claim["claim"] and claim["claim"] not in known:
            result.adopt.append((key, claim))
    for entry in entries:
        is_running = (entry.user, entry.server) in servers
        if entry.claim_id is None and not is_running:
            result.close.append((entry, "the hub stopped before the agent had answered"))
        elif entry.claim_id is not None and entry.claim_id not in held and _is_known(entry, answering):
            result.close.append((entry, "the agent does not know it"))
    return result


def _is_known(entry: Entry, answering: Collection[str] | None) -> bool:
    """Return whether whoever has the claim of `entry` has answered."""
    return answering is None or entry.node in answering
