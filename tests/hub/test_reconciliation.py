"""Who is right when hub, agent and ledger disagree."""

from __future__ import annotations

from datetime import datetime, timezone

from jupyter_vgpu.client import ClaimInfo
from jupyter_vgpu.hub.reconciliation import correction
from jupyter_vgpu.ledger import Entry

NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)


def entry(user: str, claim_id: str | None, server: str = "") -> Entry:
    tenant = f"{user}/{server}" if server else user
    return Entry(1, claim_id, tenant, user, server, "1/4 GPU", "node", "bound", NOW, None, None, "")


def claim(tenant: str, claim_id: str) -> ClaimInfo:
    return ClaimInfo(
        claim=claim_id,
        tenant=tenant,
        hub="hub",
        uid=0,
        profile="1/4 GPU",
        backend="intercept",
        state="bound",
        created_at=0.0,
        devices=[],
    )


def test_what_agrees_is_left_alone() -> None:
    correct = correction(
        [entry("ada", "c1"), entry("ada", "c2", "two")],
        [claim("ada", "c1"), claim("ada/two", "c2")],
        {("ada", ""): "c1", ("ada", "two"): "c2"},
    )

    assert (correct.release, correct.close, correct.adopt) == ([], [], [])


def test_a_claim_without_a_server_is_released() -> None:
    correct = correction([entry("ada", "c1")], [claim("ada", "c1")], {})

    assert [found["claim"] for found, _ in correct.release] == ["c1"]
    assert correct.close == []  # with the release, not before


def test_a_claim_of_a_named_server_is_not_taken_for_the_default_servers() -> None:
    correct = correction([], [claim("ada/two", "c2")], {("ada", ""): "c1"})

    assert [found["claim"] for found, _ in correct.release] == ["c2"]


def test_a_second_claim_of_a_running_server_is_released() -> None:
    correct = correction([entry("ada", "c2")], [claim("ada", "c1"), claim("ada", "c2")], {("ada", ""): "c2"})

    assert [found["claim"] for found, _ in correct.release] == ["c1"]


def test_a_server_that_starts_keeps_a_claim_that_nobody_has_written_down_yet() -> None:
    correct = correction([], [claim("ada", "c1")], {("ada", ""): None})

    assert (correct.release, correct.close, correct.adopt) == ([], [], [])


def test_a_claim_that_the_ledger_forgot_is_written_down_again() -> None:
    correct = correction([], [claim("ada", "c1")], {("ada", ""): "c1"})

    assert [(key, found["claim"]) for key, found in correct.adopt] == [(("ada", ""), "c1")]


def test_an_entry_that_the_agent_does_not_know_is_closed_though_its_server_runs() -> None:
    correct = correction([entry("ada", "c1")], [], {("ada", ""): "c1"})

    assert [found.claim_id for found, _ in correct.close] == ["c1"]


def test_an_entry_without_an_answer_is_closed_when_its_server_is_gone_and_kept_while_it_starts() -> None:
    unanswered = entry("ada", None)

    assert correction([unanswered], [], {}).close
    assert not correction([unanswered], [], {("ada", ""): None}).close


def test_a_running_server_of_a_renamed_user_keeps_its_claim() -> None:
    assert correction([], [claim("ada", "c1")], {("countess", ""): "c1"}).release == []
