"""Taking a slice away: released, stopped, written down with who did it; and refused to whoever may not."""

from __future__ import annotations

import re
from typing import Any

Hub = Any


def kinds_of(hub: Hub, user: str) -> list[tuple[str, str, str]]:
    return [(event.kind, event.detail, event.by) for event in hub.ledger().audit.recent(3, user=user)]


def test_a_revoked_slice_is_free_its_server_stopped_and_the_ledger_says_who_and_why(hub: Hub, agent: Any) -> None:
    hub.spawn("quick-ada")
    claim_id = hub.claim_of("quick-ada")

    with hub.as_user("quick-root") as root:
        answer = root.request("DELETE", f"/api/claims/{claim_id}", json={"because": "exam at ten"})
        events = root.get("/api/events", params={"limit": 3}).json()["events"]

    assert answer.status_code == 200, answer.text
    assert answer.json()["is_released"] is True
    assert answer.json()["server"] in ("stopped", "stopping")
    assert claim_id not in [claim["claim"] for claim in agent.claims()]
    hub.wait_until(lambda: not hub.is_ready("quick-ada"), "the server of quick-ada stops")
    ended = hub.ledger().history("quick-ada")[-1]
    assert (ended.claim_id, ended.state, ended.ended_because) == (
        claim_id,
        "released",
        "revoked by quick-root: exam at ten",
    )
    assert ("revoked", "exam at ten", "quick-root") in kinds_of(hub, "quick-ada")
    assert {"kind": "revoked", "by": "quick-root", "user": "quick-ada", "detail": "exam at ten"}.items() <= events[
        1
    ].items()


def test_a_named_server_is_revoked_and_the_others_of_its_user_go_on(hub: Hub) -> None:
    hub.spawn("quick-ada")
    hub.spawn("quick-ada", server="second")

    with hub.as_user("quick-root") as root:
        answer = root.delete(f"/api/claims/{hub.claim_of('quick-ada', 'second')}")

    assert answer.status_code == 200, answer.text
    hub.wait_until(lambda: not hub.is_ready("quick-ada", "second"), "the second server stops")
    assert hub.is_ready("quick-ada")


def test_who_was_revoked_may_start_again(hub: Hub) -> None:
    hub.spawn("quick-ada")
    with hub.as_user("quick-root") as root:
        root.delete(f"/api/claims/{hub.claim_of('quick-ada')}")
    hub.wait_until(lambda: not hub.servers("quick-ada").get(""), "the server of quick-ada is gone")

    hub.spawn("quick-ada")

    assert hub.claim_of("quick-ada")


def test_revoking_twice_is_refused_the_second_time_with_a_message(hub: Hub) -> None:
    hub.spawn("quick-ada")
    claim_id = hub.claim_of("quick-ada")

    with hub.as_user("quick-root") as root:
        first, second = (root.delete(f"/api/claims/{claim_id}") for _ in range(2))

    assert (first.status_code, second.status_code) == (200, 404)
    assert "no such claim" in second.json()["message"]


def test_a_user_may_give_up_their_own(hub: Hub) -> None:
    hub.spawn("quick-ada")

    with hub.as_user("quick-ada") as ada:
        answer = ada.delete(f"/api/claims/{hub.claim_of('quick-ada')}")

    assert answer.status_code == 200, answer.text
    assert hub.ledger().history("quick-ada")[-1].ended_because == "revoked by quick-ada"


def test_in_a_browser_the_form_works_and_without_its_secret_nothing_does(hub: Hub, xsrf_of: Any) -> None:
    hub.spawn("quick-ada")
    claim_id = hub.claim_of("quick-ada")
    path = f"/services/vgpu/claims/{claim_id}/revoke"

    with hub.browser("quick-root") as browser:
        page = browser.get(path)
        # What another site could make this browser send: its cookies, and not what stands in the page.
        forged = [
            browser.post(path, data={"because": "x"}),
            browser.post(path, data={"because": "x", "_xsrf": "made-up"}),
            browser.delete(f"/services/vgpu/api/claims/{claim_id}"),
            browser.post(f"{path}?token=x", data={"because": "x"}),
            browser.post(path, data={"because": "x"}, headers={"Authorization": "token made-up"}),
            browser.get(
                "/services/vgpu/api/claims", headers={"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site"}
            ),
        ]
        still_held = hub.claim_of("quick-ada")
        done = browser.post(path, data={"because": "exam", "_xsrf": xsrf_of(page)})

    assert "Revoke the slice of quick-ada?" in page.text
    assert {answer.status_code for answer in forged} == {403}
    assert still_held == claim_id
    assert done.status_code == 200
    assert "The slice was released." in done.text
    assert hub.ledger().history("quick-ada")[-1].ended_because == "revoked by quick-root: exam"


HOSTILE = "<script>alert(1)</script>\"'&amp;"


def test_html_in_a_reason_and_in_a_server_name_is_shown_as_text(hub: Hub) -> None:
    hub.spawn("quick-ada")

    with hub.as_user("quick-root") as root:
        answer = root.request("DELETE", f"/api/claims/{hub.claim_of('quick-ada')}", json={"because": HOSTILE})
        page = root.get("/").text

    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert len(re.findall("<script", page)) == 1, "the page's own"


