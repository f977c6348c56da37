"""What an admin sets, in one place for the whole hub: `c.VGPUHub.…`.

Apart from the spawners, some of which have a setting called `profiles` of their own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from traitlets import Dict, Enum, Float, Int, Unicode, default
from traitlets.config import Config, SingletonConfigurable

from jupyter_vgpu.client import SYSTEM_RUNTIME_DIR, Endpoint, Nodes, OneNode, agents_at, parse_endpoints
from jupyter_vgpu.config import (
    BUILT_IN_PROFILES,
    PROFILE_KEYS,
    GroupOverride,
    Isolated,
    overridden,
    parse_group_overrides,
    parse_isolated,
    parse_profiles,
    profiles_for,
)
from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.hub.desk import ClaimDesk
from jupyter_vgpu.hub.queue import WaitingRoom
from jupyter_vgpu.hub.rules import PlacementRules
from jupyter_vgpu.hub.unread import refuse_unread_sections, refuse_unread_settings
from jupyter_vgpu.hub.watch import Watch
from jupyter_vgpu.hub.yaml_file import KEYS, load_yaml
from jupyter_vgpu.ledger import Entry, Ledger
from jupyter_vgpu.model import Profile
from jupyter_vgpu.quotas import QUOTA_KEYS, Quotas, parse_quotas
from jupyter_vgpu.variables import refuse_misspelt

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

    agents = Dict(
        help="""
        Agents of several nodes, instead of `agent`: name of the node → URL, or mapping with `url` and some of the keys
        `token_file`, `ca_file`, `certificate`, `key` (paths).

        "unix:///run/jupyter-vgpu" is the runtime directory of an agent of the hub's own node, "https://gpu2:8443" the
        port of another (`jupyter vgpu agent --listen`), which needs the `token_file`. `ca_file`: authorities that may
        have signed its certificate, by default the system's; `certificate` and `key`: what the hub shows where the
        agent asks for it. Default: none, and `agent` counts.
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

    profiles_file = Unicode(
        help=f"""
        YAML file with some of the keys {", ".join(KEYS)}, each as the setting of that name.

        Default (empty): none. What stands in both places is refused. Read when the hub starts.
        """
    ).tag(config=True)

    group_overrides = Dict(
        help="""
        What is different for members of groups: {NAME: {"groups": [GROUP...], "profiles": {PROFILE: {...}}}}.

        A profile's keys replace those of the profile of that name; another name is a profile more. Applied in the
        order of the names. Default: nothing.
        """
    ).tag(config=True)

    quotas = Dict(
        help=f"""
        How much may be claimed: {{"everyone": QUOTA, "members": {{GROUP: QUOTA}}, "groups": {{GROUP: QUOTA}},
        "users": {{USER: QUOTA}}}}, each part optional; QUOTA has some of the keys {", ".join(QUOTA_KEYS)}.

        `everyone` is for each user; `members` for each member of a group instead; `users` for one user instead;
        `groups` for all members of a group together, besides. `slices` and `memory` at once, `gpu_hours` as share ×
        time held in the last `window_days` (default 7), `priority` the highest; `guaranteed_throughput` is given: as
        much of their shares as is left of it, new slices are guaranteed in each second. Default: nothing is limited.
        """
    ).tag(config=True)

    isolated = Dict(
        help="""
        Who shares a GPU with nobody else: {"groups": [GROUP...], "users": [USER...]}, each optional.

        Members of such a group share a GPU with members of the same group only, such a user with nobody. Of several
        groups the first named counts. Default: everyone shares with everyone.
        """
    ).tag(config=True)

    placement = Enum(
        ("tight", "spread"),
        "tight",
        help="""
        Where a slice goes that fits on several GPUs: "tight" = the fullest, so that whole ones stay free for large
        profiles (default); "spread" = the emptiest, so that each has little company.
        """,
    ).tag(config=True)

    queue_timeout_seconds = Float(
        0.0,
        min=0.0,
        max=604_800.0,
        help="""
        Seconds that a start waits for a slice when none is free, at most a week. Default 0: it is refused at once.
        """,
    ).tag(config=True)

    queue_length = Int(
        100,
        min=1,
        max=100_000,
        help="""
        Most servers that may wait; more are refused. Default 100, also the number of starts that JupyterHub itself
        allows at once (`concurrent_spawn_limit`), which those who wait are among.
        """,
    ).tag(config=True)

    queue_patience_seconds = Float(
        300.0,
        min=0.0,
        help="""
        Seconds that who waits may be overtaken by others whose smaller slice fits. Default 300, and at most half of
        `queue_timeout_seconds`; then the devices that will be free soonest are kept for them, and others are served
        on the rest. 0 = nobody is ever overtaken there.
        """,
    ).tag(config=True)

    group_weights = Dict(
        value_trait=Float(),
        help="""
        How groups share what becomes free when several wait: group → weight, above 0. A group of weight 2 is given
        twice as much as one of weight 1; who is in none has weight 1. Default: all are alike, who came first is first.
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
        return ledger_beside(getattr(self.parent, "db_url", ""))

    @classmethod
    def read(cls, config: Config) -> VGPUHub:
        """Return the settings that `config` holds so far, checked; nothing is opened.

        Raises:
            BadValueError: A setting is not understood, or there is none of its name.
        """
        refuse_unread_settings(config, cls)
        settings = cls(config=config)
        settings.check()
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
        refuse_unread_settings(parent.config, cls)
        refuse_unread_sections(parent.config)
        settings = cls.instance(parent=parent)
        spawner_class = getattr(parent, "spawner_class", type(parent))
        settings.places_servers = hasattr(getattr(spawner_class, "vgpu_injector", None), "place")
        try:
            settings.check()
            assert settings.desk
        except VGPUError:
            cls.clear_instance()
            raise
        return settings

    def check(self) -> None:
        """Read all that is written, and open nothing.

        Raises:
            BadValueError: Something is not understood.
        """
        refuse_misspelt(os.environ)
        if "://" in self.agent:
            raise BadValueError("VGPUHub.agent", self.agent, "a directory is; URLs stand in VGPUHub.agents")
        assert self.endpoints is not None
        assert self.offered
        assert self.overrides is not None
        assert self.limits is not None
        assert self.isolation is not None
        for group, weight in self.group_weights.items():
            if not isinstance(group, str) or not 0 < weight < float("inf"):
                raise BadValueError(f"VGPUHub.group_weights[{group!r}]", weight, "a number above 0 is")

    # Whether servers can be started on any node; otherwise on the hub's own.
    places_servers = False

    @cached_property
    def endpoints(self) -> dict[str, Endpoint]:
        """Where the agents of several nodes are, by the nodes' names, checked; empty where `agent` counts.

        Raises:
            BadValueError: One is not understood, or `agent` is set besides.
        """
        if not self.agents:
            return {}
        if "agent" in self.config.get("VGPUHub", {}):
            raise BadValueError("VGPUHub.agent", self.agent, "one of VGPUHub.agent and VGPUHub.agents is, not both")
        return parse_endpoints(self.agents, "VGPUHub.agents")

    def _ask_agents(self) -> OneNode | Nodes:
        """Return who is asked for claims.

        Raises:
            BadValueError: None of the agents has slices for servers of this spawner.
        """
        placing = {name for name, at in self.endpoints.items() if self.places_servers or at.is_on_this_node}
        if self.endpoints and not placing:
            raise BadValueError(
                "VGPUHub.agents",
                sorted(self.endpoints),
                "at least one by unix:// is, since this spawner starts servers on the hub's own node; one that starts "
                "them elsewhere is told where by with_vgpu(ThatSpawner, injector=NodeInjector(…))",
            )
        return agents_at(self.agent, self.endpoints, _AGENT_TIMEOUT_SECONDS, placing, self.log)

    @cached_property
    def offered(self) -> list[Profile]:
        """The profiles that are for everyone or for some groups, without overrides, checked."""
        return parse_profiles(*self._written("profiles"))

    @cached_property
    def overrides(self) -> dict[str, GroupOverride]:
        """What is different for members of groups, checked."""
        value, key = self._written("group_overrides")
        return parse_group_overrides(value, self._written("profiles")[0], key)

    @cached_property
    def limits(self) -> Quotas:
        """The quotas, checked."""
        return parse_quotas(*self._written("quotas"))

    @cached_property
    def isolation(self) -> Isolated:
        """Who shares a device with nobody else, checked."""
        return parse_isolated(*self._written("isolated"))

    def max_hours(self, entry: Entry) -> float | None:
        """Return for how long a claim may be held, in hours; `None` = not limited."""
        offered = self.offered_to(entry.groups)
        return next((profile.max_hours for profile in offered if profile.name == entry.profile), None)

    def offered_to(self, groups: Sequence[str]) -> list[Profile]:
        """Return what members of `groups` may choose from; empty when there is nothing for them."""
        mine = [override for override in self.overrides.values() if set(override.groups) & set(groups)]
        if not mine:
            return profiles_for(self.offered, groups)
        return profiles_for(parse_profiles(overridden(self._written("profiles")[0], mine)), groups)

    def _written(self, name: str) -> tuple[Any, str]:
        """Return a setting that may stand in the file, and where it stands."""
        if name not in self._file:
            return getattr(self, name), f"VGPUHub.{name}"
        if name in self.config.get("VGPUHub", {}):
            raise BadValueError(f"VGPUHub.{name}", getattr(self, name), f"it stands in {self.profiles_file} already")
        return self._file[name], f"{self.profiles_file}: {name}"

    @cached_property
    def _file(self) -> Mapping[str, Any]:
        return load_yaml(Path(self.profiles_file)) if self.profiles_file else {}

    @cached_property
    def desk(self) -> ClaimDesk:
        """The desk where servers get their claims."""
        client = self._ask_agents()
        ledger = Ledger(self.ledger_url, self.hub_name)
        rules = PlacementRules(self.isolation, self.placement == "spread")
        return ClaimDesk(client, ledger, socket.gethostname(), self.limits, rules, parent=self)

    @cached_property
    def watch(self) -> Watch:
        """Who looks at the agent for all open spawn pages."""
        return Watch(self.desk, self.max_hours, parent=self)

    @cached_property
    def room(self) -> WaitingRoom:
        """Where servers wait for a slice."""
        return WaitingRoom(
            self.desk,
            self.queue_timeout_seconds,
            self.queue_length,
            self.queue_patience_seconds,
            self.group_weights,
            parent=self,
        )


def ledger_beside(hub_db_url: str) -> str:
    """Return the default URL of the ledger of a hub whose own database is at `hub_db_url`."""
    return f"sqlite:///{_data_folder(hub_db_url) / LEDGER_FILE}"


def _data_folder(hub_db_url: str) -> Path:
    """Return where the hub's own SQLite database lies, or its working directory when it has none."""
    try:
        url = make_url(hub_db_url)
    except ArgumentError:
        return Path.cwd()
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        return Path(str(url.database)).resolve().parent
    return Path.cwd()
