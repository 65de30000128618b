"""The farm put together: database, work, API and pages in one application. The only place that knows all rooms.

`build` makes the application; its lifespan starts the work (agent, planner, workflows) and stops it. The process that
serves it (what `farm up` starts) is `farm.server`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI, Request, Response
from sqlalchemy import select

import dashboard.context
import dashboard.errors
import dashboard.pages
import dashboard.render
from farm.api import (
    attempts,
    audit,
    bundles,
    channel,
    clusters,
    deployments,
    devices,
    errors,
    events,
    health,
    holds,
    jobs,
    leases,
    people,
    reservations,
    runs,
    schema,
    sessions,
    teams,
    tokens,
)
from farm.api.auth import Auth, default_deny, needs
from farm.api.context import Context, noted, principal
from farm.api.headers import SafeHeaders
from farm.api.hot import Hot
from farm.api.limits import BodyLimit
from farm.api.live import Live
from farm.api.live_logs import LiveLogs
from farm.api.throttle import Throttle
from farm.api.waiters import Waiters
from farm.domain.manifests import ManifestError
from farm.presence import ServerWork
from farm.settings import Settings, choose_adb_port
from farm.store import people as store
from farm.store import teams as store_teams
from farm.store.artifacts import ArtifactStore
from farm.store.bundles import import_pack
from farm.store.db import Database
from farm.store.people import Principal, Scope, TokenKind
from farm.store.tables import Lease
from farm.work import queue
from farm.work.host import HostWork
from farm.work.settings import WorkSettings, from_environment

log = logging.getLogger("farm.app")

ROOT = Path(__file__).resolve().parent.parent
BUILTIN_SUITES = ROOT / "suites"
ADMIN = "admin"


@dataclass(slots=True)
class FirstStart:
    """What the first start made and must say once."""

    admin_token: str | None = None


@dataclass(frozen=True, slots=True)
class Farm:
    """The application and the parts that its process looks after."""

    app: FastAPI
    db: Database
    first: FirstStart = field(default_factory=FirstStart)


def build(settings: Settings, *, work: bool = True, agent: bool = True) -> Farm:
    """Put the farm of `settings.state` together.

    `agent` False: a server among many processes, which plans and touches no device. `work` False: API and pages alone.
    """
    settings.state.mkdir(parents=True, exist_ok=True)
    settings.state.chmod(0o700)
    db = Database(settings.database)
    artifacts = ArtifactStore(settings.artifacts)
    secure = settings.public_url.startswith("https://")
    context = Context(db, artifacts, settings.state, secure_cookies=secure)
    first = FirstStart()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.stopping = asyncio.Event()
        await asyncio.to_thread(_prepare, settings, context, first)
        host = _work(settings, context, agent) if work else None
        if host is not None:
            await asyncio.to_thread(host.start)
        try:
            yield
        finally:
            app.state.stopping.set()
            app.state.channels.stopping = True
            if host is not None:
                await asyncio.to_thread(_stop, host, db)
            await asyncio.to_thread(db.close)

    app = FastAPI(
        title="Device farm",
        version=version("device-farm"),
        description="Queue runs of on-device AI engines on real devices, watch them, read their results. Every route "
        "needs a bearer token (`Authorization: Bearer …`) or a browser's session.",
        docs_url=None,  # its page comes from a foreign host; the schema is at /openapi.json
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(default_deny)],
    )
    app.state.farm = context
    app.state.streams = set()
    app.state.live = Live(db.bus, db.changes, db.newest_known, lambda: app.state.stopping)
    app.state.waiters = Waiters(db.bus, lambda: app.state.stopping)
    app.state.channels = channel.Channels(context)
    app.state.logs = LiveLogs(context, app.state.channels)
    _add_routes(app, context, settings)
    _guard(app, context)
    return Farm(app, db, first)


def _work(settings: Settings, context: Context, agent: bool) -> HostWork | ServerWork:
    if not agent:
        return ServerWork(context.db, from_environment(WorkSettings()))
    if context.db.is_sqlite:
        context.db.here = settings.host_name
    chosen = from_environment(WorkSettings(host=settings.host_name, adb_port=choose_adb_port(settings)))
    return HostWork(context.db, context.artifacts, settings.state, chosen, settings.inventory)


def _stop(host: HostWork | ServerWork, db: Database) -> None:
    """Runners live on, and with them the adb server that they use; without any it ends too."""
    if isinstance(host, ServerWork):
        host.stop()
        return
    with db.read() as session:
        idle = session.scalar(select(Lease.id).where(Lease.ended_at.is_(None)).limit(1)) is None
    host.stop(adb_server=idle)


def _add_routes(app: FastAPI, context: Context, settings: Settings) -> None:
    for module in (
        devices,
        runs,
        jobs,
        holds,
        reservations,
        leases,
        attempts,
        bundles,
        clusters,
        deployments,
        events,
        people,
        tokens,
        teams,
        audit,
        health,
        channel,
    ):
        app.include_router(module.router, responses=schema.ERRORS)
    throttle = Throttle()
    app.include_router(sessions.router(throttle), responses=schema.ERRORS)
    if settings.oidc is not None:
        from farm.api import oidc  # its libraries are paid for where it is used

        app.include_router(oidc.router(settings.oidc, throttle, settings.public_url), responses=schema.ERRORS)
    schema.describe(app)
    page_context = _page_context(app, context, settings)
    app.include_router(dashboard.pages.router(page_context), include_in_schema=False)
    errors.install(app, _error_page(page_context))


def _guard(app: FastAPI, context: Context) -> None:
    """What every request passes, outermost last."""
    app.add_middleware(BodyLimit)
    app.add_middleware(Auth, context=lambda: context)
    app.add_middleware(
        Hot,
        context=context,
        routes=(reservations.HOT, leases.HOT),
        waits=(reservations.HOT_SHOW,),
        waiters=app.state.waiters,
    )
    app.add_middleware(errors.Faults)
    app.add_middleware(SafeHeaders)


def _page_context(app: FastAPI, context: Context, settings: Settings) -> dashboard.context.Context:
    def viewer(request: Request) -> dashboard.context.Viewer | None:
        who: Principal | None = getattr(request.state, "principal", None)
        if who is None:
            return None
        scopes = frozenset(scope.value for scope in Scope if who.may(scope))
        return dashboard.context.Viewer(who.name, who.team, scopes)

    def log(attempt_id: int, which: str, offset: int, limit: int) -> dashboard.context.LogChunk | None:
        piece = app.state.logs.read(attempt_id, which, offset, limit)
        if piece is None:
            return None
        return dashboard.context.LogChunk(piece.text, piece.offset, piece.next_offset, piece.live)

    return dashboard.context.Context(
        context.db,
        viewer,
        log,
        context.now,
        app.version,
        needs=needs,
        principal=principal,
        note=noted,
        provider=settings.oidc.name if settings.oidc is not None else None,
    )


def _error_page(context: dashboard.context.Context) -> errors.ErrorPage:
    """Errors that no page has met (nothing there, no right to be there) look like a page all the same."""
    render = dashboard.render.Renderer(context, dashboard.render.Static())

    def page(request: Request, status: int, _code: str, message: str, _detail: object) -> Response:
        what = {404: "There is no such page", 403: "Not with this token"}.get(status, "That did not work")
        error = dashboard.errors.PageError(status, what, message)
        return dashboard.pages.error_page(render, request, error, context.viewer(request))

    return page


def _prepare(settings: Settings, context: Context, first: FirstStart) -> None:
    """Schema, people, the local token, the built-in suites: all of it safe to repeat, one server after the other."""
    context.db.migrate()
    queue.prepare(context.db)
    with context.db.alone("first start"):
        _prepare_rows(settings, context, first)


def _prepare_rows(settings: Settings, context: Context, first: FirstStart) -> None:
    now = context.now()
    with context.db.session() as session:
        store_teams.ensure(session, store_teams.DEFAULT, now)
        admin = store.ensure_user(session, ADMIN, now, role="admin")
        if not store.has_tokens(session, admin.id):
            first.admin_token, _ = store.add_token(session, admin.id, "first start", [Scope.ADMIN], now)
        local = _read_token(settings.token_file)
        if local is None or store.identify(session, local, now, kinds=(TokenKind.LOCAL,)) is None:
            secret, _ = store.add_token(
                session, admin.id, "command line of this machine", list(Scope), now, kind=TokenKind.LOCAL
            )
            _write_token(settings.token_file, secret)
        store.prune(session, now)
    try:
        with context.db.session() as session:
            import_pack(session, context.artifacts, BUILTIN_SUITES, now, None)
    except ManifestError as wrong:  # the farm serves all the same: the last good pack, and what teams send
        log.error("the built-in suites in %s cannot be used: %s", BUILTIN_SUITES, wrong)


def _read_token(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _write_token(path: Path, secret: str) -> None:
    """Readable by its owner alone, from the first moment on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(secret + "\n")
