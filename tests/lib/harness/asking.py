"""Asking servers on loopback, which have no certificates.

A client of httpx reads all that the machine trusts when it is made: 20 ms of a processor, and who waits asks often.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpx

_TRUSTS_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def client(**options: Any) -> httpx.Client:
    """Return a client of a server that speaks plain HTTP; `options` are `httpx.Client`'s."""
    return httpx.Client(verify=_TRUSTS_NOBODY, event_hooks={"request": [_drop_type_of_nothing]}, **options)


def _drop_type_of_nothing(request: httpx.Request) -> None:
    """Where a form leads on, browsers ask without its Content-Type, httpx with it: Tornado then looks for a form."""
    if request.method == "GET":
        request.headers.pop("Content-Type", None)


def get(url: str, **options: Any) -> httpx.Response:
    """Ask once, of a server that speaks plain HTTP; `options` are `httpx.get`'s."""
    return httpx.get(url, verify=_TRUSTS_NOBODY, **options)
