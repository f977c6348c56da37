"""Scopes by which a hub says who may see slices and who may take them away.

Scopes of our own are for those who have no other rights over servers. Who may read or stop a server by the hub's own
scopes may see and revoke its slice too: so a hub's administrators need nothing besides, and neither does
everybody for what is theirs.
source: https://jupyterhub.readthedocs.io/en/stable/rbac/scopes.html
"""

from __future__ import annotations

from typing import Any

READ = "custom:jupyter-vgpu:read"
ADMIN = "custom:jupyter-vgpu:admin"

TO_READ = (READ, "read:servers")
TO_REVOKE = (ADMIN, "delete:servers")

# As JupyterHub's `custom_scopes` takes them.
CUSTOM_SCOPES: dict[str, dict[str, Any]] = {
    READ: {"description": "See who holds which slice of a GPU."},
    ADMIN: {"description": "See who holds which slice of a GPU, and take slices away.", "subscopes": [READ]},
}

# Environment variable that names the file with the settings of the service, `jupyter_vgpu.service.settings`.
SETTINGS_VARIABLE = "JUPYTER_VGPU_SERVICE_SETTINGS"
