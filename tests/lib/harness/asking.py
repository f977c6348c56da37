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
    return httpx.Client(verify=_TRUSTS_NOBODY, **options)


def get(url: str, **options: Any) -> httpx.Response:
    """Ask once, of a server that speaks plain HTTP; `options` are `httpx.get`'s."""
    return httpx.get(url, verify=_TRUSTS_NOBODY, **options)
