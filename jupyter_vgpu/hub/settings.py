"""What an admin sets, in one place for the whole hub: `c.VGPUHub.…`.

Apart from the spawners, some of which have a setting called `profiles` of their own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from traitlets import Dict, Float, TraitError, Unicode, default
from traitlets.config import Config, SingletonConfigurable
from traitlets.config.loader import LazyConfigValue

from jupyter_vgpu.client import SYSTEM_RUNTIME_DIR, HubClient
from jupyter_vgpu.config import BUILT_IN_PROFILES, PROFILE_KEYS, parse_profiles
from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.ledger import Ledger
from jupyter_vgpu.model import Profile

LEDGER_FILE = "jupyter_vgpu.sqlite"

# How long a spawn waits for an agent that hangs, so that with all the rest it fails within 5 s.
_AGENT_TIMEOUT_SECONDS = 4.0


class VGPUHub(SingletonConfigurable):
    """Settings of the hub's side, and the desk that works by them."""

    profiles = Dict(
        help=f"""
        What users can choose on the spawn page: name → mapping with some of the keys {", ".join(PROFILE_KEYS)}.

        `share` is a part of one GPU's time ("1/4", "25%"), `memory` a part of its memory or a size ("10GiB"); one
        without the other gives as much of both. Default: an eighth, a quarter, a half and a whole GPU. Checked when
        the hub starts; there is no value that means "no limit".
        """
    ).tag(config=True)

    agent = Unicode(
        help="""
        Runtime directory of this node's agent, where its `hub.sock` is.

        Default: the environment variable JUPYTER_VGPU_AGENT, else /run/jupyter-vgpu, a system agent's.
        """
    ).tag(config=True)

    ledger_url = Unicode(
        help=f"""
        SQLAlchemy URL of the ledger, which remembers who held what and when.

        Default: the SQLite file {LEDGER_FILE} beside the hub's own SQLite database, or in the hub's working directory
        when that is none. One ledger serves one hub, unless `hub_name` tells them apart.
        """
    ).tag(config=True)

    hub_name = Unicode(
        help="""
        Name this hub goes by at its agents, which release a claim only for the hub that made it.

        Default (empty): made up at the first start and kept in the ledger.
        """
    ).tag(config=True)

    reconcile_interval_seconds = Float(
        60.0,
        min=1.0,
        help="""
        Seconds between two comparisons of the agent's claims with the hub's servers; default 60, at least 1.
        """,
    ).tag(config=True)

    @default("profiles")
    def _default_profiles(self) -> Mapping[str, Any]:
        return {name: dict(entry) for name, entry in BUILT_IN_PROFILES.items()}

    @default("agent")
    def _default_agent(self) -> str:
        return os.environ.get("JUPYTER_VGPU_AGENT") or str(SYSTEM_RUNTIME_DIR)

    @default("ledger_url")
    def _default_ledger_url(self) -> str:
        return f"sqlite:///{_data_folder(getattr(self.parent, 'db_url', '')) / LEDGER_FILE}"

    @classmethod
    def read(cls, config: Config) -> VGPUHub:
        """Return the settings that `config` holds so far, checked; nothing is opened.

        Raises:
            BadValueError: A setting is not understood, or there is none of its name.
        """
        check(config)
        settings = cls(config=config)
        assert settings.offered
        return settings

    @classmethod
    def start(cls, parent: Any) -> VGPUHub:
        """Return the settings of the running hub, checked, with the ledger open.

        Args:
            parent: The application whose configuration counts.

        Raises:
            BadValueError: A setting is not understood, or there is none of its name.
            LedgerError: The ledger cannot be opened.
        """
        check(parent.config)
        settings = cls.instance(parent=parent)
        try:
            assert settings.offered
            assert settings.desk
        except VGPUError:
            cls.clear_instance()
            raise
        return settings

    @cached_property
    def offered(self) -> list[Profile]:
        """The profiles, checked."""
        return parse_profiles(self.profiles, "VGPUHub.profiles")

    @cached_property
    def desk(self) -> ClaimDesk:
        """The desk where servers get their claims."""
        client = HubClient(self.agent, timeout_seconds=_AGENT_TIMEOUT_SECONDS)
        return ClaimDesk(client, Ledger(self.ledger_url, self.hub_name), socket.gethostname(), parent=self)


def _data_folder(hub_db_url: str) -> Path:
    """Return where the hub's own SQLite database lies, or its working directory when it has none."""
    try:
        url = make_url(hub_db_url)
    except ArgumentError:
        return Path.cwd()
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        return Path(str(url.database)).resolve().parent
    return Path.cwd()


def check(config: Config) -> None:
    """Refuse a setting that does not exist, of which traitlets would only warn, and a value of the wrong type.

    Raises:
        BadValueError: Naming it and what there is.
    """
    known = sorted(VGPUHub.class_trait_names(config=True))
    probe = VGPUHub()
    for name, value in config.get("VGPUHub", {}).items():
        if name not in known:
            raise BadValueError(f"VGPUHub.{name}", value, f"only the settings {', '.join(known)} are")
        if isinstance(value, LazyConfigValue):
            continue  # additions to the default
        try:
            setattr(probe, name, value)
        except TraitError as error:
            raise BadValueError(f"VGPUHub.{name}", value, f"what it takes is ({error})") from error
