"""What was claimed, by whom, for how long: a hub's memory of its claims, in SQL.

Knows neither JupyterHub nor the agent. Blocking: event loops call it from a thread.
"""

from jupyter_vgpu.ledger.audit import AuditBook, Event
from jupyter_vgpu.ledger.entries import Entry, Place
from jupyter_vgpu.ledger.ledger import Ledger, LedgerError
from jupyter_vgpu.ledger.rollup import Part, Reading, parts_between
from jupyter_vgpu.ledger.usage import UsageBook, Used

__all__ = [
    "AuditBook",
    "Entry",
    "Event",
    "Ledger",
    "LedgerError",
    "Part",
    "Place",
    "Reading",
    "UsageBook",
    "Used",
    "parts_between",
]
