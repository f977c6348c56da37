"""Which claims hold what: the agent's book.

Pure state: no sockets, files, pages or clock. Whoever changes it passes the time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jupyter_vgpu.backends import Backend, choose_backend
from jupyter_vgpu.errors import UnknownClaimError
from jupyter_vgpu.model import Claim, ClaimRequest, Device, Edits, Grant
from jupyter_vgpu.pages import SECRET_HEX_DIGITS
from jupyter_vgpu.placement import Room, best_fit, rooms

_REMEMBERED_RELEASES = 1000


def digest(secret: str) -> str:
    """Return what is kept of a claim secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_names() -> tuple[str, str]:
    """Return an id and a secret for a new claim, at random."""
    return secrets.token_hex(8), secrets.token_hex(SECRET_HEX_DIGITS // 2)


@dataclass(frozen=True)
class NewClaim:
    """A claim just made: what was granted, its secret (given once), and what to do to its processes."""

    claim: Claim
    secret: str
    edits: Edits


class ClaimBook:
    """The claims that hold a slice of this node's devices."""

    def __init__(self, devices: Sequence[Device]) -> None:
        """Start empty.

        Args:
            devices: The node's devices.
        """
        self.devices = tuple(devices)
        self.drained: set[str] = set()  # UUIDs of devices that take no new claims; what is there may stay
        self.distances: dict[tuple[str, str], int] = {}  # as `placement.best_fit` takes them
        self._claims: dict[str, Claim] = {}
        self._released: deque[str] = deque(maxlen=_REMEMBERED_RELEASES)

    @property
    def claims(self) -> list[Claim]:
        """The claims that hold a slice, oldest first."""
        return list(self._claims.values())

    @property
    def slices(self) -> list[Claim]:
        """The same without those that are parts of another's slice."""
        return [claim for claim in self._claims.values() if not claim.part_of]

    def parts_of(self, claim_id: str) -> list[Claim]:
        """Return the claims that have a part of this one's slice, oldest first."""
        return [claim for claim in self._claims.values() if claim.part_of == claim_id]

    def device(self, uuid: str) -> Device | None:
        """Return a device of this node, `None` when it is not (or no longer) there."""
        return next((device for device in self.devices if device.uuid == uuid), None)

    def rooms(self, lingering: Iterable[Grant] = ()) -> list[Room]:
        """Return what no claim has been promised, per device.

        Args:
            lingering: What processes of released claims still hold.
        """
        held = [grant for claim in self.slices for grant in claim.grants]
        return rooms(self.devices, [*held, *lingering], self.drained)

    def admit(
        self, request: ClaimRequest, claim_id: str, secret: str, now: float, lingering: Iterable[Grant] = ()
    ) -> tuple[Claim, Backend]:
        """Return a new claim that holds its slice, and the backend that enforces it.

        Args:
            request: What is asked for.
            claim_id: Its id, of no other claim.
            secret: Its secret; only a digest is kept.
            now: Unix seconds.
            lingering: What processes of released claims still hold.

        Raises:
            NoCapacityError: It does not fit; the message names the largest slice that would.
            BadValueError: The profile means nothing here, or the backend does not enforce it.
        """
        backend = choose_backend(request.profile, request.backend)
        profile = replace(request.profile, backend=backend.name)
        # A group's name is its hub's own: another hub's may be called the same.
        isolation = f"{request.hub}: {request.isolation}" if request.isolation else ""
        # In NVML's order, so that CUDA's first device in the slice is NVML's first.
        places = {device.uuid: place for place, device in enumerate(self.devices)}
        grants = tuple(
            sorted(
                best_fit(self.rooms(lingering), profile, isolation, request.is_spread, self.distances),
                key=lambda grant: places[grant.uuid],
            )
        )
        claim = Claim(
            claim_id=claim_id,
            tenant=request.tenant,
            hub=request.hub,
            uid=request.uid,
            profile_name=profile.name,
            backend=backend.name,
            grants=grants,
            state="bound",
            created_at=now,
            secret_sha256=digest(secret),
            priority=profile.priority,
        )
        self._claims[claim_id] = claim
        return claim, backend

    def adopt(self, claim: Claim) -> None:
        """Take over a claim of an earlier agent on this node, whatever is free: its tenant runs already."""
        self._claims[claim.claim_id] = claim

    def get(self, claim_id: str) -> Claim:
        """Return one claim.

        Raises:
            UnknownClaimError: None of this id holds a slice.
        """
        claim = self._claims.get(claim_id)
        if claim is None:
            raise UnknownClaimError(f"no claim {claim_id!r} holds a slice on this node: it was released, or never was")
        return claim

    def by_secret(self, secret: str) -> Claim:
        """Return the claim that `secret` opens. Every claim is compared, in constant time.

        Raises:
            UnknownClaimError: None; the message says when it has been released.
        """
        wanted = digest(secret)
        found: Claim | None = None
        for claim in self._claims.values():
            if hmac.compare_digest(claim.secret_sha256, wanted):
                found = claim
        if found is not None:
            return found
        if wanted in self._released:
            raise UnknownClaimError("this slice has been released: start the server again to get another")
        raise UnknownClaimError("no claim has this secret")

    def release(self, claim_id: str) -> Claim | None:
        """Return the claim as released and forget what it held; `None` when there was none."""
        claim = self._claims.pop(claim_id, None)
        if claim is None:
            return None
        self._released.append(claim.secret_sha256)
        return replace(claim, state="released")
