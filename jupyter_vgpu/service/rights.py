"""Who may see a claim, and who may take it away: by the scopes that the hub says somebody has. Pure functions.

What the scopes mean is in `jupyter_vgpu.scopes`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from jupyter_vgpu.scopes import TO_READ, TO_REVOKE


@dataclass(frozen=True)
class Viewer:
    """Somebody whom the hub knows.

    Attributes:
        name: The user's, or the service's.
        kind: `"user"` or `"service"`.
        scopes: What their token may do, expanded by the hub.
    """

    name: str
    kind: str
    scopes: frozenset[str]

    @property
    def reads_all(self) -> bool:
        """Whether they may see everything."""
        return not self.scopes.isdisjoint(TO_READ)

    @property
    def revokes_all(self) -> bool:
        """Whether they may take away everything."""
        return not self.scopes.isdisjoint(TO_REVOKE)

    @property
    def reads_only_own(self) -> bool:
        """Whether no scope of theirs lets them see anybody but themselves."""
        own = {f"{scope}!{filter}" for scope in TO_READ for filter in (f"user={self.name}", f"server={self.name}/")}
        theirs = {scope for scope in self.scopes if scope.partition("!")[0] in TO_READ}
        return all(scope in own or scope.partition("!server=")[2].startswith(f"{self.name}/") for scope in theirs)

    def may_read(self, user: str, server: str, groups: Collection[str]) -> bool:
        """Return whether they may see what a server holds.

        Args:
            user: Whose it is.
            server: Its name; empty for the default one.
            groups: The groups that the user was in when the slice was claimed.
        """
        return _covers(self.scopes, TO_READ, user, server, groups)

    def may_revoke(self, user: str, server: str, groups: Collection[str]) -> bool:
        """Return whether they may take a server's slice away; see `may_read`."""
        return _covers(self.scopes, TO_REVOKE, user, server, groups)


def _covers(scopes: frozenset[str], names: Collection[str], user: str, server: str, groups: Collection[str]) -> bool:
    filters = ["", f"!user={user}", f"!server={user}/{server}", *(f"!group={group}" for group in groups)]
    return any(f"{name}{filter}" in scopes for name in names for filter in filters)