BODIES = {
    "a number": ('{"because": 7}', "because"),
    "too long": ('{"because": "' + "x" * 201 + '"}', "because"),
    "a newline": ('{"because": "a\\nb"}', "because"),
    "a sign that turns the text round": ('{"because": "\\u202e"}', "because"),
    "an unknown key": ('{"why": "x"}', "why"),
    "somebody else's name": ('{"because": "x", "user": "quick-bob"}', "user"),
    "a list": ("[1]", "body"),
    "no JSON": ("{", "body"),
    "deep": ("[" * 20_000, "body"),
    "bytes": ("\x00\xff", "body"),
}


def test_a_hostile_body_is_refused_with_what_is_allowed_and_changes_nothing(hub: Hub) -> None:
    hub.spawn("quick-ada")
    claim_id = hub.claim_of("quick-ada")

    with hub.as_user("quick-root") as root:
        answers = {
            name: root.request("DELETE", f"/api/claims/{claim_id}", content=body) for name, (body, _) in BODIES.items()
        }
        by_form = root.post(f"/claims/{claim_id}/revoke", data={"because": "a\nb"})
        stray = root.post(f"/claims/{claim_id}/revoke", data={"because": "x", "user": "quick-bob"})
        huge = root.request("DELETE", f"/api/claims/{claim_id}", content="x" * 100_000)

    for name, answer in answers.items():
        assert (answer.status_code, answer.json()["error"]) == (400, "bad-value"), name
        assert answer.json()["message"].startswith(BODIES[name][1]), name
    assert [by_form.status_code, stray.status_code] == [400, 400]
    assert huge.status_code >= 400
    assert hub.claim_of("quick-ada") == claim_id
    assert hub.is_ready("quick-ada")


PATHS = [
    *("/api/claims/..%2f..%2fhealth", "/api/claims/" + "a" * 65, "/api/claims/a%0ab", "/api/claims/a/b"),
    *("/claims/%3Cscript%3E/revoke", "/static/../app.py", "/static/%2e%2e/app.py", "/static/page.py"),
]


def test_paths_that_are_none_are_404_and_show_nothing(hub: Hub) -> None:
    with hub.as_user("quick-root") as root:
        answers = [root.get(path) for path in PATHS]

    assert [answer.status_code for answer in answers] == [404] * len(PATHS)
    assert not any("import " in answer.text or "<script>" in answer.text for answer in answers)


def test_numbers_out_of_range_are_refused_with_the_range(hub: Hub) -> None:
    given = ["-1", "0", "1001", "x", "1e3", "9" * 40, "٣", "", "1 0", "0x1"]

    with hub.as_user("quick-root") as root:
        answers = [root.get("/api/events", params={"limit": number}) for number in given]

    assert {answer.status_code for answer in answers} == {400}
    assert all("a whole number from 1 to 1000 is" in answer.json()["message"] for answer in answers)


def test_a_start_that_is_refused_is_in_the_events_with_its_reason(hub: Hub) -> None:
    hub.spawn("quick-ada", "whole GPU")
    assert hub.ask("quick-bob", {"vgpu_profile": "1/4 GPU"}).status_code == 409

    with hub.as_user("quick-bob") as bob:
        events = bob.get("/api/events", params={"limit": 1}).json()["events"]

    (event,) = events
    assert (event["kind"], event["user"], event["profile"]) == ("refused", "quick-bob", None)
    assert event["detail"].startswith("1/4 GPU: no-capacity: ")


def test_while_the_agent_is_away_the_page_says_so_and_a_revocation_waits_for_it(hub: Hub, agent: Any) -> None:
    hub.spawn("quick-ada")
    claim_id = hub.claim_of("quick-ada")
    agent.stop()

    with hub.as_user("quick-root") as root:
        seen = root.get("/api/claims").json()
        page = root.get("/").text
        answer = root.request("DELETE", f"/api/claims/{claim_id}", json={"because": "now"})
    agent.start()

    assert [one["user"] for one in seen["claims"]] == ["quick-ada"]
    assert seen["claims"][0]["devices"][0]["memory_used_bytes"] is None
    assert "The node agent does not answer" in page
    assert answer.status_code == 200, answer.text
    assert answer.json()["is_released"] is False
    hub.wait_until(lambda: not agent.claims(), "the hub releases it once the agent is back")
    hub.wait_until(lambda: not hub.ledger().open_entries("quick-ada"), "the entry is closed")
    assert hub.ledger().history("quick-ada")[-1].ended_because == "revoked by quick-root: now"


def test_a_claim_of_another_hub_at_the_same_agent_is_seen_without_names_and_not_revoked(hub: Hub, agent: Any) -> None:
    theirs = agent.make_claim("quick-eve", "another-hub")
    try:
        with hub.as_user("quick-root") as root:
            (one,) = root.get("/api/claims").json()["claims"]
            answer = root.delete(f"/api/claims/{theirs}")
            text = root.get("/").text
    finally:
        held = agent.claims()
        agent.hub.release_claim(theirs)

    assert (one["hub"], one["user"], one["may_revoke"]) == ("another-hub", None, False)
    assert answer.status_code == 403
    assert [claim["claim"] for claim in held] == [theirs]
    assert "quick-eve" not in text
