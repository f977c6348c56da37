"""Each endpoint is for whoever may use the server, and for nobody else."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from jupyter_server.base.handlers import APIHandler
from tornado.web import RequestHandler

import jupyter_vgpu.server
from jupyter_vgpu.server.handlers import ENDPOINTS

Server = Any
METHODS = {method.lower() for method in RequestHandler.SUPPORTED_METHODS}
# Every method that an endpoint answers to by itself, as ("GET", "jupyter-vgpu/slice").
REQUESTS = [(method.upper(), path) for path, handler in ENDPOINTS for method in sorted(METHODS & set(vars(handler)))]

DENY_ALL = """
from jupyter_server.auth import Authorizer

class DenyVGPU(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource not in ("jupyter-vgpu", "kernels")

c.ServerApp.authorizer_class = DenyVGPU
"""


def handlers_in_the_package() -> set[type[RequestHandler]]:
    """Return every class of the package that answers to an HTTP method of its own."""
    found = set()
    for module_info in pkgutil.walk_packages(jupyter_vgpu.server.__path__, "jupyter_vgpu.server."):
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            is_handler = isinstance(value, type) and issubclass(value, RequestHandler)
            if is_handler and value.__module__ == module.__name__ and METHODS & set(vars(value)):
                found.add(value)
    return found


def answer_to(client: httpx.Client, method: str, path: str, **options: Any) -> tuple[int, str]:
    """Return status and text of the answer; no text of one that is not a refusal, for that may have no end."""
    with client.stream(method, path, **options) as answer:
        return answer.status_code, "" if answer.is_success else answer.read().decode()


def test_every_handler_of_the_package_is_among_the_endpoints() -> None:
    assert handlers_in_the_package() == {handler for _, handler in ENDPOINTS}
    assert all(issubclass(handler, APIHandler) for handler in handlers_in_the_package())


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_a_stranger_is_refused(server_without_slice: Server, method: str, path: str) -> None:
    with server_without_slice.client(with_token=False) as stranger:
        status, text = answer_to(stranger, method, path)

    assert status == 403
    assert "since_at" not in text


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_a_page_of_another_site_is_refused(server_without_slice: Server, method: str, path: str) -> None:
    with server_without_slice.client(with_token=False) as browser:
        browser.get("login", params={"token": server_without_slice.token})
        assert browser.get("jupyter-vgpu/slice").status_code == 200

        status, _ = answer_to(browser, method, path, headers={"Origin": "https://elsewhere.example"})

    # Which of its two checks comes first, of the origin or against forged requests, is the server's affair.
    assert status in (403, 404)


def test_a_user_whom_the_authorizer_denies_is_refused(start_server: Callable[..., Server]) -> None:
    server = start_server(config=DENY_ALL)

    with server.client() as client:
        statuses = {request: answer_to(client, *request)[0] for request in REQUESTS}

    assert statuses == dict.fromkeys(REQUESTS, 403)


def test_the_base_url_is_before_every_path(server: Server) -> None:
    outside = server.url.removesuffix("a/b/")
    headers = {"Authorization": f"token {server.token}"}

    assert server.url.endswith("/a/b/")
    for path, _ in ENDPOINTS:
        assert httpx.get(outside + path, headers=headers, timeout=60).status_code == 404
    assert server.get("jupyter-vgpu/slice")["state"] == "ok"
