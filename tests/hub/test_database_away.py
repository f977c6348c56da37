"""A hub whose ledger is away for a while."""

from __future__ import annotations

from typing import Any

QUARTER = {"vgpu_profile": "1/4 GPU"}


def test_servers_go_on_new_starts_say_why_and_nothing_is_lost_when_it_returns(hub: Any, agent: Any) -> None:
    hub.spawn("quick-stays")
    hub.spawn("quick-leaves")
    held = {claim["tenant"]: claim["claim"] for claim in agent.claims()}
    before = hub.failures()
    ledger = hub.folder / "jupyter_vgpu.sqlite"
    away = hub.folder / "away.sqlite"
    ledger.rename(away)
    try:
        refused = hub.ask("quick-new", QUARTER)
        hub.stop_server("quick-leaves")
        hub.wait_until(lambda: agent.tenants() == ["quick-stays"], "the slice of who left is released all the same")
        hub.wait_until(lambda: "claims cannot be reconciled now: the ledger" in hub.log.read_text(), "it is missed")
        assert hub.is_ready("quick-stays")
    finally:
        away.rename(ledger)

    assert refused.status_code == 503
    assert f"the ledger at sqlite:///{ledger} cannot be used" in refused.json()["message"]
    assert hub.failures() == before
    hub.wait_until(lambda: hub.ledger().history("quick-leaves")[-1].state == "released", "the end is written down")
    (entry,) = hub.ledger().open_entries()
    assert (entry.user, entry.claim_id) == ("quick-stays", held["quick-stays"])
    hub.spawn("quick-new")
    assert agent.tenants() == ["quick-new", "quick-stays"]
