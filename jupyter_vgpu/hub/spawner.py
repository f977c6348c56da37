"""The mixin that gives any spawner's servers a slice of a GPU.

Leftmost, it wraps what the spawner does and leaves the spawner's own settings and hooks as they are: a hook runs
where it always ran, with the claim around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from jupyterhub import orm
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner
from jupyterhub.utils import maybe_future
from traitlets import Unicode
from traitlets.config import LoggingConfigurable

from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.hub import startup
from jupyter_vgpu.hub.choices import KEY, OVER_QUOTA_KEY, profile_of, split_form, split_over_quota
from jupyter_vgpu.hub.injectors import Injector, LocalInjector
from jupyter_vgpu.hub.orphans import servers_left
from jupyter_vgpu.hub.pages import cancel_form
from jupyter_vgpu.hub.reconciliation import ServerKey, tenant_name
from jupyter_vgpu.hub.refusals import leave_uncounted, refusal
from jupyter_vgpu.hub.settings import VGPUHub
from jupyter_vgpu.hub.spawn_page import spawn_form
from jupyter_vgpu.hub.timing import ADDED, LATE, WAITED, Stopwatch
from jupyter_vgpu.hub.waits import sentence
from jupyter_vgpu.model import Edits, Profile
from jupyter_vgpu.native import INTERCEPT_LIBRARY, present

_QUEUE_MARGIN_SECONDS = 30.0
_PROGRESS_SECONDS = 1.0

# In every class it is mixed into, the mixin's super() is a spawner.
_Base: Any = Spawner if TYPE_CHECKING else LoggingConfigurable


class VGPUSpawnerMixin(_Base):  # type: ignore[misc]  # jupyterhub is untyped
    """Claim a slice before the server starts, hand it to the server's processes, release it when the server is gone.

    Attributes:
        vgpu_injector: How edits reach this platform's processes.
        vgpu_claim_id: The claim this server holds; empty = none. Kept over restarts of the hub.
        vgpu_stopped_because: What the ledger is told when `stop` ends it.
    """

    vgpu_injector: ClassVar[Injector]
    vgpu_claim_id = Unicode()
    vgpu_stopped_because = "the server was stopped"

    if TYPE_CHECKING:
        start_timeout: int  # JupyterHub's
        pid: int  # of spawners that start processes
        user_options: dict[str, Any]

    _vgpu_added = Stopwatch()
    _vgpu_edits: Edits | None = None
    _vgpu_how_it_ended = "the server ended by itself"
    _vgpu_is_claiming = False
    _vgpu_is_known = False  # whether it has been looked for a process of a hub that was killed
    _vgpu_over_quota = False
    _vgpu_lifted_by = ""
    _vgpu_is_starting = False
    _vgpu_is_stopping = False
    _vgpu_uncounted_in: dict[str, Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        startup.arrange(VGPUSpawnerMixin)

    # What there is to choose, and what was chosen

    async def get_options_form(self) -> str:
        """Return the spawner's own form, if it has one, followed by ours with what can be had now."""
        own_form = await maybe_future(super().get_options_form())
        return f"{own_form or ''}{await spawn_form(self._vgpu_settings(), self._vgpu_key, self._vgpu_groups, self)}"

    async def run_options_from_form(self, form_data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the user options of a submitted form: the spawner reads its part, we ours."""
        try:
            ours, rest = split_form(form_data)
            theirs = await maybe_future(super().run_options_from_form(rest))
            return self._vgpu_checked({**theirs, **ours})
        except VGPUError as error:
            raise refusal(error) from error

    async def options_from_query(self, query_data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the user options of a link to the spawn page; see `run_options_from_form`."""
        try:
            ours, rest = split_form(query_data)
            theirs = await maybe_future(super().options_from_query(rest))
            return self._vgpu_checked({**theirs, **ours})
        except VGPUError as error:
            raise refusal(error) from error

    async def _run_apply_user_options(self, user_options: Mapping[str, Any]) -> None:
        """Hand the spawner its own options only; its hook may refuse what it does not know."""
        self._vgpu_added = Stopwatch()
        with self._vgpu_added.running():
            self._vgpu_take_over_quota()
            self._vgpu_profile()
        theirs = {key: value for key, value in self.user_options.items() if key != KEY}
        await maybe_future(super()._run_apply_user_options(theirs))

    def _vgpu_checked(self, user_options: dict[str, Any]) -> dict[str, Any]:
        profile_of(user_options, self._vgpu_offered(), self._vgpu_others_allowed())
        return user_options

    def _vgpu_profile(self) -> Profile:
        """Return the profile that this spawn asks for, on whatever path it came.

        Raises:
            web.HTTPError: It asks for something that is not understood.
        """
        try:
            return profile_of(self.user_options, self._vgpu_offered(), self._vgpu_others_allowed())
        except VGPUError as error:
            raise self._vgpu_refusal(error) from error

    def _vgpu_take_over_quota(self) -> None:
        """Note whether an administrator lifted the quotas: for this start only, while JupyterHub keeps options."""
        given: dict[str, Any] = dict(self.user_options)
        is_admin = "admin:servers" in getattr(self.handler, "expanded_scopes", ())
        if OVER_QUOTA_KEY in given:
            self.user_options = {key: value for key, value in given.items() if key != OVER_QUOTA_KEY}
            self.orm_spawner.user_options = dict(self.user_options)
        try:
            _, self._vgpu_over_quota = split_over_quota(given, is_admin)
            who = getattr(getattr(self.handler, "current_user", None), "name", "an administrator")
            self._vgpu_lifted_by = who if self._vgpu_over_quota else ""
        except VGPUError as error:
            raise self._vgpu_refusal(error) from error

    def _vgpu_offered(self) -> list[Profile]:
        return self._vgpu_settings().offered_to(self._vgpu_groups)

    @property
    def _vgpu_groups(self) -> list[str]:
        return [group.name for group in self.user.groups]

    def _vgpu_others_allowed(self) -> bool:
        """Whether the wrapped spawner, or the admin, declares user options besides ours."""
        # JupyterHub's own reader takes anything. KubeSpawner's reads what its `profile_list` offers, which is a form.
        readers_of_nothing = ("_passthrough_options_from_form", "_options_from_form")
        reads_form = getattr(self.options_from_form, "__name__", "") not in readers_of_nothing
        return bool(self.options_form or self.apply_user_options or reads_form)

    # Start and end

    def start(self) -> Any:
        """Wait for a slice if none is free, claim it, and start the server in it.

        Not a coroutine function itself: JupyterHub reads `start_timeout` after this has returned, and the time in the
        queue must not count against it.

        Raises:
            web.HTTPError: No slice: which, why, and what would work. Nothing was started.
        """
        start_timeout: int = self.start_timeout
        queue_timeout_seconds = self._vgpu_settings().room.timeout_seconds
        if queue_timeout_seconds:
            self.start_timeout = int(start_timeout + queue_timeout_seconds + _QUEUE_MARGIN_SECONDS)
        return self._vgpu_start(start_timeout)

    async def _vgpu_start(self, start_timeout: int) -> Any:
        self._vgpu_is_starting = self._vgpu_is_claiming = self._vgpu_is_known = True
        self._vgpu_how_it_ended = "its start did not come to an end"
        self.vgpu_stopped_because = "the server was stopped"
        try:
            with self._vgpu_added.running():
                profile = self._vgpu_profile()
                waited_seconds = await (self._vgpu_claim(profile) if profile.devices else self._vgpu_go_without())
            self._vgpu_is_claiming = False
            address = await asyncio.wait_for(maybe_future(super().start()), start_timeout)
            self._vgpu_how_it_ended = "the server ended by itself"
            self._vgpu_tell_times(profile, waited_seconds)
            return address
        finally:
            self.start_timeout = start_timeout
            self._vgpu_is_starting = self._vgpu_is_claiming = False

    async def _vgpu_claim(self, profile: Profile) -> float:
        """Claim a slice, and return for how many seconds none could be had."""
        try:
            uid = self.vgpu_injector.uid(self)
            room = self._vgpu_settings().room
            turn = await room.claim(self._vgpu_key, uid, profile, self._vgpu_groups, self._vgpu_over_quota)
            granted = turn.granted
            self.vgpu_claim_id = granted.claim["claim"]
            self.vgpu_injector.environment(granted.edits, {})  # refuse before anything is started
            self._vgpu_edits = granted.edits
            if granted.node and hasattr(self.vgpu_injector, "place"):
                self.vgpu_injector.place(self, granted.node)
            if self._vgpu_lifted_by:
                why, by = "the quotas did not count for this start", self._vgpu_lifted_by
                book = self._vgpu_settings().desk.book
                await book.remember(self._vgpu_key, "over-quota", why, by, self.vgpu_claim_id)
            self._vgpu_added.late_seconds += turn.late_seconds
            return turn.waited_seconds
        except VGPUError as error:
            why = f"{profile.name}: {error.reason}: {error}"
            await self._vgpu_settings().desk.book.remember(self._vgpu_key, "refused", why)
            raise self._vgpu_refusal(error) from error

    async def _vgpu_go_without(self) -> float:
        """Start a server without a GPU: it holds no slice, and its processes are told that they have none."""
        try:
            await self._vgpu_settings().desk.give_back(self._vgpu_key, "", "superseded by a new start")
            edits = Edits(preload=[str(present(INTERCEPT_LIBRARY))])
            self.vgpu_injector.environment(edits, {})
            self._vgpu_edits = edits
            return 0.0
        except VGPUError as error:
            raise self._vgpu_refusal(error) from error

    def _vgpu_tell_times(self, profile: Profile, waited_seconds: float) -> None:
        late_seconds = self._vgpu_added.late_seconds
        added_seconds = self._vgpu_added.seconds - waited_seconds - late_seconds
        ADDED.observe(added_seconds)
        LATE.observe(late_seconds)
        if profile.devices:
            WAITED.observe(waited_seconds)
        tenant = tenant_name(*self._vgpu_key)
        self.log.info(
            "%s starts: %.1f ms added by us, %.1f ms late as the hub was busy, %.1f s waited",
            *(tenant, 1000 * added_seconds, 1000 * late_seconds, waited_seconds),
        )

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Say where the server stands in the queue while it waits, then what the spawner says."""
        shown = ""
        while (position := self._vgpu_settings().room.position(self._vgpu_key)) is not None:
            if (message := sentence(position)) != shown:
                shown = message
                html = f"<span>{escape(message)}</span>{cancel_form(self.hub.base_url, self.user.name, self.name)}"
                yield {"progress": 5, "message": message, "html_message": html}
            await asyncio.sleep(_PROGRESS_SECONDS)
        async for event in super().progress():
            yield event

    def get_env(self) -> dict[str, str]:
        """Return the server's environment, with the claim's edits while one is held."""
        environment: dict[str, str] = super().get_env()
        if self._vgpu_edits is None:
            return environment
        with self._vgpu_added.running():
            return self.vgpu_injector.environment(self._vgpu_edits, environment)

    async def poll(self) -> int | None:
        """Return the server's exit status, `None` while it runs; release its slice when it is gone."""
        if self._vgpu_is_claiming:
            return None  # nothing has been started, and nothing has failed yet
        await self._vgpu_find_lost()
        claim_id = self.vgpu_claim_id  # polling a dead server clears its state
        status: int | None = await maybe_future(super().poll())
        if status is not None and not self._vgpu_is_starting and not self._vgpu_is_stopping:
            await self._vgpu_give_back(claim_id, self._vgpu_how_it_ended)
        return status

    async def _vgpu_find_lost(self) -> None:
        """Take up a server that was started by a hub which was killed before it had written that down.

        JupyterHub would take it for not started, and its slice would be given to somebody else while it works in it.
        """
        if self._vgpu_is_known or self._vgpu_is_starting or self.server is None or not self.has_trait("pid"):
            return
        self._vgpu_is_known = True
        if self.pid:
            return
        try:
            uid = self.vgpu_injector.uid(self)
        except VGPUError:
            return  # who is no user of this system runs nothing
        db = self.user.db
        for lost in await asyncio.to_thread(servers_left, uid, self.server.base_url):
            token = orm.APIToken.find(db, lost.token)
            if token is None or token.user is not self.user.orm_user:
                continue  # of an earlier start, or of another hub
            self.pid, self.server.port = lost.pid, lost.port
            self.vgpu_claim_id = await self._vgpu_settings().desk.claim_of(self._vgpu_key)
            self.orm_spawner.state = self.get_state()
            db.commit()
            tenant = tenant_name(*self._vgpu_key)
            self.log.warning("%s runs as process %d: a hub that was killed had started it", tenant, lost.pid)
            return

    async def stop(self, now: bool = False) -> None:
        """Stop the server, then release its slice: its memory is free only when its processes are gone."""
        claim_id = self.vgpu_claim_id
        self._vgpu_is_stopping = True
        try:
            await maybe_future(super().stop(now=now))
        finally:
            self._vgpu_is_stopping = False
        await self._vgpu_give_back(claim_id, self.vgpu_stopped_because)

    async def run_post_stop_hook(self) -> None:
        """Run the admin's hook, after the slice has been released whatever happened before."""
        await self._vgpu_give_back(self.vgpu_claim_id, self._vgpu_how_it_ended)
        try:
            await maybe_future(super().run_post_stop_hook())
        finally:
            settings, self._vgpu_uncounted_in = self._vgpu_uncounted_in, None
            if settings is not None:
                leave_uncounted(settings)

    async def _vgpu_give_back(self, claim_id: str, because: str) -> None:
        await self._vgpu_settings().desk.give_back(self._vgpu_key, claim_id, because)
        if claim_id == self.vgpu_claim_id:
            self.vgpu_claim_id = ""
            self._vgpu_edits = None

    # State over restarts of the hub

    def get_state(self) -> dict[str, Any]:
        """Return the spawner's state and the claim's id; the claim's secret is kept nowhere."""
        state: dict[str, Any] = super().get_state()
        if self.vgpu_claim_id:
            state[startup.STATE_KEY] = self.vgpu_claim_id
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up the spawner's state and the claim's id."""
        super().load_state(state)
        self.vgpu_claim_id = state.get(startup.STATE_KEY, "")

    def clear_state(self) -> None:
        """Forget the server; a claim not yet released stays in the ledger, by user and server."""
        super().clear_state()
        self.vgpu_claim_id = ""
        self._vgpu_edits = None

    # Small print

    @property
    def _vgpu_key(self) -> ServerKey:
        return (self.user.name, self.name)

    def _vgpu_settings(self) -> VGPUHub:
        if VGPUHub.initialized():
            return VGPUHub.instance()
        return VGPUHub.start(self)  # in a program that embeds the hub and was not seen starting

    def _vgpu_refusal(self, error: VGPUError) -> Exception:
        """Return what to raise for `error`, and remember that it is no failure of the hub."""
        if self.handler is not None:
            self._vgpu_uncounted_in = self.handler.settings
        return refusal(error)


class VGPULocalProcessSpawner(VGPUSpawnerMixin, LocalProcessSpawner):  # type: ignore[misc]
    """Servers as processes of system users on this node, each in its slice of a GPU."""

    vgpu_injector = LocalInjector()


class VGPUSimpleLocalProcessSpawner(VGPUSpawnerMixin, SimpleLocalProcessSpawner):  # type: ignore[misc]
    """Servers as processes of the hub's own user, each in its slice of a GPU: for trials, without isolation."""

    vgpu_injector = LocalInjector(as_hub_user=True)
