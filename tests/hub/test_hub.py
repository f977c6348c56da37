"""A day in the life of a hub with one GPU of four quarters."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import psutil
import pytest

from jupyter_vgpu.hub.refusals import COUNTS_REFUSALS

# Two have Jupyter servers, which take seconds of a core to start; the others' are up at once.
USERS = ("ada", "quick-bob", "quick-cleo", "quick-dan")


def spawn_together(hub: Any, users: tuple[str, ...]) -> None:
    with ThreadPoolExecutor(len(users)) as people:
        list(people.map(hub.spawn, users))


def environment_of(hub: Any, user: str) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in hub.environment_of(user) if entry)


def test_four_users_fill_four_quarters_and_the_fifth_gets_in_when_one_leaves(hub: Any, agent: Any) -> None:
    spawn_together(hub, USERS)
    held = {claim["tenant"]: claim for claim in agent.claims()}
    assert sorted(held) == sorted(USERS)
    assert len({claim["claim"] for claim in held.values()}) == 4

    refused = hub.ask("eve", {"vgpu_profile": "1/4 GPU"})
    assert refused.status_code == 409
    assert "'1/4 GPU' does not fit" in refused.json()["message"]
    assert agent.tenants() == sorted(USERS)

    with hub.browser("eve") as browser:
        page = hub.once_started(browser, hub.submit(browser, {"vgpu_profile": "1/4 GPU"}))
        assert "'1/4 GPU' does not fit" in unescape(page.text), page.text
        assert "None of 4 free now" in browser.get("/hub/spawn").text

    hub.stop_server("quick-bob")
    hub.spawn("eve")
    assert agent.tenants() == ["ada", "eve", "quick-cleo", "quick-dan"]


def test_who_is_refused_after_the_progress_page_has_come_reads_why_on_it(hub: Any, agent: Any) -> None:
    """Catches a client that takes the form's Content-Type along to where the hub sends it: status 400."""
    hub.spawn("quick-bob", "whole GPU")

    with hub.browser("pensive-eve") as browser:
        page = hub.submit(browser, {"vgpu_profile": "1/4 GPU"})
        assert (page.status_code, page.url.path) == (200, "/hub/spawn-pending/pensive-eve"), page.text
        refusal = hub.once_started(browser, page)

    assert refusal.status_code == 409
    assert "'1/4 GPU' does not fit" in unescape(refusal.text)
    assert agent.tenants() == ["quick-bob"]


def test_when_many_come_at_once_exactly_four_get_in(hub: Any, agent: Any) -> None:
    users = [f"quick-{number}" for number in range(8)]

    with ThreadPoolExecutor(len(users)) as people:
        answers = list(people.map(lambda user: hub.ask(user, {"vgpu_profile": "1/4 GPU"}).status_code, users))

    assert sorted(answers)[-4:] == [409] * 4
    assert len({claim["tenant"] for claim in agent.claims()}) == 4
    for user, answer in zip(users, answers, strict=True):
        if answer != 409:
            hub.wait_ready(user)


def test_a_servers_environment_leads_to_the_agent_and_holds_no_limit(hub: Any, agent: Any) -> None:
    hub.spawn("quick")

    environment = environment_of(hub, "quick")

    ours = {key for key in environment if "VGPU" in key and not key.startswith("JUPYTER_VGPU_TEST")}
    assert ours == {"JUPYTER_VGPU_SOCKET", "JUPYTER_VGPU_SECRET", "JUPYTER_VGPU_API", "JUPYTER_VGPU_SIM"}
    assert environment["JUPYTER_VGPU_SOCKET"] == str(agent.runtime_dir / "attach.sock")
    assert len(environment["JUPYTER_VGPU_SECRET"]) == 64
    assert environment["LD_PRELOAD"].endswith("/libjupyter_vgpu.so")
    assert environment["LD_LIBRARY_PATH"].split(":")[0].endswith("/lib/sim")


