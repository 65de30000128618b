"""Pictures of the running farm's pages, for the documents: real data, in light and dark.

    FARM_STATE=.farm/demo python tools/screenshots.py [--run ID] [--out docs/images]

Wants a farm that is up on this machine (`farm demo` without `--once`, or with `--keep`) and a run that has ended in it.
It logs a browser in through a one-time link, looks at fleet, run, device, queue and reservations, and writes
`{fleet,run,device,queue,reservations}-{light,dark}.png` and `run.png`. It changes nothing in the farm.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Error, Page, sync_playwright

from farm.cli.client import Client, connect
from farm.cli.errors import CliError

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
WIDTH, HEIGHT, README_HEIGHT = 1280, 800, 1120
LIMIT_MS = 30_000


def ended_run(client: Client, wanted: int | None) -> dict[str, Any]:
    """The run that is shown: the wanted one, else the newest that has ended with measurements."""
    if wanted is not None:
        return dict(client.get(f"/api/runs/{wanted}"))
    rows = client.get("/api/runs?state=ended&limit=50")["runs"]
    for row in rows:
        detail = dict(client.get(f"/api/runs/{row['id']}"))
        if detail["measurements"]:
            return detail
    raise CliError("no run with measurements has ended here: `farm demo --once --keep` makes one")


def pages(detail: dict[str, Any]) -> dict[str, str]:
    """Name of the picture → path of the page."""
    names = [column["device"]["name"] for column in detail["matrix"]["columns"] if column["device"]]
    run, device = f"/runs/{detail['run']['id']}", f"/devices/{names[0]}"
    return {"fleet": "/", "run": run, "device": device, "queue": "/runs/new", "reservations": "/reservations"}


def shoot(browser: Browser, client: Client, theme: str, wanted: dict[str, str], out: Path) -> None:
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)  # type: ignore[arg-type]
    context.set_default_timeout(LIMIT_MS)
    page = context.new_page()
    page.goto(client.page(client.post("/api/login-links")["path"]))
    for name, path in wanted.items():
        page.goto(client.page(path))
        page.locator("h1").first.wait_for()
        settle(page)
        target = out / f"{name}-{theme}.png"
        page.screenshot(path=target, full_page=True, animations="disabled")
        print(target)
        if name == "run" and theme == "light":  # the README's: what one sees without scrolling far
            page.set_viewport_size({"width": WIDTH, "height": README_HEIGHT})
            page.screenshot(path=out / "run.png", animations="disabled")
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    context.close()


def settle(page: Page) -> None:
    """Live pages say "live" once they are; the others have nothing to wait for."""
    if page.locator("[data-live]").count():
        page.locator("#live-state", has_text="live").wait_for()
    page.evaluate("document.fonts.ready.then(() => true)")


def main() -> int:
    parser = argparse.ArgumentParser(description="Pictures of the running farm's pages.")
    parser.add_argument("--run", type=int, help="run to show (default: the newest that has ended with measurements)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        raise CliError("no chromium on this machine: `python tools/setup.py --with-tests` says how to get one")
    client = connect()
    wanted = pages(ended_run(client, options.run))
    options.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        for theme in ("light", "dark"):
            shoot(browser, client, theme, wanted, options.out)
        browser.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CliError, Error) as error:
        sys.exit(f"screenshots: {error}")
