"""What slice `jupyter vgpu run` was asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

from jupyter_vgpu.amounts import parse_ceiling, parse_guarantee, parse_memory
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.model import Memory, Profile
from jupyter_vgpu.units import PPM, parse_fraction, to_ppm


def wished_profile(options: argparse.Namespace) -> Profile:
    """Return the profile that `--profile`, or `--share`, `--memory`, `--ceiling` and `--guarantee`, name.

    Raises:
        BadValueError: None, both, or a value that is not allowed.
    """
    amounts = [name for name in ("share", "memory", "ceiling", "guarantee") if getattr(options, name) is not None]
    if options.profile is not None:
        if amounts:
            raise BadValueError(f"--{amounts[0]}", getattr(options, amounts[0]), "it or --profile is, not both")
        return _named(options.profile, options.config)
    if options.share is None and options.memory is None:
        raise BadValueError.missing("--share", "one of --profile NAME, --share PART and --memory SIZE must be given")
    share = None if options.share is None else parse_fraction(options.share, "--share")
    memory = Memory(fraction=share) if options.memory is None else parse_memory(options.memory, "--memory")
    return Profile(
        name=", ".join(f"{name} {getattr(options, name)}" for name in amounts),
        share_ppm=0 if share is None else to_ppm(share),
        ceiling_ppm=PPM if options.ceiling is None else parse_ceiling(options.ceiling, share, "--ceiling"),
        memory=memory,
        guarantee_ppm=0 if options.guarantee is None else parse_guarantee(options.guarantee, share, "--guarantee"),
    )


def _named(name: str, config: Path | None) -> Profile:
    """Return the profile called `name`, of the file first; `"1/4"` finds `"1/4 GPU"` too."""
    from jupyter_vgpu.config import BUILT_IN_PROFILES, load_profiles, parse_profiles

    known = {profile.name: profile for profile in parse_profiles(BUILT_IN_PROFILES)}
    if config is not None:
        known |= {profile.name: profile for profile in load_profiles(config)}
    found = known.get(name) or known.get(f"{name} GPU")
    if found is None:
        raise BadValueError("--profile", name, f"one of {', '.join(repr(each) for each in known)} is")
    return found
