"""What is written into the ledger after the fact: where that cannot be done, the log has it and all goes on."""

from __future__ import annotations

from typing import Any

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub.errands import Errands
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.ledger import Entry, Ledger


class Bookkeeping:
    """Writes down what has happened. Never raises a `VGPUError`."""

    def __init__(self, errands: Errands, ledger: Ledger, log: Any) -> None:
        """Take the threads, the book, and the log for what cannot be written."""
        self._errands = errands
        self._ledger = ledger
        self._log = log

    async def close(self, entry: Entry, because: str) -> None:
        """Note that a claim ended; an entry that stays open is reconciled later."""
        try:
            await self._errands.in_ledger(self._ledger.close_entry, entry.entry_id, because)
        except VGPUError as error:
            self._log.error("the end of claim %s of %s is not written down: %s", entry.claim_id, entry.tenant, error)

    async def note(self, entry: Entry, kind: str, detail: str) -> None:
        """Keep an event of a claim."""
        try:
            await self._errands.in_ledger(self._ledger.note, entry.entry_id, kind, detail)
        except VGPUError as error:
            self._log.error("event %s of claim %s is not written down: %s", kind, entry.claim_id, error)

    async def remember(self, key: ServerKey, kind: str, detail: str, by: str = "", claim_id: str = "") -> None:
        """Keep an event for the audit.

        Args:
            key: The server.
            kind: What happened, in a word.
            detail: The same for people.
            by: Who did it, if not the server's own user.
            claim_id: The claim that it happened to; empty = none.
        """
        try:
            if claim_id:
                await self._errands.in_ledger(self._ledger.note_claim, claim_id, kind, detail, by)
            else:
                await self._errands.in_ledger(self._ledger.audit.note, kind, *key, detail, by)
        except VGPUError as error:
            self._log.error("%s of %s is not written down (%s): %s", kind, tenant_name(*key), error, detail)
