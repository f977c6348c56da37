"""What every handler of the service shares: nobody gets past `prepare` whom the hub does not know and let in."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from jupyterhub.services.auth import HubOAuthenticated
from tornado import web

from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.service.lookout import Lookout
from jupyter_vgpu.service.revocation import Revoker
from jupyter_vgpu.service.rights import Viewer

log = logging.getLogger(__name__)

_READ_ONLY = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


class KnownHandler(HubOAuthenticated, web.RequestHandler):  # type: ignore[misc]  # jupyterhub is untyped
    """Answers those whom the hub lets in, in a browser or by token."""

    # A browser that is not logged in is sent to the hub; what no person opens is refused.
    sends_to_log_in = True

    @property
    def lookout(self) -> Lookout:
        """Agent and ledger."""
        lookout: Lookout = self.settings["lookout"]
        return lookout

    @property
    def revoker(self) -> Revoker:
        """Takes slices away."""
        revoker: Revoker = self.settings["revoker"]
        return revoker

    @property
    def viewer(self) -> Viewer:
        """Who asks."""
        return viewer_of(self.current_user)

    def set_default_headers(self) -> None:
        """Keep answers out of caches and frames, and scripts that are not ours out of answers."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")

    async def prepare(self) -> None:
        """Refuse whom the hub does not know or let in, and requests that another site made a browser send.

        Raises:
            web.HTTPError: 403.
        """
        await self.hub_auth.get_user(self, sync=False)  # kept for `current_user`, which cannot wait
        if self.current_user is None:
            if self.sends_to_log_in and self.request.method in ("GET", "HEAD"):
                self.redirect(self.get_login_url())
                return
            raise web.HTTPError(403, "log in, or send a token of the hub as `Authorization: token …`")
        if self.request.method not in _READ_ONLY:
            # Not left to tornado, which would ask before it is known whether a token or a cookie speaks.
            self.check_xsrf_cookie()

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log what is the service's own fault; a refusal is the caller's business."""
        if not isinstance(value, (VGPUError, web.HTTPError)):
            log.error("%s %s failed", self.request.method, self.request.path, exc_info=(typ, value, tb))

    def reason_and_message(self, status_code: int, exc_info: Any) -> tuple[int, str, str]:
        """Return status, reason and message of an error, for those who asked."""
        error = exc_info[1] if exc_info else None
        if isinstance(error, VGPUError):
            return error.http_status, error.reason, str(error)
        if isinstance(error, web.HTTPError):
            reasons = {403: "not-authorized", 404: "not-found", 405: "not-allowed"}
            return status_code, reasons.get(status_code, "bad-request"), error.log_message or error.reason or "refused"
        return status_code, "internal", "the service failed to answer; its log says why"


class Page(KnownHandler):
    """Answers with HTML."""

    def show(self, template: str, **values: Any) -> None:
        """Answer with a template; everything in it is escaped."""
        base, hub = self.hub_auth.base_url, f"{self.hub_auth.hub_host}{self.hub_auth.hub_prefix}"
        self.finish(self.render_string(template, base=base, hub=hub, viewer=self.viewer, **values))

    def form(self, *fields: str) -> dict[str, str]:
        """Return what a form sent, as it was sent.

        Raises:
            BadValueError: It has other fields than `fields`.
        """
        for key in self.request.arguments:
            if key not in (*fields, "_xsrf"):
                raise BadValueError(key, self.get_argument(key), f"only the fields {', '.join(fields)} are")
        # Not by `get_argument`: it drops the control characters that are to be refused.
        return {
            key: self.request.arguments[key][-1].decode(errors="replace")
            for key in fields
            if key in self.request.arguments
        }

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Say what is wrong, also to those who may see nothing else."""
        status_code, _, message = self.reason_and_message(status_code, kwargs.get("exc_info"))
        self.set_status(status_code)
        self.finish(self.render_string("error.html", base=self.hub_auth.base_url, message=message))


class Api(KnownHandler):
    """Answers with JSON."""

    sends_to_log_in = False

    def send(self, content: Mapping[str, Any]) -> None:
        """Answer."""
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(content))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with the reason and the message of what went wrong."""
        status_code, reason, message = self.reason_and_message(status_code, kwargs.get("exc_info"))
        self.set_status(status_code)
        self.send({"error": reason, "message": message})

    def body(self, keys: tuple[str, ...]) -> dict[str, Any]:
        """Return the JSON object that was sent; empty when nothing was.

        Raises:
            BadValueError: It is none, or has other keys than `keys`.
        """
        if not self.request.body:
            return {}
        try:
            body = json.loads(self.request.body)
        except (ValueError, RecursionError) as error:
            raise BadValueError("body", self.request.body[:40].decode(errors="replace"), "a JSON object is") from error
        if not isinstance(body, dict):
            raise BadValueError("body", body, "a JSON object is")
        for key in body:
            if key not in keys:
                raise BadValueError(key, body[key], f"only the keys {', '.join(keys)} are")
        return body


def viewer_of(model: Mapping[str, Any]) -> Viewer:
    """Return who a user or service of the hub is."""
    return Viewer(str(model["name"]), str(model.get("kind", "user")), frozenset(model["scopes"]))
