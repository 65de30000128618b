"""The fleet: what runs, what waits, what needs a hand."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dashboard import drawing, signs, words
from dashboard.house import House
from dashboard.signs import Sign
from farm.domain.devices import Availability
from farm.domain.outcomes import Phase
from farm.store.reads import fleet as reads
from farm.store.reads.fleet import Fleet, Tile

#: From here on a temperature is drawn hot: a phone's battery is near its limit, a board's chip runs warmer by nature.
HOT_C = {"phone": 45.0, "board": 60.0}
#: A tile's line is at least this high, so that sensor noise stays small.
_LEAST_SPAN_C = 4.0


@dataclass(frozen=True, slots=True)
class TileView:
    """A tile with everything that its drawing needs. `progress` is a share of 100, None when it is not known."""

    tile: Tile
    sign: Sign
    facts: tuple[str, ...]
    doing: str
    doing_href: str | None
    line: drawing.Line | None
    hot: bool
    battery: str
    progress: float | None


def tile_view(tile: Tile) -> TileView:
    device, work = tile.facts, tile.work
    sign = signs.of_device(tile.availability, work.phase if work else None)
    labels = device.labels
    android = f"A{labels['android']}" if labels.get("android") else None
    facts = tuple(f for f in (labels.get("soc"), android) if f)
    progress = None
    if work and work.tests_total and work.phase == Phase.EXECUTE.value:
        progress = 100.0 * work.tests_done / work.tests_total
    temperature = device.readiness.temperature_c
    return TileView(
        tile=tile,
        sign=sign,
        facts=facts,
        doing=_doing(tile),
        doing_href=f"/runs/{work.run_id}" if work else None,
        line=drawing.line(tile.temperatures, least_span=_LEAST_SPAN_C),
        hot=temperature is not None and temperature >= HOT_C[tile.kind],
        battery=_battery(tile),
        progress=progress,
    )


def _doing(tile: Tile) -> str:
    """A few words: which run and suite or step, else why it does not work."""
    work = tile.work
    if work is None:
        until = tile.facts.health_until
        if tile.availability is Availability.QUARANTINED and until:
            return f"{tile.why} · until {until:%H:%M} UTC"
        return "" if tile.availability is Availability.READY else tile.why
    run = f"run {work.run_id}"
    if tile.availability is not Availability.RUNNING:
        return run
    if work.waiting_for:
        return f"waits for {work.waiting_for}"
    if work.phase == Phase.EXECUTE.value and work.tests_total:
        return f"{run} · {work.tests_done} of {work.tests_total} tests"
    return f"{run} · {work.phase}"


def _battery(tile: Tile) -> str:
    ready = tile.facts.readiness
    if ready.has_battery is False:
        return "no battery"
    if ready.battery_pct is None:
        return "battery not measured"
    return f"{ready.battery_pct}{words.THIN}%"


#: The order of the counts above the tiles, and the word that each has there.
_COUNTS = (
    (Availability.RUNNING, "running"),
    (Availability.READY, "ready"),
    (Availability.RESERVED, "reserved"),
    (Availability.CLEANING, "cleaning"),
    (Availability.CHECKING, "checking"),
    (Availability.NOT_READY, "not ready"),
    (Availability.STALE, "stale"),
    (Availability.GONE, "gone"),
    (Availability.MAINTENANCE, "in maintenance"),
    (Availability.QUARANTINED, "quarantined"),
)


def view(fleet: Fleet) -> dict[str, object]:
    counts = [(fleet.counts[word.value], label) for word, label in _COUNTS if fleet.counts.get(word.value)]
    return {
        "fleet": fleet,
        "tiles": [tile_view(tile) for tile in fleet.tiles],
        "counts": counts,
        "silent": [host for host in fleet.hosts if host.silent and host.devices],
    }


def add(routes: APIRouter, house: House) -> None:
    def show(request: Request, template: str) -> Response:
        viewer = house.viewer(request)
        with house.context.db.read() as session:
            found = reads.fleet(session, house.context.clock())
        return house.page(request, template, view(found), viewer=viewer)

    @routes.get("/")
    def page(request: Request) -> Response:
        return show(request, "fleet.html")

    @routes.get("/ui/fleet")
    def piece(request: Request) -> Response:
        return show(request, "fleet_live.html")