def test_what_runs_in_a_servers_environment_sees_its_quarter_and_no_more(hub: Any, agent: Any) -> None:
    hub.spawn("quick")
    (claim,) = agent.claims()
    code = (
        "from cuda.bindings import driver as d; d.cuInit(0); _, device = d.cuDeviceGet(0); "
        "_, context = d.cuDevicePrimaryCtxRetain(device); d.cuCtxSetCurrent(context); "
        "print(d.cuMemGetInfo()[2], *(int(d.cuMemAlloc(size << 30)[0]) for size in (15, 15)))"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment_of(hub, "quick"), capture_output=True, text=True, timeout=240
    )

    assert ran.returncode == 0, ran.stderr
    out_of_memory = 2  # CUDA_ERROR_OUT_OF_MEMORY
    assert ran.stdout.split() == [str(claim["devices"][0]["memory_bytes"]), "0", str(out_of_memory)]


def test_named_servers_of_one_user_have_slices_of_their_own(hub: Any, agent: Any) -> None:
    hub.spawn("quick")
    hub.spawn("quick", "1/2 GPU", server="two")
    assert agent.tenants() == ["quick", "quick/two"]

    hub.stop_server("quick")
    assert agent.tenants() == ["quick/two"]


def test_the_spawn_page_says_what_is_free_and_the_choice_gets_there(hub: Any, agent: Any) -> None:
    with hub.browser("quick") as browser:
        page = browser.get("/hub/spawn")
        assert "4 of 4 free now" in page.text
        assert page.text.count('name="vgpu_profile"') == 3

        hub.submit(browser, {"vgpu_profile": "1/2 GPU"})
        hub.wait_ready("quick")

    assert [claim["profile"] for claim in agent.claims()] == ["1/2 GPU"]
    with hub.browser("bob") as browser:
        page = browser.get("/hub/spawn").text
        assert "2 of 4 free now" in page
        assert "None of 1 free now" in page


def test_a_link_with_a_profile_starts_a_server(hub: Any, agent: Any) -> None:
    with hub.browser("quick") as browser:
        browser.get("/hub/spawn", params={"vgpu_profile": "1/2 GPU"})
        hub.wait_ready("quick")

    assert [claim["profile"] for claim in agent.claims()] == ["1/2 GPU"]


def test_who_chooses_nothing_gets_the_default(hub: Any, agent: Any) -> None:
    hub.ask("quick-newcomer")
    hub.wait_ready("quick-newcomer")

    assert [claim["profile"] for claim in agent.claims()] == ["1/4 GPU"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"vgpu_profile": "9/4 GPU"}, "vgpu_profile: '9/4 GPU' is not allowed; one of", id="unknown"),
        pytest.param({"vgpu_profile": "1/4 GPU\n"}, "vgpu_profile: '1/4 GPU\\n' is not allowed", id="a newline"),
        pytest.param({"vgpu_profile": ["1/4 GPU"]}, "vgpu_profile: ['1/4 GPU'] is not allowed", id="a list"),
        pytest.param({"vgpu_profile": {"share": 1}}, "vgpu_profile: {'share': 1} is not allowed", id="an object"),
        pytest.param({"vgpu_profile": None}, "vgpu_profile: None is not allowed", id="null"),
        pytest.param({"vgpu_profile": 1}, "vgpu_profile: 1 is not allowed", id="a number"),
        pytest.param(
            {"vgpu_profile": "1/4 GPU", "memory": "80GiB"}, "user_options['memory']: '80GiB' is not", id="an extra key"
        ),
        pytest.param({"share": 1}, "user_options['share']: 1 is not allowed; only the key vgpu_profile is", id="ours"),
        pytest.param(
            {"user_options": {"x": 1}}, "is not allowed; only the key vgpu_profile is", id="JupyterHub 6's way"
        ),
    ],
)
def test_options_over_rest_that_are_not_understood_are_refused(
    hub: Any, agent: Any, options: dict[str, Any], expected: str
) -> None:
    answer = hub.ask("mallory", options)

    assert answer.status_code == 400
    assert expected in answer.json()["message"]
    assert agent.claims() == []
    assert not hub.is_ready("mallory")


@pytest.mark.parametrize(
    "data",
    [{"vgpu_profile": "9/4 GPU"}, {"vgpu_profile": "1/4 GPU", "memory": "80GiB"}],
    ids=["unknown", "an extra key"],
)
def test_a_form_that_is_not_understood_is_refused_on_its_page(hub: Any, agent: Any, data: dict[str, str]) -> None:
    with hub.browser("mallory") as browser:
        page = hub.submit(browser, data)

    assert "is not allowed" in page.text
    assert page.text.count('name="vgpu_profile"') == 3
    assert agent.claims() == []


