"""How a slice is enforced: each backend turns a claim into edits, and says what it verified."""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_vgpu.backends.base import Backend, Enforcement, Node
from jupyter_vgpu.backends.intercept import InterceptBackend
from jupyter_vgpu.backends.whole import WholeBackend
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Profile

__all__ = ["BACKENDS", "Backend", "Enforcement", "Node", "choose_backend"]

# Strongest first: `auto` takes the first that supports the profile.
BACKENDS: Mapping[str, Backend] = {backend.name: backend for backend in (WholeBackend(), InterceptBackend())}


def choose_backend(profile: Profile, wanted: str = "auto") -> Backend:
    """Return the backend that enforces `profile`.

    Args:
        profile: What is asked for.
        wanted: Name of a backend; `"auto"` leaves it to the profile, whose own `"auto"` is the strongest that fits.

    Raises:
        BadValueError: There is no such backend, or it does not enforce such a profile.
    """
    name = profile.backend if wanted == "auto" else wanted
    if name == "auto":
        return next(backend for backend in BACKENDS.values() if backend.supports(profile))
    backend = BACKENDS.get(name)
    if backend is None:
        raise BadValueError("backend", name, f"one of auto, {', '.join(BACKENDS)} is")
    if not backend.supports(profile):
        raise BadValueError("backend", name, f"for profile {profile.name!r} another is: {backend.requirement}")
    return backend
