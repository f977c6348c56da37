"""What stands in `jupyterhub_config.py` and nobody would read.

traitlets passes over a section whose class there is not, and only warns of a name that its class has not: quotas in
`c.VGPUhub` would be none.
"""

from __future__ import annotations

from collections.abc import Iterator

from traitlets import TraitError
from traitlets.config import Config, Configurable
from traitlets.config.loader import LazyConfigValue

from jupyter_vgpu.errors import BadValueError

_OURS = "vgpu"


def refuse_unread_settings(config: Config, settings: type[Configurable]) -> None:
    """Refuse in the section of `settings` what it has not, and a value of the wrong type.

    Raises:
        BadValueError: Naming it and what there is.
    """
    section = settings.__name__
    probe = settings()
    for name, value in config.get(section, {}).items():
        _refuse_unknown(settings, name, value)
        if isinstance(value, LazyConfigValue):
            continue  # additions to the default
        try:
            setattr(probe, name, value)
        except TraitError as error:
            raise BadValueError(f"{section}.{name}", value, f"what it takes is ({error})") from error


def refuse_unread_sections(config: Config) -> None:
    """Refuse a section that sounds like one of ours and is none, and in a spawner of ours what that has not.

    To be called once the spawner's class has been made.

    Raises:
        BadValueError: Naming it and what there is.
    """
    known = {known.__name__: known for known in _below(Configurable)}
    ours = sorted(name for name, known_class in known.items() if _OURS in name.lower() and _is_ours(known_class))
    for section, written in config.items():
        if _OURS not in section.lower() or not written:
            continue
        if section not in known:
            raise BadValueError("c", section, f"of names like it only the sections {', '.join(ours)} are")
        if section in ours:
            for name, value in written.items():
                _refuse_unknown(known[section], name, value)


def _refuse_unknown(owner: type[Configurable], name: str, value: object) -> None:
    names = sorted(owner.class_trait_names(config=True))
    if name not in names:
        raise BadValueError(f"{owner.__name__}.{name}", value, f"only the settings {', '.join(names)} are")


def _is_ours(configurable: type) -> bool:
    return any(base.__module__.startswith("jupyter_vgpu.") for base in configurable.__mro__)


def _below(top: type[Configurable]) -> Iterator[type[Configurable]]:
    for each in top.__subclasses__():
        yield each
        yield from _below(each)
