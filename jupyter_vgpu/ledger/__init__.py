"""What was claimed, by whom, for how long: a hub's memory of its claims, in SQL.

Knows neither JupyterHub nor the agent. Blocking: event loops call it from a thread.
"""

from jupyter_vgpu.ledger.ledger import Entry, Ledger, LedgerError, Place

__all__ = ["Entry", "Ledger", "LedgerError", "Place"]
