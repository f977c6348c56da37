"""Take a slice away: written down first, then released, then its server is stopped.

In that order, since the first leaves a name behind whatever fails, and the second works also when the hub or the server
does not listen: the server's processes get no more memory, and what they hold is promised to nobody until they end.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from jupyter_vgpu.errors import BadValueError, UnknownClaimError, VGPUError
from jupyter_vgpu.service.holdings import Held
from jupyter_vgpu.service.lookout import Lookout

log = logging.getLogger(__name__)

LONGEST_REASON = 200

_HUB_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Outcome:
    """What became of it.

    Attributes:
        is_released: Whether the agent has released the slice; if not, the hub does once it can.
        server: `"stopped"`, `"stopping"`, `"none"` (there is none of that name), or `"not-stopped"`.
        messages: The same in words, one thing each.
    """

    is_released: bool
    server: str
    messages: tuple[str, ...]


def checked_reason(given: object) -> str:
    """Return why somebody revokes, as it will be shown; empty when they do not say.

    Raises:
        BadValueError: It is too long, no text, or has control characters.
    """
    if given is None:
        return ""
    if not isinstance(given, str) or len(given) > LONGEST_REASON or not all(c.isprintable() for c in given):
        raise BadValueError("because", given, f"a line of at most {LONGEST_REASON} printable characters is")
    return given.strip()


class Revoker:
    """Revokes claims of this hub."""

    def __init__(self, lookout: Lookout, hub_api_url: str, hub_token: str) -> None:
        """Take where agent, ledger and hub are.

        Args:
            lookout: Agent and ledger.
            hub_api_url: As in `http://127.0.0.1:8081/hub/api`.
            hub_token: The service's own, which may stop servers.
        """
        self._lookout = lookout
        self._hub_api_url = hub_api_url.rstrip("/")
        self._hub_token = hub_token

    async def revoke(self, one: Held, by: str, why: str) -> Outcome:
        """Take a claim away from its server, and stop the server; return what became of it.

        Args:
            one: A claim of this hub.
            by: Who does it, for the ledger.
            why: What they said about it; may be empty.

        Raises:
            UnknownClaimError: It has ended meanwhile.
            LedgerError: It cannot be written down who did it; nothing was done.
        """
        if one.entry_id is None:
            raise UnknownClaimError(
                f"the ledger does not know claim {one.claim} yet: try again in a minute, when the hub has compared them"
            )
        if not await self._lookout.in_ledger(lambda ledger: ledger.revoke, one.entry_id, by, why):
            raise UnknownClaimError(f"claim {one.claim} has ended meanwhile")
        log.info(
            "claim %s of %s/%s is revoked by %s: %s", one.claim, one.user, one.server, by, why or "no reason given"
        )
        is_released, message = await self._release(one)
        server, server_message = await self._stop(one.user, one.server)
        await self._lookout.look(0)
        return Outcome(is_released, server, (message, server_message))

    async def _release(self, one: Held) -> tuple[bool, str]:
        try:
            await asyncio.to_thread(self._lookout.client.release_claim, one.claim)
        except VGPUError as error:
            log.warning("revoked claim %s cannot be released now: %s", one.claim, error)
            return False, f"The slice could not be released now; the hub does it once the agent answers: {error}"
        try:
            assert one.entry_id is not None
            await self._lookout.in_ledger(lambda ledger: ledger.close_entry, one.entry_id, "revoked")
        except VGPUError as error:
            # The hub's next comparison with the agent closes the entry, for the reason that is in it.
            log.warning("the end of revoked claim %s is not written down: %s", one.claim, error)
        return True, "The slice was released."

    async def _stop(self, user: str, server: str) -> tuple[str, str]:
        path = f"/users/{quote(user, safe='')}/" + (f"servers/{quote(server, safe='')}" if server else "server")
        request = HTTPRequest(
            f"{self._hub_api_url}{path}",
            method="DELETE",
            headers={"Authorization": f"token {self._hub_token}"},
            request_timeout=_HUB_TIMEOUT_SECONDS,
        )
        try:
            answer = await AsyncHTTPClient().fetch(request)
        except HTTPClientError as error:
            if error.code == 404:
                return "none", "Its user or server is gone."
            log.warning("the server of %s/%s cannot be stopped: %s", user, server, error)
            return "not-stopped", f"Its server could not be stopped ({error}); stop it on the hub's admin page."
        except OSError as error:
            log.warning("the server of %s/%s cannot be stopped: %s", user, server, error)
            return "not-stopped", f"Its server could not be stopped, since the hub does not answer: {error}."
        if answer.code == 202:
            return "stopping", "Its server is being stopped."
        return "stopped", "Its server is stopped."
