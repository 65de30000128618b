"""The main job as a person does it: queue a run in the page and watch it finish, on a real farm.

Nothing is stood in for: the server's own process, a virtual device under the stock adb, the reference engine, the
built-in smoke suite.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from engine.package import package
from farm.adb.server import AdbServer
from farm.store import bundles
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database, sqlite_url
from tests import leftovers
from tests.dashboard.conftest import DESK, ROOT
from tests.devices import _free_port
from tests.waiting import eventually
from virtual import fleet

#: A device, an engine and a browser on two loaded cores.
LONG_S = 240.0
NAME = "husky-v1"


class RealFarm:
    """A farm as `farm up` starts it, with one virtual device and one bundle."""

    def __init__(self) -> None:
        self.state = leftovers.folder("fd-")
        self.adb_port = _free_port()
        self.log = self.state / "server.out"
        self.process: subprocess.Popen[bytes] | None = None

    def prepare(self, bundle: Path) -> None:
        db = Database(sqlite_url(self.state / "farm.sqlite"))
        db.migrate()
        with db.session() as session:
            artifacts = ArtifactStore(self.state / "artifacts")
            bundles.import_bundle(session, artifacts, bundle, datetime.now(UTC), "test")
        db.close()
        fleet.start("pixel-8-pro", "virtual-pixel-8-pro", self.state / "virtual", port=_free_port(), data_mb=256)

    def start(self) -> str:
        """Returns its URL once it answers."""
        environment = {**os.environ, "FARM_ADB_PORT": str(self.adb_port)}
        command = [sys.executable, "-m", "farm.server", "--state", str(self.state), "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--inventory", str(ROOT / "devices.yaml")],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        told = eventually(self._announced, LONG_S, what=f"the farm to say where it is ({self.log})")
        assert told is not None
        return str(told["url"])

    def _announced(self) -> dict[str, object] | None:
        assert self.process is not None
        assert self.process.poll() is None, self.tail()
        file = self.state / "server.json"
        return dict(json.loads(file.read_text())) if file.exists() else None

    def login_link(self, url: str) -> str:
        token = (self.state / "cli-token").read_text().strip()
        answer = httpx.post(f"{url}/api/login-links", headers={"Authorization": f"Bearer {token}"}, timeout=60)
        return url + str(answer.raise_for_status().json()["path"])

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else "it was not started"

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)
        fleet.stop_all(self.state / "virtual")
        with suppress(Exception):
            AdbServer(self.adb_port, self.state / "adb").stop()
        shutil.rmtree(self.state, ignore_errors=True)


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """A logged-in page of a real farm whose device is being got ready."""
    bundle = tmp_path / "bundle"
    package(bundle, 2, lambda _text: None)
    farm = RealFarm()
    context = browser.new_context(viewport={"width": DESK["width"], "height": DESK["height"]})
    try:
        farm.prepare(bundle)
        url = farm.start()
        context.set_default_timeout(LONG_S * 1000)
        opened = context.new_page()
        opened.goto(farm.login_link(url))
        yield opened
    except BaseException:
        print(farm.tail())
        raise
    finally:
        context.close()
        farm.close()


def test_a_run_is_queued_in_the_page_and_watched_until_it_has_passed(page: Page) -> None:
    patient = LONG_S * 1000
    tile = page.locator(".tile", has_text=NAME)
    expect(tile).to_contain_text("ready", timeout=patient)
    expect(tile).to_contain_text("virtual")
    expect(tile.locator(".temperature")).to_contain_text("°C", timeout=patient)

    page.keyboard.press("n")
    page.get_by_label("On which devices").fill(f"name={NAME}")
    expect(page.locator("#preview")).to_contain_text("1 device matches", timeout=patient)
    for suite in ("fingerprint", "latency"):
        page.get_by_label(suite).uncheck()
    page.get_by_label("Title").fill("watched")
    page.get_by_role("button", name="queue the run").click()
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    page.evaluate("window.untouched = true")

    seen: set[str] = set()
    answer = page.locator("#answer")

    def ended() -> bool:
        seen.add(answer.locator(".sign").inner_text().strip())
        return not seen.isdisjoint({"passed", "failed", "crashed", "device lost", "infra error", "deploy failed"})

    eventually(ended, LONG_S, interval=0.02, what=f"the run to end; seen {seen}")
    expect(answer).to_contain_text("passed on 1 of 1 device")
    assert seen & {"queued", "running"}, "it was watched, not found finished"
    assert page.evaluate("window.untouched") is True, "the page was never loaded again"

    cells = page.locator(".matrix tbody td")
    assert cells.count() >= 3
    for index in range(cells.count()):
        expect(cells.nth(index)).to_contain_text(re.compile("passed|skipped"))
    expect(page.locator(".phase.execute").first).to_be_attached()

    page.get_by_role("link", name="runner log").first.click()
    expect(page.locator("#log-lines")).to_contain_text("passed", timeout=patient)
    page.get_by_role("navigation", name="Which log").get_by_role("link", name="logcat").click()
    expect(page.locator("#log-state")).to_contain_text("lines", timeout=patient)
    names = page.locator("section", has=page.get_by_role("heading", name="Artifacts")).locator("li")
    expect(names.filter(has_text="journal.jsonl")).to_have_count(1)
