"""CASES 47: nobody whom the hub does not let in gets past a handler, and A sees nothing of B; all parts are real."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tornado.web import RequestHandler

from jupyter_vgpu.scopes import READ
from jupyter_vgpu.service.handlers import HANDLERS, HubOAuthCallbackHandler
from jupyter_vgpu.service.pages import KnownHandler

Hub = Any

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def path_of(pattern: str) -> str:
    """Return a path that a rule of the service matches."""
    return pattern.replace(r"([0-9A-Za-z-]{1,64})", "0123abcd").replace(r"(page\.js|page\.css)", "page.js")


def test_every_handler_but_the_one_that_logs_in_is_of_the_kind_that_asks_the_hub() -> None:
    others = [handler for _, handler in HANDLERS if handler is not HubOAuthCallbackHandler]

    assert len(others) == len(HANDLERS) - 1
    assert all(issubclass(handler, KnownHandler) for handler in others)
    # Whoever overrides `prepare` could let everybody in.
    assert all(handler.prepare is KnownHandler.prepare for handler in others)


@pytest.mark.parametrize(
    "credentials",
    [
        pytest.param({}, id="nobody"),
        pytest.param({"Authorization": "token 0123456789abcdef"}, id="a made-up token"),
        pytest.param({"Cookie": 'service-vgpu="2|1:0|10:1|12:service-vgpu|4:AAAA|0"'}, id="a made-up cookie"),
    ],
)
def test_who_is_not_known_gets_nothing_but_the_way_to_the_hub(hub: Hub, credentials: dict[str, str]) -> None:
    with httpx.Client(base_url=f"{hub.url}/services/vgpu/", headers=credentials, timeout=240.0) as client:
        for pattern, handler in [*HANDLERS, ("no/such/page", RequestHandler)]:
            if handler is HubOAuthCallbackHandler:
                continue
            for method in METHODS:
                answer = client.request(method, path_of(pattern))

                leads_to_the_hub = (
                    answer.status_code == 302 and "/hub/api/oauth2/authorize" in answer.headers["Location"]
                )
                assert answer.status_code == 403 or leads_to_the_hub, (method, pattern, answer.status_code, answer.text)


def test_the_login_callback_gives_nothing_away_without_a_code_of_the_hub(hub: Hub) -> None:
    with httpx.Client(base_url=f"{hub.url}/services/vgpu/", timeout=240.0) as client:
        assert client.get("oauth_callback").status_code == 400
        assert client.get("oauth_callback", params={"code": "x", "state": "y"}).status_code in (400, 403)


def test_a_sees_what_is_theirs_and_nothing_of_b(hub: Hub) -> None:
    for user in ("quick-ada", "quick-bob"):
        hub.spawn(user)
    theirs = hub.claim_of("quick-bob")

    with hub.as_user("quick-ada") as ada:
        seen = ada.get("/api/claims").json()
        answers = {
            "one claim": ada.get(f"/api/claims/{theirs}").status_code,
            "its page": ada.get(f"/claims/{theirs}/revoke").status_code,
            "revoke it": ada.delete(f"/api/claims/{theirs}").status_code,
            "revoke it by form": ada.post(f"/claims/{theirs}/revoke", data={"because": "mine"}).status_code,
        }
        everything = [ada.get(path).text for path in ("/", "/api/claims", "/api/events", "/api/usage")]

    assert [one["user"] for one in seen["claims"]] == ["quick-ada"]
    assert seen["devices"] == []
    assert set(answers.values()) == {404}, answers
    assert "quick-bob" not in "".join(everything)
    assert theirs not in "".join(everything)
    assert "quick-ada" in everything[2]
    assert hub.is_ready("quick-bob")


def test_an_administrator_sees_who_holds_what_on_which_device(hub: Hub) -> None:
    for user in ("quick-ada", "quick-bob"):
        hub.spawn(user)

    with hub.as_user("quick-root") as root:
        seen = root.get("/api/claims").json()
        page = root.get("/").text

    assert sorted((one["user"], one["profile"]) for one in seen["claims"]) == [
        ("quick-ada", "1/4 GPU"),
        ("quick-bob", "1/4 GPU"),
    ]
    (device,) = seen["devices"]
    assert {one["devices"][0]["uuid"] for one in seen["claims"]} == {device["uuid"]}
    assert device["free_share"] == 0.5
    assert all(one["may_revoke"] for one in seen["claims"])
    assert "quick-bob" in page
    assert "2 slices are held" in page


@pytest.mark.parametrize(
    ("scope", "sees"),
    [
        pytest.param(f"{READ}!user=quick-ada", {"quick-ada"}, id="for one user"),
        pytest.param(READ, {"quick-ada", "quick-bob"}, id="for all"),
    ],
)
def test_a_token_that_may_only_read_reads_and_revokes_nothing(hub: Hub, scope: str, sees: set[str]) -> None:
    for user in ("quick-ada", "quick-bob"):
        hub.spawn(user)
    # quick-tutor may do everything here, by the role of our name; the token may not.
    role_is_given = hub.api.get("/users/quick-tutor").json()["roles"]

    with hub.as_user("quick-tutor", scope) as tutor:
        claims = tutor.get("/api/claims").json()["claims"]
        refusals = [tutor.delete(f"/api/claims/{one['claim']}") for one in claims]
        page = tutor.get("/").text

    assert "jupyter-vgpu-admin" in role_is_given
    assert {one["user"] for one in claims} == sees
    assert {answer.status_code for answer in refusals} == {403}
    assert "Revoke" not in page
    assert hub.is_ready("quick-ada")
    assert hub.is_ready("quick-bob")


def test_a_token_without_access_to_the_service_is_refused(hub: Hub) -> None:
    hub.api.post("/users/quick-ada")
    token = hub.api.post("/users/quick-ada/tokens", json={"scopes": [f"{READ}!user=quick-ada"]}).json()["token"]

    with hub.by_token(token) as client:
        answers = [client.get(path).status_code for path in ("/", "/api/claims", "/static/page.js", "/live")]

    assert answers == [403] * 4


def test_the_token_in_a_users_server_reads_what_that_server_holds_and_no_more(hub: Hub) -> None:
    hub.spawn("quick-ada")
    hub.spawn("quick-ada", server="second")
    hub.spawn("quick-bob")
    environment = dict(line.split("=", 1) for line in hub.environment_of("quick-bob") if "=" in line)

    with hub.by_token(environment["JUPYTERHUB_API_TOKEN"]) as server:
        seen = server.get("/api/claims").json()["claims"]
        refused = server.delete(f"/api/claims/{hub.claim_of('quick-bob')}")

    assert [(one["user"], one["server"], one["may_revoke"]) for one in seen] == [("quick-bob", "", False)]
    assert refused.status_code == 403
    assert hub.is_ready("quick-bob")


def test_the_role_of_an_administrator_of_slices_is_enough_to_revoke_and_gives_no_other_power(hub: Hub) -> None:
    hub.spawn("quick-ada")

    with hub.as_user("quick-tutor") as tutor:
        answer = tutor.delete(f"/api/claims/{hub.claim_of('quick-ada')}")
        theirs = tutor.headers["Authorization"]
    stop = httpx.delete(f"{hub.url}/hub/api/users/quick-ada/server", headers={"Authorization": theirs}, timeout=240.0)

    assert answer.status_code == 200, answer.text
    assert stop.status_code in (403, 404)


def test_a_page_sends_a_policy_that_lets_no_foreign_script_run_and_no_frame_hold_it(hub: Hub) -> None:
    with hub.as_user("quick-ada") as ada:
        answers = [ada.get(path) for path in ("/", "/api/claims", "/no-such-page", "/static/page.js")]

    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
