"""A tenant that writes less GPU time into its usage page than it had: how soon the agent says so, and of whom."""

from __future__ import annotations

import time

from meter.cases import Case
from meter.known_work import LEARN_SECONDS
from meter.tenants import Stage, work

LOOK_SECONDS = 0.01
# For who is never found out.
MOST_SECONDS = 8.0


def measure(stage: Stage, case: Case, seconds: float) -> list[dict[str, object]]:
    """Return the row of one case: seconds from the first lie of a busy tenant until the agent's event about it."""
    found: float | None = None
    with stage.tenants(case) as tenants:
        liar, honest = tenants[0], tenants[1:]
        work(tenants, LEARN_SECONDS)
        wrongly = stage.flagged(tenants)
        liar.tell(f"lie {case.said}")
        liar.hear()
        begun = time.monotonic()
        for tenant in tenants:
            tenant.tell(f"run {MOST_SECONDS}")
        while found is None and time.monotonic() - begun < MOST_SECONDS:
            time.sleep(LOOK_SECONDS)
            if stage.flagged([liar]):
                found = time.monotonic() - begun
        wrongly |= {place + 1: said for place, said in stage.flagged(honest).items()}
    return [
        {
            **case.as_row(),
            "said": case.said,
            "flagged_seconds": None if found is None else round(found, 3),
            # Who is honest, the liar before its first lie included.
            "wrongly_flagged": wrongly,
            "met": found is not None and found <= case.target and not wrongly,
        }
    ]
