"""Ask a node agent: for hubs (`HubClient`) and for a tenant's own processes (`UserClient`).

Blocking, with a time limit on every call; event loops go through `asyncio.to_thread`.
The shapes of the answers are those of docs/contracts.md, "HTTP API of the agent".
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from jupyter_vgpu.client.answers import (
    ClaimInfo,
    DeviceInfo,
    EventInfo,
    HealthInfo,
    SliceInfo,
    SubsliceInfo,
    TraceInfo,
    UsageInfo,
)
from jupyter_vgpu.client.asking import UnixConnection, ask
from jupyter_vgpu.client.endpoints import Endpoint
from jupyter_vgpu.errors import (
    AgentUnreachableError,
    BadValueError,
    UnknownClaimError,
    VGPUError,
    error_from_reason,
)
from jupyter_vgpu.model import ClaimRequest, Edits, Profile
from jupyter_vgpu.units import PPM

SYSTEM_RUNTIME_DIR = Path("/run/jupyter-vgpu")
TIMEOUT_SECONDS = 5.0
_MOST_AT_ONCE = 16  # in one question: a body has 64 KiB at most


@dataclass(frozen=True)
class GrantedClaim:
    """A new claim.

    Attributes:
        claim: What was granted.
        secret: 64 hex digits; given once, the agent keeps a digest only.
        edits: What an injector does to the tenant's processes.
        node: Name of its node, where there are several; empty = the only one.
    """

    claim: ClaimInfo
    secret: str
    edits: Edits
    node: str = ""


@dataclass(frozen=True)
class GrantedSubslice:
    """A new part of a slice.

    Attributes:
        subslice: What it has.
        secret: 64 hex digits, for the processes that are to run in it instead of the slice's own; given once.
    """

    subslice: SubsliceInfo
    secret: str


def profile_to_wire(profile: Profile, backend: str = "auto") -> dict[str, Any]:
    """Return `profile` as `POST /v1/claims` takes it; `backend` other than `"auto"` overrides the profile's."""
    wire: dict[str, Any] = {
        "name": profile.name,
        "ceiling": profile.ceiling_ppm / PPM,
        "devices": profile.devices,
        "backend": profile.backend if backend == "auto" else backend,
        "priority": profile.priority,
    }
    if profile.share_ppm:
        wire["share"] = profile.share_ppm / PPM
    if profile.guarantee_ppm:
        wire["guarantee"] = profile.guarantee_ppm / PPM
    if profile.memory.fraction is not None:
        wire["memory_fraction"] = str(profile.memory.fraction)
    else:
        wire["memory_bytes"] = profile.memory.size_bytes
    return wire


def _ask(path: Path, method: str, url: str, token: str, body: Mapping[str, Any] | None, timeout: float) -> Any:
    """Return the decoded answer of the agent behind the socket at `path`; see `asking.ask`."""
    return ask(UnixConnection(path, timeout), str(path), method, url, token, body)