def test_a_server_that_dies_by_itself_gives_its_slice_back(hub: Any, agent: Any) -> None:
    """CASES 49: where `stop()` is never called."""
    hub.spawn("quick-dying")

    os.kill(hub.pid_of("quick-dying"), signal.SIGKILL)

    assert hub.ended_claim("quick-dying").ended_because == "the server ended by itself"
    assert agent.claims() == []


@pytest.mark.parametrize("user", ["broken", "late"], ids=["raising", "taking too long"])
def test_a_start_that_fails_gives_its_slice_back(hub: Any, agent: Any, user: str) -> None:
    answer = hub.ask(user, {"vgpu_profile": "1/4 GPU"})

    assert answer.status_code >= 400
    assert f"pre_spawn {user}" in (hub.folder / "hooks").read_text()
    assert hub.ended_claim(user).ended_because == "its start did not come to an end"
    assert agent.claims() == []


def test_the_admins_hooks_still_run(hub: Any) -> None:
    hub.spawn("quick-hooked")
    hub.stop_server("quick-hooked")

    hub.wait_until(
        lambda: (
            (hub.folder / "hooks").read_text().splitlines()[-2:] == ["pre_spawn quick-hooked", "post_stop quick-hooked"]
        ),
        "both hooks have run",
    )


def test_the_ledger_remembers_who_held_what(hub: Any, agent: Any) -> None:
    hub.spawn("quick-keeper")
    (claim,) = agent.claims()
    hub.stop_server("quick-keeper")

    entry = hub.ended_claim("quick-keeper")

    assert agent.claims() == []
    assert (entry.claim_id, entry.profile, entry.tenant, entry.state) == (
        claim["claim"],
        "1/4 GPU",
        "quick-keeper",
        "released",
    )
    assert entry.ended_because == "the server was stopped"
    assert entry.requested_at <= entry.bound_at <= entry.released_at


def test_refusals_do_not_count_as_failures_of_the_hub(hub: Any, agent: Any) -> None:
    """CASES 48: five refused students made the hub exit."""
    limit = 4  # in hub_config.py
    hub.spawn("quick", "whole GPU")
    hub.ask("broken", {"vgpu_profile": "9/4 GPU"})
    before = hub.failures()

    for _ in range(limit + 1):
        assert hub.ask("bob", {"vgpu_profile": "1/4 GPU"}).status_code == 409
        assert hub.ask("bob", {"vgpu_profile": "no such"}).status_code == 400

    assert hub.failures() == before
    hub.stop_server("quick")


def test_a_refusal_carries_its_reason_into_the_hubs_metrics_where_the_hub_knows_of_reasons(hub: Any) -> None:
    hub.spawn("quick", "whole GPU")
    assert hub.ask("bob", {"vgpu_profile": "1/4 GPU"}).status_code == 409
    assert hub.ask("bob", {"vgpu_profile": "no such"}).status_code == 400

    metrics = hub.api.get(f"{hub.url}/hub/metrics").text

    counted = re.findall(r"^jupyterhub_server_spawn_duration_seconds_count{(.*)} ([0-9.]+)$", metrics, re.MULTILINE)
    refused = {labels for labels, count in counted if 'status="failure"' in labels and float(count)}
    if COUNTS_REFUSALS:  # JupyterHub 5 knows of none
        assert refused == {'status="failure"'}
    else:
        assert {label for labels in refused for label in labels.split(",")} >= {
            'reason="no-capacity"',
            'reason="bad-value"',
        }
    hub.stop_server("quick")


def test_failures_are_still_counted(hub: Any, agent: Any) -> None:
    hub.spawn("quick")
    assert hub.failures() == 0

    hub.ask("broken", {"vgpu_profile": "1/4 GPU"})

    assert hub.failures() == 1
    hub.stop_server("quick")
    hub.spawn("quick")  # a success starts the count anew
    assert hub.failures() == 0


def test_without_an_agent_a_spawn_fails_with_that_sentence(hub: Any, agent: Any) -> None:
    agent.stop()

    answer = hub.ask("ada", {"vgpu_profile": "1/4 GPU"})

    assert answer.status_code == 503
    assert f"no node agent answers at {agent.runtime_dir / 'hub.sock'}" in answer.json()["message"]
    with hub.browser("ada") as browser:
        page = browser.get("/hub/spawn").text
        assert "the GPU agent of this node does not answer" in page
        assert page.count("disabled") >= 3


