"""What a device did meanwhile, on the attempt's page: few curves at once, many on demand, and what is missing."""

from __future__ import annotations

import math

from playwright.sync_api import expect

from farm.store import series
from farm.store import tables as t
from tests.dashboard.conftest import DESK, PHONE, Site
from tests.dashboard.test_logs import ENDED


def test_curves_zones_on_demand_and_what_is_not_measured_with_its_reason(site: Site) -> None:
    with site.db.session() as session:
        attempt = session.get_one(t.Attempt, ENDED)
        began = attempt.created_at.timestamp()
        times = [began + n for n in range(60)]
        for seq, (name, unit, base) in enumerate(
            (
                ("cpu_busy", "%", 40.0),
                ("battery_power", "W", 3.0),
                ("temperature/zone-7", "°C", 41.0),
                ("oom_kills", "processes", 0.0),
                ("cooling/fan", "steps", 2.0),
            )
        ):
            moves = name not in ("oom_kills", "cooling/fan")
            values = [round(base + math.sin(n / 5) * moves, 2) for n in range(60)]
            row = series.row(ENDED, 8000 + seq, attempt.device_id, name, unit, times, values)
            session.add(t.SeriesChunk(**row))
        session.add(t.SeriesAbsence(attempt_id=ENDED, name="gpu_busy", reason="no such file on <this> device"))
        session.add(t.SeriesAbsence(attempt_id=ENDED, name="sampler", reason="tool at 1 Hz"))
    for size in (DESK, PHONE):
        page = site.page(f"/attempts/{ENDED}", viewport=size)
        expect(page.get_by_text("cpu_busy", exact=True)).to_be_visible()
        expect(page.get_by_text("did not change: oom_kills 0\u202fprocesses", exact=True)).to_be_visible()
        fan = page.get_by_text("did not change: cooling/fan 2.00\u202fsteps", exact=True)
        expect(fan).to_be_hidden()
        expect(page.locator(".charts").get_by_text("oom_kills")).to_have_count(0)
        expect(page.get_by_text("Sampled by tool at 1 Hz.")).to_be_visible()
        zone = page.get_by_text("temperature/zone-7", exact=True)
        expect(zone).to_be_hidden()
        page.get_by_text("2 more: each thermal zone and cooling device").click()
        expect(zone).to_be_visible()
        expect(fan).to_be_visible()
        page.get_by_text("1 not measured on this device").click()
        expect(page.get_by_text("no such file on <this> device")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
