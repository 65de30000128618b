"""The real application for tests of API and command line, behind uvicorn and a real socket.

No device is touched (`work=False`): database, artifacts, auth, routes and pages are the product's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.routing import BaseRoute, WebSocketRoute

from farm.app import Farm, build
from farm.oidc_settings import Oidc
from farm.settings import Settings, load
from farm.store import people
from farm.store.people import Scope, TokenKind
from tests.waiting import eventually


@dataclass(slots=True)
class Served:
    """A farm and a way to ask it. `token` is the admin's."""

    farm: Farm
    settings: Settings
    token: str
    client: httpx.Client

    @property
    def origin(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def new_token(self, *scopes: Scope, kind: TokenKind = TokenKind.TOKEN) -> str:
        """The secret of a new token with exactly these scopes."""
        now = self.farm.db.now()
        with self.farm.db.session() as session:
            user = people.ensure_user(session, "tester", now, role="admin")  # the scopes alone decide
            return people.add_token(session, user.id, "test", scopes, now, kind=kind)[0]

    def ask(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        """A request with the admin's token, or another one."""
        headers = {"Authorization": f"Bearer {token or self.token}", **more.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **more)


@contextmanager
def serve(state: Path, token: str | None = None, oidc: Oidc | None = None) -> Iterator[Served]:
    """The application on a free port of 127.0.0.1, with `server.json` and `cli-token` as in real life.

    `token`: the admin's, for a state folder that has had its first start. `oidc`: whom people log in through.
    """
    from farm.server import _listen, _Server

    settings = replace(load({}, state=state, port=0), oidc=oidc)
    farm = build(settings, work=False)
    listener = _listen(settings)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = _Server(uvicorn.Config(farm.app, log_config=None, timeout_graceful_shutdown=3), settings, farm, url)
    settings.server_file.unlink(missing_ok=True)  # of this folder's last life: it says nothing of this one
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        eventually(settings.server_file.exists, what="the server to say where it is")
        admin = token or farm.first.admin_token
        assert admin is not None
        with httpx.Client(base_url=url, timeout=60) as client:
            yield Served(farm, settings, admin, client)
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        assert not thread.is_alive(), "the server did not end"


@dataclass(frozen=True, slots=True)
class Door:
    """One way in: a method ("WEBSOCKET" for a socket) and a path of a route."""

    method: str
    path: str
    route: BaseRoute

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def doors(routes: list[BaseRoute]) -> list[Door]:
    """Every way in, also those of included routers."""
    found: list[Door] = []
    for route in routes:
        inner = getattr(route, "original_router", None) or getattr(route, "app", None)
        path = getattr(route, "path", "")
        if getattr(route, "methods", None):
            found += [Door(method, path, route) for method in sorted(route.methods)]  # type: ignore[attr-defined]
        elif isinstance(route, WebSocketRoute):
            found.append(Door("WEBSOCKET", path, route))
        elif inner is not None and hasattr(inner, "routes"):
            found += doors(list(inner.routes))
        elif path:
            found.append(Door("GET", f"{path}/x", route))  # a mount
    return found