def test_with_an_agent_that_hangs_too(hub: Any, agent: Any) -> None:
    agent.process.send_signal(signal.SIGSTOP)
    try:
        answer = hub.ask("ada", {"vgpu_profile": "1/4 GPU"})
    finally:
        agent.process.send_signal(signal.SIGCONT)

    assert answer.status_code == 503
    # The time that the hub gives it, which no busy machine adds to.
    gave_up = re.search(r"has not answered within (\d+\.\d) s", answer.json()["message"])
    assert gave_up is not None, answer.text
    assert float(gave_up[1]) < 5
    # It may have made the claim when it woke up; nobody holds it, and it is found.
    hub.wait_until(lambda: not agent.claims(), "the slice is released")


def test_a_start_that_is_given_up_while_the_agent_hangs_holds_nothing(hub: Any, agent: Any) -> None:
    agent.process.send_signal(signal.SIGSTOP)
    try:
        answer = hub.ask("late-claimant", {"vgpu_profile": "1/4 GPU"})  # its start_timeout is 2 s
    finally:
        agent.process.send_signal(signal.SIGCONT)

    assert answer.status_code >= 400
    hub.wait_until(lambda: not agent.claims(), "nothing is held")
    hub.wait_until(
        lambda: all(entry.state == "released" for entry in hub.ledger().history("late-claimant")), "nor said to be"
    )


def test_what_is_stopped_while_the_agent_is_down_is_released_when_it_is_back(hub: Any, agent: Any) -> None:
    hub.spawn("quick")
    agent.stop()
    hub.stop_server("quick")

    agent.start()

    hub.wait_until(lambda: not agent.claims(), "the slice is released")


def test_a_server_outlives_a_crash_of_the_hub_with_its_slice(hub: Any, agent: Any) -> None:
    hub.spawn("quick")
    (before,) = agent.claims()

    hub.kill()
    hub.start()
    hub.wait_ready("quick")
    time.sleep(2.5)  # twice the interval of reconciliation

    assert [claim["claim"] for claim in agent.claims()] == [before["claim"]]
    assert hub.servers("quick")[""]["state"]["vgpu_claim_id"] == before["claim"]
    hub.stop_server("quick")
    hub.wait_until(lambda: not agent.claims(), "the slice is released")


def test_a_server_that_died_while_the_hub_was_down_has_its_slice_released(hub: Any, agent: Any) -> None:
    hub.spawn("quick")
    pid = hub.pid_of("quick")

    hub.kill()
    os.kill(pid, signal.SIGKILL)
    # Whoever inherited it takes a moment to see it off; a hub that comes back meanwhile takes it for alive.
    hub.wait_until(lambda: not psutil.pid_exists(pid), "it is gone")
    assert agent.tenants() == ["quick"]
    hub.start()

    hub.wait_until(lambda: not agent.claims(), "the slice is released")
    hub.wait_until(lambda: not hub.ledger().open_entries(), "the ledger says so, a moment later")


def test_a_crash_of_the_hub_during_a_spawn_leaves_no_claim(hub: Any, agent: Any) -> None:
    """CASES 51."""
    with ThreadPoolExecutor(1) as person:
        asked = person.submit(hub.ask, "slow", {"vgpu_profile": "1/4 GPU"})
        hub.wait_until(lambda: agent.tenants() == ["slow"], "the claim is made")
        hub.kill()
        asked.exception()  # whatever it is told

    hub.start()

    hub.wait_until(lambda: not agent.claims(), "the slice is released")
    hub.wait_until(lambda: not hub.ledger().open_entries(), "and that is written down")
    assert [entry.state for entry in hub.ledger().history("slow")] == ["released"]


def test_a_claim_that_nobody_knows_is_released_and_one_of_another_hub_is_not(hub: Any, agent: Any) -> None:
    stray = agent.make_claim("stray", hub=hub.ledger().hub_name)
    others = agent.make_claim("guest", hub="another hub")

    hub.wait_until(lambda: stray not in [claim["claim"] for claim in agent.claims()], "it is released")

    assert [claim["claim"] for claim in agent.claims()] == [others]
    agent.hub.release_claim(others)
