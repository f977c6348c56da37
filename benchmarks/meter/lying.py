"""A tenant that writes less GPU time into its usage page than it had: how soon the agent says so, and of whom."""

from __future__ import annotations

import time

from meter.cases import Case
from meter.known_work import LEARN_SECONDS
from meter.tenants import Stage

LOOK_SECONDS = 0.01
# For who is never found out.
MOST_SECONDS = 8.0


def measure(stage: Stage, case: Case, seconds: float) -> list[dict[str, object]]:
    """Return the row of one case: seconds from the first lie of a busy tenant until the agent's event about it."""
    flagged: dict[str, float] = {}
    with stage.tenants(case) as tenants:
        liar = tenants[0]
        known = len(stage.agent.hub.events())
        for tenant in tenants:
            tenant.tell(f"run {LEARN_SECONDS}")
        for tenant in tenants:
            tenant.hear()
        honest = [event for event in stage.agent.hub.events()[known:] if event["kind"] == "meter"]
        known = len(stage.agent.hub.events())
        liar.tell(f"lie {case.said}")
        liar.hear()
        begun = time.monotonic()
        for tenant in tenants:
            tenant.tell(f"run {MOST_SECONDS}")
        while liar.claim not in flagged and time.monotonic() - begun < MOST_SECONDS:
            for event in stage.agent.hub.events()[known:]:
                if event["kind"] == "meter":
                    flagged.setdefault(str(event["claim"]), time.monotonic() - begun)
            time.sleep(LOOK_SECONDS)
    found = flagged.pop(liar.claim, None)
    return [
        {
            **case.as_row(),
            "said": case.said,
            "flagged_seconds": None if found is None else round(found, 3),
            # Honest ones that were flagged, the liar before its first lie included.
            "wrongly_flagged": len(flagged) + len(honest),
            "met": found is not None and found <= case.target and not flagged and not honest,
        }
    ]
