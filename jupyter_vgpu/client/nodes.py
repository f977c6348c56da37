"""The agents of several nodes, asked as one: blocking, for any thread.

A node that does not answer is left out, and is not asked again for new claims for a while. What is known of its claims
stays: to whom one belongs, and that it is held, until its agent says otherwise.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from jupyter_vgpu.client.answers import ClaimInfo, DeviceInfo, HealthInfo, UsageInfo
from jupyter_vgpu.client.clients import GrantedClaim, HubClient
from jupyter_vgpu.client.endpoints import Endpoint
from jupyter_vgpu.client.rooms import room_of
from jupyter_vgpu.errors import AgentUnreachableError, NoCapacityError, UnknownClaimError, UnknownDeviceError, VGPUError
from jupyter_vgpu.model import ClaimRequest
from jupyter_vgpu.placement import Room, best_rooms

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
Wanted = tuple[ClaimRequest, Sequence[DeviceInfo]]  # a claim, and the devices that `Nodes.devices` returned lately

# For so long a node that did not answer is not asked again by those who wait for the answer.
SILENCE_SECONDS = 5.0
_MARGIN_SECONDS = 1.0
_MOST_THREADS = 64


class OneNode:
    """The agent of the only node, which has no name: everything as `HubClient`, and as fast."""

    def __init__(self, client: HubClient) -> None:
        """Take the agent."""
        self.client = client
        self.names: tuple[str, ...] = ("",)
        self.devices = client.devices
        self.release_claim = client.release_claim
        self.usage = client.usage
        self.drain = client.drain

    def all_devices(self) -> tuple[list[DeviceInfo], dict[str, VGPUError]]:
        """Return the node's devices.

        Raises:
            VGPUError: See `HubClient.devices`.
        """
        return self.client.devices(), {}

    def claims(self) -> tuple[list[ClaimInfo], dict[str, VGPUError]]:
        """Return all claims, and that no node is silent.

        Raises:
            VGPUError: See `HubClient.claims`.
        """
        return self.client.claims(), {}

    def create_claim(self, request: ClaimRequest, devices: Sequence[DeviceInfo] | None = None) -> GrantedClaim:
        """Return a new claim; see `HubClient.create_claim`."""
        return self.client.create_claim(request)

    def create_claims(self, wanted: Sequence[Wanted]) -> list[GrantedClaim | VGPUError]:
        """Return new claims, or why not; see `HubClient.create_claims`."""
        return self.client.create_claims([request for request, _ in wanted])

    def healths(self) -> dict[str, HealthInfo]:
        """Return the agent's account of itself.

        Raises:
            VGPUError: See `HubClient.health`.
        """
        return {"": self.client.health()}

    def node_of(self, claim_id: str) -> str:
        """Return the node's name, which is empty."""
        return ""

    def silence(self) -> str:
        """Return nothing: where the only agent does not answer, that is an error."""
        return ""


