"""Read a user's choice of profile: from the spawn form, a query or the REST API.

Pure functions. Whatever the path, `profile_of` has the last word: what it does
not understand is refused, and nothing has been claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_vgpu.errors import BadValueError, NotAuthorizedError
from jupyter_vgpu.model import Profile

KEY = "vgpu_profile"
OVER_QUOTA_KEY = "vgpu_over_quota"  # an administrator's, over REST, for one start

_HUB_KEYS = ("_xsrf",)  # JupyterHub's own, seen when a form's URL is opened again
_LONGEST_SHOWN = 80


def profile_of(user_options: Mapping[str, Any], profiles: Sequence[Profile], others_allowed: bool) -> Profile:
    """Return the profile that `user_options` asks for; the default one when they ask for none.

    Args:
        user_options: As JupyterHub keeps them: what a form gave, or any JSON object of the REST API.
        profiles: What the admin offers, exactly one of them the default.
        others_allowed: Whether the wrapped spawner reads options of its own, so that other keys may be its.

    Raises:
        NotAuthorizedError: There is none for this user.
        BadValueError: Another key than `vgpu_profile` that nobody reads, no text, or no such profile.
    """
    if not others_allowed:
        for key in user_options:
            if key != KEY:
                raise BadValueError(
                    f"user_options[{_shown(key)!r}]", _shown(user_options[key]), f"only the key {KEY} is"
                )
    if not profiles:
        raise NotAuthorizedError("no profile is offered to you: ask an administrator for a group that has one")
    if KEY not in user_options:
        return next(profile for profile in profiles if profile.is_default)
    wanted = user_options[KEY]
    for profile in profiles:
        if isinstance(wanted, str) and profile.name == wanted:
            return profile
    names = ", ".join(repr(profile.name) for profile in profiles)
    raise BadValueError(KEY, _shown(wanted), f"one of {names} is")


def split_form(form: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return our part of a form's data as user options, and the rest as it came.

    Args:
        form: Lists of texts, as JupyterHub passes a form or a query.

    Raises:
        BadValueError: The profile was given twice.
    """
    rest = {key: value for key, value in form.items() if key != KEY and key not in _HUB_KEYS}
    if KEY not in form:
        return {}, rest
    values = form[KEY]
    if not isinstance(values, list) or len(values) != 1:
        raise BadValueError(KEY, _shown(values), "one profile is")
    return {KEY: values[0]}, rest


def _shown(value: Any) -> Any:
    """Return `value`, or its beginning: a message quotes nobody's novel."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > _LONGEST_SHOWN:
        return text[:_LONGEST_SHOWN] + "…"
    return value


def split_over_quota(user_options: Mapping[str, Any], is_admin: bool) -> tuple[dict[str, Any], bool]:
    """Return the options that stay, and whether quotas do not count for this start.

    Args:
        user_options: As JupyterHub keeps them.
        is_admin: Whether who asks may start everyone's servers.

    Raises:
        NotAuthorizedError: Who asks may not say that.
        BadValueError: It is neither true nor false.
    """
    rest = {key: value for key, value in user_options.items() if key != OVER_QUOTA_KEY}
    wanted = user_options.get(OVER_QUOTA_KEY, False)
    if not isinstance(wanted, bool):
        raise BadValueError(OVER_QUOTA_KEY, _shown(wanted), "true or false is")
    if wanted and not is_admin:
        raise NotAuthorizedError(
            f"{OVER_QUOTA_KEY}: only who may start everyone's servers (admin:servers) may say that"
        )
    return rest, wanted