class HubClient:
    """A hub's, or an admin's, view of one agent, over `hub.sock` or its port."""

    def __init__(
        self,
        agent: str | os.PathLike[str] | Endpoint,
        token: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Say where the agent is; nothing is opened yet.

        Args:
            agent: The agent's runtime directory, or where else it answers.
            token: The hub token; `None` reads `hub.token` there if this user may. Root and the agent's own user
                need none.
            timeout_seconds: Time limit of each wait for the agent.
        """
        if not isinstance(agent, Endpoint):
            agent = Endpoint(f"unix://{Path(agent).absolute()}", runtime_dir=Path(agent))
        self.endpoint = agent
        self._token = token
        self.timeout_seconds = timeout_seconds

    def _ask(self, method: str, url: str, body: Mapping[str, Any] | None = None, more_seconds: float = 0.0) -> Any:
        token = self.endpoint.token() if self._token is None else self._token
        connection = self.endpoint.connection(self.timeout_seconds + more_seconds)
        return ask(connection, str(self.endpoint), method, url, token, body)

    @property
    def runtime_dir(self) -> Path:
        """The agent's runtime directory, where it is one of this node."""
        assert self.endpoint.runtime_dir is not None
        return self.endpoint.runtime_dir

    def health(self) -> HealthInfo:
        """Return the agent's account of itself."""
        return cast(HealthInfo, self._ask("GET", "/v1/health"))

    def devices(self) -> list[DeviceInfo]:
        """Return the node's devices with what is free on each."""
        return cast("list[DeviceInfo]", self._ask("GET", "/v1/devices")["devices"])

    def drain(self, uuid: str, is_drained: bool = True) -> DeviceInfo:
        """Let a device take no new claims, or take some again; return it. Claims that are there stay.

        Args:
            uuid: The device.
            is_drained: `False` puts it back to use.

        Raises:
            UnknownDeviceError: The node has no such device.
        """
        return cast(DeviceInfo, self._ask("PUT", f"/v1/devices/{_segment(uuid)}", {"drained": is_drained})["device"])

    def claims(self) -> list[ClaimInfo]:
        """Return all claims that hold a slice, of every hub."""
        return cast("list[ClaimInfo]", self._ask("GET", "/v1/claims")["claims"])

    def create_claim(self, request: ClaimRequest, while_this_process_lives: bool = False) -> GrantedClaim:
        """Return a new claim that holds its slice from now on.

        Args:
            request: What is asked for.
            while_this_process_lives: Whether the agent releases it by itself when this process dies.

        Raises:
            NoCapacityError: Nothing fits; the message names the largest free slice.
            BadValueError: The request is not allowed.
            AgentUnreachableError: No agent; nothing is claimed, or it is found again in `claims()`.
        """
        body = _claim_to_wire(request)
        if while_this_process_lives:
            body["while_peer_lives"] = True
        return _granted(self._ask("POST", "/v1/claims", body))

    def create_claims(self, requests: Sequence[ClaimRequest]) -> list[GrantedClaim | VGPUError]:
        """Return new claims, made in the order of `requests` and by few questions; for each that was not made, why.

        Raises nothing of its own: where no agent answers, that is why.
        """
        found: list[GrantedClaim | VGPUError] = []
        at_once = _MOST_AT_ONCE
        while len(found) < len(requests):
            some = requests[len(found) : len(found) + at_once]
            try:
                found += self._create_together(some)
            except VGPUError as error:
                if len(some) > 1 and (isinstance(error, BadValueError) or type(error) is VGPUError):
                    # One of them is not allowed, or an older agent knows no batches. Nothing was done.
                    at_once = 1
                    continue
                # Where no agent answers, those after would fare no better.
                is_away = isinstance(error, AgentUnreachableError)
                found += [error] * (len(requests) - len(found) if is_away else len(some))
        return found

    def _create_together(self, requests: Sequence[ClaimRequest]) -> list[GrantedClaim | VGPUError]:
        if len(requests) == 1:
            return [self.create_claim(requests[0])]
        answer = self._ask("POST", "/v1/claims/batch", {"claims": [_claim_to_wire(one) for one in requests]})
        return [_granted(one) if "claim" in one else _refused(one) for one in answer["granted"]]

    def get_claim(self, claim_id: str) -> ClaimInfo:
        """Return one claim.

        Raises:
            UnknownClaimError: There is none of this id.
        """
        return cast(ClaimInfo, self._ask("GET", f"/v1/claims/{_segment(claim_id)}")["claim"])

    def release_claim(self, claim_id: str) -> ClaimInfo | None:
        """Release a claim and return it; `None` when there was none: releasing twice is releasing once."""
        return cast("ClaimInfo | None", self._ask("DELETE", f"/v1/claims/{_segment(claim_id)}")["claim"])

    def usage(self, claim_id: str) -> UsageInfo:
        """Return what a claim's processes use now.

        Raises:
            UnknownClaimError: There is none of this id.
        """
        return cast(UsageInfo, self._ask("GET", f"/v1/claims/{_segment(claim_id)}/usage"))

    def events(self, claim_id: str | None = None) -> list[EventInfo]:
        """Return what the agent noticed lately, oldest first: of one claim, or (`None`) of all and of strangers.

        Raises:
            UnknownClaimError: There is no claim of this id.
        """
        url = "/v1/events" if claim_id is None else f"/v1/claims/{_segment(claim_id)}/events"
        return cast("list[EventInfo]", self._ask("GET", url)["events"])

    def trace(self, seconds: float) -> TraceInfo:
        """Return what the governor sees and does in the next `seconds`, 0.01..30; it takes that long.

        Raises:
            BadValueError: Not that long, or this agent leaves GPU time to the driver.
            BusyError: Another trace is being made.
        """
        return cast(TraceInfo, self._ask("GET", f"/v1/trace?seconds={seconds!r}", more_seconds=seconds))


class UserClient:
    """A tenant's own view of its slice, over `user.sock`."""

    def __init__(self, api: str | os.PathLike[str], secret: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Say where the agent is and which claim is asked about; nothing is opened yet.

        Args:
            api: Path of the agent's `user.sock`.
            secret: The claim's secret, 64 hex digits.
            timeout_seconds: Time limit of each wait for the agent.
        """
        self.api = Path(api)
        self.secret = secret
        self._timeout_seconds = timeout_seconds

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> UserClient:
        """Return a client of the slice that this process runs in.

        Args:
            environment: Where to look; `None` = `os.environ`.

        Raises:
            UnknownClaimError: This process runs in no slice.
        """
        environment = os.environ if environment is None else environment
        api, secret = environment.get("JUPYTER_VGPU_API", ""), environment.get("JUPYTER_VGPU_SECRET", "")
        if not api or not secret:
            raise UnknownClaimError(
                "this process runs in no slice (JUPYTER_VGPU_API and JUPYTER_VGPU_SECRET are not set): pick a GPU "
                "profile on the spawn page, or use `jupyter vgpu run`"
            )
        return cls(api, secret)

    def slice(self) -> SliceInfo:
        """Return what the caller's slice is and how it is enforced.

        Raises:
            UnknownClaimError: It has been released.
        """
        return cast(SliceInfo, _ask(self.api, "GET", "/v1/slice", self.secret, None, self._timeout_seconds))

    def usage(self) -> UsageInfo:
        """Return what the caller's slice uses now.

        Raises:
            UnknownClaimError: It has been released.
        """
        return cast(UsageInfo, _ask(self.api, "GET", "/v1/usage", self.secret, None, self._timeout_seconds))

    def events(self) -> list[EventInfo]:
        """Return what the agent noticed about the caller's slice lately, oldest first.

        Raises:
            UnknownClaimError: It has been released.
        """
        answer = _ask(self.api, "GET", "/v1/events", self.secret, None, self._timeout_seconds)
        return cast("list[EventInfo]", answer["events"])

    def create_subslice(self, name: str, memory_bytes: int, share: float | None = None) -> GrantedSubslice:
        """Return a new part of the caller's slice, which lasts until it is released or this process dies.

        Args:
            name: For people, as a notebook's.
            memory_bytes: Of each device of the slice; taken out of what the slice's other processes may have.
            share: Part of the device's time, in (0, 1]; `None` = the same part of the slice's share as of its memory.

        Raises:
            NoCapacityError: The slice has not that much left; the message names the largest part that would fit.
            BadValueError: It is not allowed, or the slice is itself a part of one.
        """
        body = {"name": name, "memory_bytes": memory_bytes, **({} if share is None else {"share": share})}
        answer = _ask(self.api, "POST", "/v1/subslices", self.secret, body, self._timeout_seconds)
        return GrantedSubslice(answer["subslice"], answer["secret"])

    def subslices(self) -> list[SubsliceInfo]:
        """Return the parts that the caller's slice is divided into, oldest first."""
        answer = _ask(self.api, "GET", "/v1/subslices", self.secret, None, self._timeout_seconds)
        return cast("list[SubsliceInfo]", answer["subslices"])

    def release_subslice(self, claim_id: str) -> SubsliceInfo | None:
        """Give a part back to the slice and return it; `None` when there was none: twice is once."""
        url = f"/v1/subslices/{_segment(claim_id)}"
        answer = _ask(self.api, "DELETE", url, self.secret, None, self._timeout_seconds)
        return cast("SubsliceInfo | None", answer["subslice"])


def _claim_to_wire(request: ClaimRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "tenant": request.tenant,
        "hub": request.hub,
        "uid": request.uid,
        "profile": profile_to_wire(request.profile, request.backend),
    }
    if request.isolation:
        body["isolation"] = request.isolation
    if request.is_spread:
        body["spread"] = True
    return body


def _granted(answer: Mapping[str, Any]) -> GrantedClaim:
    return GrantedClaim(answer["claim"], answer["secret"], Edits(**answer["edits"]))


def _refused(answer: Mapping[str, Any]) -> VGPUError:
    return error_from_reason(str(answer.get("error")), str(answer.get("message")))


def _segment(claim_id: str) -> str:
    """Return `claim_id` as one segment of a path, whatever it holds."""
    return quote(claim_id, safe="")
