"""The scripted users of a lab's day, who know the hub by its REST API only, and the notice board they look at."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx

ODDS = {"1/4 GPU": 75, "1/2 GPU": 20, "whole GPU": 5}
_LOOK_SECONDS = 1.0
_ASK_AGAIN_SECONDS = 4.0
_GROUP_IS_FULL_SECONDS = 15.0  # a refused start costs JupyterHub as much as another
_PAGE = 100


class Board(threading.Thread):
    """What the hub says about everybody's servers: one question for all, so that the questions are not the load.

    Attributes:
        looks: Number of the last look that the hub answered.
        ended: Ends it.
    """

    def __init__(self, api: httpx.Client) -> None:
        """Look through `api`."""
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.looks = 0
        self._api = api
        self._servers: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()

    def run(self) -> None:
        """Look until `ended`."""
        while not self.ended.wait(_LOOK_SECONDS):
            servers = self._read()
            if servers is not None:
                with self._changed:
                    self._servers = servers
                    self.looks += 1
                    self._changed.notify_all()

    def _read(self) -> dict[str, dict[str, Any]] | None:
        found: dict[str, dict[str, Any]] = {}
        while True:
            try:
                answer = self._api.get("/users", params={"offset": len(found), "limit": _PAGE})
                users = answer.json() if answer.status_code == 200 else None
            except (httpx.TransportError, json.JSONDecodeError):
                return None
            if not isinstance(users, list):
                return None
            found |= {user["name"]: user["servers"] for user in users}
            if len(users) < _PAGE:
                return found

    def next_look(self, user: str) -> dict[str, Any]:
        """Return the servers of a user, as of a look that begins after this is called; waits while the hub is down."""
        with self._changed:
            seen = self.looks
            self._changed.wait_for(lambda: self.looks >= seen + 2 or self.ended.is_set())
            return dict(self._servers.get(user, {}))


@dataclass(frozen=True)
class Script:
    """One user: when they come (seconds of the day), what they want, for how long they work, how often they come.

    Attributes:
        asks_for_two: Whether they try for a second slice, which nobody may have.
    """

    user: str
    arrives: float
    profile: str
    works: float
    visits: int
    asks_for_two: bool


def scripts(users: int, seconds: float, greedy: frozenset[str], seed: int) -> list[Script]:
    """Return the day of every user."""
    chance = random.Random(seed)
    result = []
    for number in range(users):
        user = f"student-{number}"
        arrives, works = chance.uniform(0, seconds), chance.uniform(2, 12)
        profile = chance.choices(list(ODDS), list(ODDS.values()))[0]
        if user in greedy:
            profile, works = "1/2 GPU", 8.0
        result.append(Script(user, arrives, profile, works, 20 if user in greedy else 1, number % 4 == 1))
    return result


def _is_the_hubs(answer: httpx.Response) -> bool:
    """Return whether it was the hub that answered: while that is down, the proxy does, with 503 or 404."""
    said = answer.headers.get("content-type", "")
    return answer.status_code < 400 or (answer.status_code < 500 and said.startswith("application/json"))


class Person:
    """One user, living a script."""

    def __init__(self, script: Script, api: httpx.Client, board: Board, tally: Counter[str]) -> None:
        """Prepare to live; `tally` is shared by all and counts what happens to them."""
        self.script = script
        self.state = "at home"
        self._api = api
        self._board = board
        self._tally = tally
        self._server = f"/users/{script.user}/server"

    def live(self, day_began: float) -> None:
        """Come, ask until served, try for a second slice, work, go; as often as the script says."""
        time.sleep(max(0.0, day_began + self.script.arrives - time.monotonic()))
        self._tally["arrived"] += 1
        self.state = "arrives"
        while (answer := self._ask("POST", f"/users/{self.script.user}")) is None or answer.status_code not in (
            201,
            409,
        ):
            time.sleep(_ASK_AGAIN_SECONDS)
        for _ in range(self.script.visits):
            if not self._get_slice():
                break
            if self.script.asks_for_two:
                self._try_for_a_second()
            self._work()
            self._leave()
        self.state = "gone"
        self._tally["gone"] += 1

    def _get_slice(self) -> bool:
        """Ask until the server runs, and return `True`; `False` when the quota of hours is used up."""
        self.state = "asks"
        while True:
            answer = self._ask("POST", self._server, {"vgpu_profile": self.script.profile})
            said = answer.text if answer is not None else ""
            if answer is None or not _is_the_hubs(answer):
                self._tally["asked while the hub was down"] += 1
            elif "GPU-hours" in said:
                self._tally["refused: GPU-hours are used up"] += 1
                return False
            elif answer.status_code == 403:
                self._tally["refused: the group holds all it may"] += 1
            elif answer.status_code >= 400 and "already running" not in said and "pending" not in said:
                self._tally[f"refused: status {answer.status_code}"] += 1
            self.state = "waits"
            while (server := self._board.next_look(self.script.user).get("")) is not None:
                if server["ready"]:
                    self._tally["spawns"] += 1
                    return True
            if answer is not None and answer.status_code == 202:
                self._tally["asked again after a start that was broken off"] += 1
            self.state = "asks"
            time.sleep(
                _GROUP_IS_FULL_SECONDS if answer is not None and answer.status_code == 403 else _ASK_AGAIN_SECONDS
            )

    def _try_for_a_second(self) -> None:
        answer = self._ask("POST", f"/users/{self.script.user}/servers/second", {"vgpu_profile": self.script.profile})
        if answer is not None and answer.status_code == 403:
            self._tally["refused: a second slice"] += 1
        while (server := self._board.next_look(self.script.user).get("second")) is not None:
            if server["ready"]:
                self._tally["second slices given"] += 1
                return

    def _work(self) -> None:
        self.state = "works"
        until = time.monotonic() + self.script.works
        while time.monotonic() < until:
            time.sleep(min(2.0, max(0.0, until - time.monotonic())))
        if "" not in self._board.next_look(self.script.user):
            self._tally["servers lost"] += 1

    def _leave(self) -> None:
        self.state = "leaves"
        while True:
            self._ask("DELETE", self._server)
            for _ in range(8):
                if "" not in self._board.next_look(self.script.user):
                    return

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> httpx.Response | None:
        """Ask the hub; `None` while it is down."""
        try:
            return self._api.request(method, path, json=body)
        except httpx.TransportError:
            return None
