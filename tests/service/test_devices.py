"""A device that is taken out of use gets no new slices and keeps those it has, by whoever may and nobody else."""

from __future__ import annotations

from typing import Any

from jupyter_vgpu.scopes import ADMIN, READ

Hub = Any


HOSTILE: list[Any] = [
    *({}, [], {"drained": 1}, {"drained": "true"}, {"drained": None}),
    *({"drained": True, "uuid": "x"}, {"drained": True, "because": 1}),
]


def test_a_drained_device_gets_no_new_slice_until_it_is_put_back(hub: Hub, agent: Any) -> None:
    hub.spawn("quick-ada")
    (uuid,) = (device["uuid"] for device in agent.hub.devices())

    try:
        with hub.as_user("quick-root") as root:
            answer = root.put(f"/api/devices/{uuid}", json={"drained": True, "because": "fan"})
            page = root.get("/").text
            refused = hub.ask("quick-bob", {"vgpu_profile": "1/4 GPU"})
            back = root.put(f"/api/devices/{uuid}", json={"drained": False})
            events = root.get("/api/events", params={"limit": 9}).json()["events"]
    finally:
        agent.hub.drain(uuid, False)

    assert answer.json()["device"]["drained"] is True, answer.text
    assert "<td>drained</td>" in page
    assert refused.status_code == 409
    assert back.json()["device"]["drained"] is False
    assert hub.is_ready("quick-ada")
    hub.spawn("quick-bob")
    noted = [(event["kind"], event["detail"], event["by"]) for event in events if event["user"] == ""]
    assert noted[:2] == [("in-use", uuid, "quick-root"), ("drained", f"{uuid}: fan", "quick-root")]


def test_in_a_browser_it_takes_the_forms_secret(hub: Hub, agent: Any, xsrf_of: Any) -> None:
    (uuid,) = (device["uuid"] for device in agent.hub.devices())
    path = f"/services/vgpu/devices/{uuid}"

    try:
        with hub.browser("quick-root") as browser:
            page = browser.get(path)
            forged = browser.post(path, data={"drained": "true"})
            before = agent.hub.devices()[0]["drained"]
            done = browser.post(path, data={"drained": "true", "because": "", "_xsrf": xsrf_of(page)})
            after = agent.hub.devices()[0]["drained"]
    finally:
        agent.hub.drain(uuid, False)

    assert "Take device 0 out of use?" in page.text
    assert forged.status_code == 403
    assert (before, after) == (False, True)
    assert done.url.path == "/services/vgpu/"


def test_who_may_not_revoke_everything_cannot_drain_and_a_hostile_wish_changes_nothing(hub: Hub, agent: Any) -> None:
    (uuid,) = (device["uuid"] for device in agent.hub.devices())
    wish = {"drained": True}

    with (
        hub.as_user("quick-ada") as ada,
        hub.as_user("quick-tutor", READ) as reader,
        hub.as_user("quick-tutor", READ, f"{ADMIN}!user=quick-ada") as of_one,
        hub.as_user("quick-root") as root,
    ):
        path = f"/api/devices/{uuid}"
        codes = [one.put(path, json=wish).status_code for one in (ada, reader, of_one)]
        hostile = [
            root.put(path, json=body).status_code
            for body in (
                {},
                [],
                {"drained": 1},
                {"drained": "true"},
                {"drained": None},
                {**wish, "uuid": "x"},
                {**wish, "because": 1},
            )
        ]
        nowhere = root.put("/api/devices/GPU-00000000", json=wish).status_code

    assert codes == [404, 403, 403]
    assert hostile == [400] * 7
    assert nowhere == 404
    assert not agent.hub.devices()[0]["drained"]
