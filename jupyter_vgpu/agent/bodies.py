"""What callers of the agent's API may send, checked before anything is done."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from jupyter_vgpu.amounts import check_name
from jupyter_vgpu.config import parse_profile
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import ClaimRequest
from jupyter_vgpu.units import MIB

_LARGEST_UID = 2**32 - 2
_LONGEST_TENANT = 512
MOST_AT_ONCE = 64  # claims in one batch


_AnyBody = TypeVar("_AnyBody", bound="Body")


class Body(BaseModel):
    """A body with no other keys than its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ProfileBody(Body):
    """`profile` of a claim. Its values are the profile rules' to check."""

    name: StrictStr
    share: Any = None
    ceiling: Any = None
    guarantee: Any = None
    memory_bytes: Any = None
    memory_fraction: Any = None
    devices: Any = 1
    backend: Any = "auto"
    priority: Any = "normal"


class ClaimBody(Body):
    """Body of `POST /v1/claims`."""

    tenant: StrictStr
    hub: StrictStr
    uid: StrictInt = Field(ge=0, le=_LARGEST_UID)
    profile: ProfileBody
    while_peer_lives: StrictBool = False
    isolation: StrictStr = ""
    spread: StrictBool = False

    def request(self) -> ClaimRequest:
        """Return the request this body is.

        Raises:
            BadValueError: The profile is not allowed.
        """
        profile = self.profile
        entry: dict[str, object] = {
            "devices": profile.devices,
            "backend": profile.backend,
            "priority": profile.priority,
        }
        if profile.share not in (None, 0):  # 0 and absent: by memory
            entry["share"] = profile.share
        if profile.ceiling is not None:
            entry["ceiling"] = profile.ceiling
        if profile.guarantee is not None:
            entry["guarantee"] = profile.guarantee
        if profile.memory_bytes is not None and profile.memory_fraction is not None:
            raise BadValueError("profile.memory_bytes", profile.memory_bytes, "it or memory_fraction is, not both")
        if profile.memory_bytes is not None:
            if not isinstance(profile.memory_bytes, int) or profile.memory_bytes <= 1:
                raise BadValueError("profile.memory_bytes", profile.memory_bytes, "a whole number of bytes is")
            entry["memory"] = profile.memory_bytes
        elif profile.memory_fraction is not None:
            entry["memory"] = profile.memory_fraction
        return ClaimRequest(
            tenant=check_name(self.tenant, "tenant", _LONGEST_TENANT),
            hub=check_name(self.hub, "hub", _LONGEST_TENANT),
            uid=self.uid,
            profile=parse_profile(profile.name, entry, "profile"),
            isolation=self.isolation and check_name(self.isolation, "isolation", _LONGEST_TENANT),
            is_spread=self.spread,
        )


class ClaimsBody(Body):
    """Body of `POST /v1/claims/batch`."""

    claims: list[ClaimBody] = Field(min_length=1, max_length=MOST_AT_ONCE)


class DeviceBody(Body):
    """Body of `PUT /v1/devices/UUID`."""

    drained: StrictBool


class SubsliceBody(Body):
    """Body of `POST /v1/subslices`."""

    name: StrictStr
    memory_bytes: StrictInt = Field(ge=MIB)
    share: StrictFloat | StrictInt | None = None


def parse_claim_body(content: bytes) -> ClaimBody:
    """Return the body of `POST /v1/claims`.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    return parse_body(ClaimBody, content)


def parse_claims_body(content: bytes) -> list[ClaimRequest]:
    """Return the requests in the body of `POST /v1/claims/batch`.

    Raises:
        BadValueError: As `parse_claim_body`; one that is not allowed is enough.
    """
    bodies = parse_body(ClaimsBody, content).claims
    if any(body.while_peer_lives for body in bodies):
        raise BadValueError("while_peer_lives", True, "only for a claim that is asked for by itself is")
    return [body.request() for body in bodies]


def parse_subslice(content: bytes) -> SubsliceBody:
    """Return the body of `POST /v1/subslices`.

    Raises:
        BadValueError: It is not allowed; the message names the key.
    """
    body = parse_body(SubsliceBody, content)
    check_name(body.name, "name")
    if body.share is not None and not 0 < body.share <= 1:
        raise BadValueError("share", body.share, "a part of the device's time, more than 0 and at most 1, is")
    return body


def parse_body(model: type[_AnyBody], content: bytes) -> _AnyBody:
    """Return the body that `content` is, as JSON.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "body"
        if first["type"] == "extra_forbidden":
            inner = ProfileBody if "profile" in first["loc"][:-1] else ClaimBody if len(first["loc"]) > 1 else model
            keys = inner.model_fields
            raise BadValueError(key, first["input"], f"only the keys {', '.join(keys)} are") from error
        if first["type"] == "missing":
            raise BadValueError.missing(key, "it must be") from error
        raise BadValueError(key, first["input"], first["msg"][:1].lower() + first["msg"][1:]) from error