class Nodes:
    """Several agents. Devices and claims carry the name of their `node`.

    Attributes:
        names: The nodes' names.
    """

    def __init__(
        self, clients: Mapping[str, HubClient], placing: Collection[str] | None = None, say: Any = log
    ) -> None:
        """Take the agents; nothing is asked yet.

        Args:
            clients: Agent of each node by the node's name, at least one.
            placing: Nodes that new claims may go on; `None` = all.
            say: Logger that is told when a node falls silent, and answers again.
        """
        self._say = say
        self._clients = dict(clients)
        self.names = tuple(self._clients)
        self._placing = self.names if placing is None else tuple(name for name in self.names if name in placing)
        self._threads = ThreadPoolExecutor(min(_MOST_THREADS, 4 * len(self.names)), "jupyter-vgpu-nodes")
        self._lock = threading.Lock()
        self._silent_until: dict[str, float] = {}
        self._claims: dict[str, str] = {}  # claim → node
        self._devices: dict[str, str] = {}  # device → node

    # All of them

    def devices(self) -> list[DeviceInfo]:
        """Return the devices that new claims may go on, of the nodes that answer.

        Raises:
            VGPUError: None of them does.
        """
        now = time.monotonic()
        asked = [name for name in self._placing if self._silent_until.get(name, 0.0) <= now]
        if not asked:
            raise AgentUnreachableError(
                f"no node agent answers: not on {', '.join(self._placing)}; they are asked again in a few seconds"
            )
        found, troubles = self._devices_of(asked)
        if len(troubles) == len(asked):
            raise next(iter(troubles.values()))
        return found

    def all_devices(self) -> tuple[list[DeviceInfo], dict[str, VGPUError]]:
        """Return the devices of all nodes that answer, and why the others do not."""
        return self._devices_of(self.names)

    def _devices_of(self, names: Collection[str]) -> tuple[list[DeviceInfo], dict[str, VGPUError]]:
        answers, troubles = self._ask(names, lambda client: client.devices())
        found: list[DeviceInfo] = []
        for name, devices in answers.items():
            for device in devices:
                device["node"] = name
                self._devices[device["uuid"]] = name
            found.extend(devices)
        return found, troubles

    def claims(self) -> tuple[list[ClaimInfo], dict[str, VGPUError]]:
        """Return the claims of all nodes that answer, and why the others do not.

        Raises:
            VGPUError: None of them does.
        """
        answers, troubles = self._ask(self.names, lambda client: client.claims())
        if not answers:
            raise next(iter(troubles.values()))
        found: list[ClaimInfo] = []
        for name, claims in answers.items():
            for claim in claims:
                claim["node"] = name
            found.extend(claims)
        with self._lock:
            # What a node that answers does not name has ended, or has been made since: then it is named next time.
            kept = {claim: node for claim, node in self._claims.items() if node not in answers}
            self._claims = {**kept, **{claim["claim"]: claim["node"] for claim in found}}
        return found, troubles

    def healths(self) -> dict[str, HealthInfo]:
        """Return how the agents are that answer, by node.

        Raises:
            VGPUError: None of them does.
        """
        answers, troubles = self._ask(self.names, lambda client: client.health())
        if not answers:
            raise next(iter(troubles.values()))
        return answers

    def _ask(
        self, names: Collection[str], question: Callable[[HubClient], _Result]
    ) -> tuple[dict[str, _Result], dict[str, VGPUError]]:
        """Return what the nodes answer, all asked at once, and why some do not."""
        return self._ask_each({name: partial(question, self._clients[name]) for name in names})

    def _ask_each(
        self, questions: Mapping[str, Callable[[], _Result]]
    ) -> tuple[dict[str, _Result], dict[str, VGPUError]]:
        names = questions.keys()
        asked = {name: self._threads.submit(question) for name, question in questions.items()}
        longest_seconds = max((self._clients[name].timeout_seconds for name in names), default=0.0)
        deadline = time.monotonic() + longest_seconds + _MARGIN_SECONDS
        answers: dict[str, _Result] = {}
        troubles: dict[str, VGPUError] = {}
        for name, answer in asked.items():
            try:
                answers[name] = answer.result(max(0.0, deadline - time.monotonic()))
            except FutureTimeoutError:
                answer.cancel()
                troubles[name] = AgentUnreachableError(f"node {name}: its agent has not answered in time")
            except VGPUError as error:
                troubles[name] = _of_node(name, error)
        for name in names:
            self._note(name, troubles.get(name))
        return answers, troubles

    # One of them

    def create_claim(self, request: ClaimRequest, devices: Sequence[DeviceInfo] | None = None) -> GrantedClaim:
        """Return a new claim on the node that placement chooses, among those that answer.

        Args:
            request: What is asked for.
            devices: As `devices` returned them lately; `None` = they are asked for.

        Raises:
            NoCapacityError: It fits on no node that answers.
            VGPUError: As `HubClient.create_claim`.
        """
        return self._create(request, [room_of(device) for device in (self.devices() if devices is None else devices)])

    def create_claims(self, wanted: Sequence[Wanted]) -> list[GrantedClaim | VGPUError]:
        """Return new claims, or why not: all nodes are asked at once, each for its own in the order of `wanted`.

        What does not come about on the node that placement chose is asked for on the others, one after the other.
        """
        chosen: dict[str, list[int]] = {}
        found: dict[int, GrantedClaim | VGPUError] = {}
        for number, (request, devices) in enumerate(wanted):
            try:
                chosen.setdefault(_node_for(request, [room_of(device) for device in devices]), []).append(number)
            except NoCapacityError as error:
                found[number] = NoCapacityError(f"{error}{self.silence()}")
            except VGPUError as error:
                found[number] = error
        answers, troubles = self._ask_each(
            {
                name: partial(self._clients[name].create_claims, [wanted[number][0] for number in numbers])
                for name, numbers in chosen.items()
            }
        )
        for name, numbers in chosen.items():
            ended = answers.get(name) or [troubles[name]] * len(numbers)
            for number, one in zip(numbers, ended, strict=True):
                if isinstance(one, GrantedClaim):
                    found[number] = self._is_on(name, one)
                elif isinstance(one, (NoCapacityError, AgentUnreachableError)):
                    self._note(name, one)
                    found[number] = self._elsewhere(
                        name, one if name in troubles else _of_node(name, one), *wanted[number]
                    )
                else:
                    found[number] = one
        return [found[number] for number in range(len(wanted))]

    def _elsewhere(
        self, node: str, trouble: VGPUError, request: ClaimRequest, devices: Sequence[DeviceInfo]
    ) -> GrantedClaim | VGPUError:
        """Return a claim on another node than `node`, where that could not be, or why not."""
        try:
            return self._create(request, [room for room in map(room_of, devices) if room.node != node], trouble)
        except VGPUError as error:
            return error

    def _is_on(self, node: str, granted: GrantedClaim) -> GrantedClaim:
        with self._lock:
            self._claims[granted.claim["claim"]] = node
        granted.claim["node"] = node
        return replace(granted, node=node)

    def _create(self, request: ClaimRequest, rooms: list[Room], trouble: VGPUError | None = None) -> GrantedClaim:
        while True:
            try:
                node = _node_for(request, rooms)
            except NoCapacityError as error:
                if isinstance(trouble, AgentUnreachableError):
                    raise trouble from None
                raise NoCapacityError(f"{trouble or error}{self.silence()}") from None
            try:
                granted = self._clients[node].create_claim(request)
            except (NoCapacityError, AgentUnreachableError) as error:
                # Another hub was faster, or the node fell silent. A claim that it did make is found by reconciliation.
                trouble = _of_node(node, error)
                self._note(node, error)
                rooms = [room for room in rooms if room.node != node]
                continue
            return self._is_on(node, granted)

    def release_claim(self, claim_id: str) -> ClaimInfo | None:
        """Release a claim and return it; `None` when no node has it.

        Raises:
            VGPUError: The node that has it does not answer, or one that may have it.
        """
        node = self.node_of(claim_id)
        if node:
            released = self._clients[node].release_claim(claim_id)
            with self._lock:
                self._claims.pop(claim_id, None)
            return released
        answers, troubles = self._ask(self.names, lambda client: client.release_claim(claim_id))
        found = next((claim for claim in answers.values() if claim is not None), None)
        if found is None and troubles:
            raise next(iter(troubles.values()))
        return found

    def usage(self, claim_id: str) -> UsageInfo:
        """Return what a claim's processes use now.

        Raises:
            UnknownClaimError: No node is known to have it.
            VGPUError: As `HubClient.usage`.
        """
        node = self.node_of(claim_id)
        if not node:
            raise UnknownClaimError(f"no node is known to have claim {claim_id}")
        return self._clients[node].usage(claim_id)

    def drain(self, uuid: str, is_drained: bool = True) -> DeviceInfo:
        """Let a device take no new claims, or take some again; return it.

        Raises:
            UnknownDeviceError: No node that answered has it.
            VGPUError: As `HubClient.drain`.
        """
        node = self._devices.get(uuid)
        if node is None:
            raise UnknownDeviceError(f"no node that answers has a device {uuid}")
        device = self._clients[node].drain(uuid, is_drained)
        device["node"] = node
        return device

    def node_of(self, claim_id: str) -> str:
        """Return the node that has a claim; empty where that is not known."""
        with self._lock:
            return self._claims.get(claim_id, "")

    def silence(self) -> str:
        """Say which nodes did not answer lately, as the end of a sentence; empty when all did."""
        silent = [name for name in self._placing if name in self._silent_until]
        return f"; not known is what there is on {', '.join(silent)}, which did not answer" if silent else ""

    def _note(self, name: str, trouble: VGPUError | None) -> None:
        """Remember whether a node answers, and say so when that has changed."""
        is_silent = trouble is not None and not isinstance(trouble, NoCapacityError)
        was_silent = name in self._silent_until
        if is_silent:
            self._silent_until[name] = time.monotonic() + SILENCE_SECONDS
        elif was_silent:
            self._silent_until.pop(name, None)
        if is_silent and not was_silent:
            self._say.warning("claims go elsewhere for now: %s", trouble)
        elif was_silent and not is_silent:
            self._say.info("node %s answers again", name)


def agents_at(
    runtime_dir: str,
    endpoints: Mapping[str, Endpoint],
    timeout_seconds: float,
    placing: Collection[str] | None = None,
    say: Any = log,
) -> OneNode | Nodes:
    """Return who to ask.

    Args:
        runtime_dir: Of the agent of this node, where there are no `endpoints`.
        endpoints: Agents of several nodes, by the nodes' names.
        timeout_seconds: Time limit of each wait for one of them.
        placing: See `Nodes`.
        say: See `Nodes`.
    """
    if not endpoints:
        return OneNode(HubClient(runtime_dir, timeout_seconds=timeout_seconds))
    clients = {name: HubClient(endpoint, timeout_seconds=timeout_seconds) for name, endpoint in endpoints.items()}
    return Nodes(clients, placing, say)


def _node_for(request: ClaimRequest, rooms: Sequence[Room]) -> str:
    isolation = f"{request.hub}: {request.isolation}" if request.isolation else ""
    return best_rooms(rooms, request.profile, isolation, request.is_spread)[0].node


def _of_node(name: str, error: VGPUError) -> VGPUError:
    """Return `error` as one that says of which node it is."""
    said = type(error).__new__(type(error))
    Exception.__init__(said, f"node {name}: {error}")
    return said
