"""The seeded farm behind a real socket, and a real Chromium to look at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright
from sqlalchemy import update

from farm.store import tables as t
from farm.store.bus import touch
from farm.store.db import Database
from farm.store.people import Scope, TokenKind
from tests.dashboard.seed import seeded
from tests.served import Served, serve

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
#: A loaded machine makes a page slower, not red.
PATIENCE_MS = 45_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")  # its event loop runs in this thread: other modules' tests want their own
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "no chromium on this machine: `python tools/setup.py --with-tests` says how to get one"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@dataclass(slots=True)
class Site:
    """A served farm and the ways that tests look at it and change it."""

    served: Served
    browser: Browser
    troubles: list[str] = field(default_factory=list)
    _contexts: list[BrowserContext] = field(default_factory=list)

    @property
    def db(self) -> Database:
        return self.served.farm.db

    @property
    def state(self) -> Path:
        return self.served.settings.state

    def context(self, *, scopes: tuple[Scope, ...] | None = (Scope.ADMIN,), **options: Any) -> BrowserContext:
        """A browser that is logged in with these scopes; None: that nobody has logged in."""
        context = self.browser.new_context(base_url=self.served.origin, **{"viewport": DESK, **options})
        context.set_default_timeout(PATIENCE_MS)
        context.on("console", lambda m: self._note(m.text, m.type))
        context.on("weberror", lambda e: self.troubles.append(f"script error: {e.error}"))
        if scopes is not None:
            secret = self.served.new_token(*scopes, kind=TokenKind.SESSION)
            context.add_cookies([{"name": "farm_session", "value": secret, "url": self.served.origin}])
        self._contexts.append(context)
        return context

    def page(self, path: str = "/", **options: Any) -> Page:
        page = self.context(**options).new_page()
        page.goto(path)
        return page

    def _note(self, text: str, kind: str) -> None:
        """Whatever the console complains of (a refused script, a missing file) is a trouble.

        Not so: the answers 4xx that a test asks for, and a preview that htmx gave up for a newer one.
        """
        meant = ("status of 4", "net::ERR_INTERNET_DISCONNECTED", "htmx:sendAbort", "htmx:afterRequest")
        if kind in ("error", "warning") and not any(part in text for part in meant):
            self.troubles.append(f"console: {text}")

    def change(self, topic: str, ref: object, statement: Any, **scope: int) -> None:
        """Write as the farm does: the row, and in the same transaction that it changed."""
        with self.db.session() as session:
            session.execute(statement)
            touch(session, topic, ref, at=datetime.now(UTC), **scope)

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self._contexts.clear()


@contextmanager
def site_of(state: Path, browser: Browser, *, empty: bool = False) -> Iterator[Site]:
    state.mkdir(parents=True, exist_ok=True)
    if not empty:
        db = seeded(state / "farm.sqlite")
        with db.session() as session:  # nobody sends heartbeats here: the devices stay seen while the tests last
            session.execute(update(t.Device).values(seen_at=datetime.now(UTC) + timedelta(days=1)))
            session.execute(update(t.Host).values(seen_at=datetime.now(UTC) + timedelta(days=1)))
        db.close()
    with serve(state) as served:
        yield Site(served, browser)


@pytest.fixture(scope="module")
def _shared_site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    with site_of(tmp_path_factory.mktemp("site"), browser) as site:
        yield site


@pytest.fixture
def site(_shared_site: Site) -> Iterator[Site]:
    """The module's seeded farm; no test may leave a complaint of the browser behind."""
    _shared_site.troubles.clear()
    yield _shared_site
    _shared_site.close()
    assert not _shared_site.troubles, "\n".join(_shared_site.troubles)


@pytest.fixture
def own_site(tmp_path: Path, browser: Browser) -> Iterator[Site]:
    """A seeded farm for one test that changes it much."""
    with site_of(tmp_path / "state", browser) as site:
        yield site
        site.close()
        assert not site.troubles, "\n".join(site.troubles)


@pytest.fixture
def empty_site(tmp_path: Path, browser: Browser) -> Iterator[Site]:
    with site_of(tmp_path / "state", browser, empty=True) as site:
        yield site
        site.close()
        assert not site.troubles, "\n".join(site.troubles)
