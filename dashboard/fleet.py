"""The fleet: what runs, what waits, what needs a hand."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dashboard import drawing, holds, signs, words
from dashboard.house import House
from dashboard.signs import Sign
from farm.domain.devices import REMEDIES, Availability, remedy
from farm.domain.holds import Hold
from farm.domain.outcomes import Phase
from farm.domain.words import count
from farm.store.people import Scope
from farm.store.reads import fleet as reads
from farm.store.reads import holds as hold_reads
from farm.store.reads.fleet import Fleet, Tile
from farm.store.reads.holds import Standing

#: From here on a temperature is drawn hot: a phone's battery is near its limit, a board's chip runs warmer by nature.
HOT_C = {"phone": 45.0, "board": 60.0}
#: The tiles' common scale of temperature begins and ends on a multiple of this.
_SCALE_STEP_C = 5.0


@dataclass(frozen=True, slots=True)
class TileView:
    """A tile with everything that its drawing needs.

    `note` is a line that needs room: what it waits for, why it is held back, what a person does about it. `progress`
    is a share of 100, None when it is not known. `find`: the words that a search finds it by, in small letters.
    """

    tile: Tile
    sign: Sign
    facts: tuple[str, ...]
    doing: str
    doing_href: str | None
    note: str | None
    line: drawing.Line | None
    hot: bool
    battery: str
    progress: float | None
    find: str


def tile_view(tile: Tile, scale: tuple[float, float] | None = None, hold: Hold | None = None) -> TileView:
    """`scale`: the temperatures, °C, that the line's box spans. `hold`: what keeps new work away from it."""
    device, work = tile.facts, tile.work
    sign = signs.of_device(tile.availability, work.phase if work else None)
    if hold is not None and tile.availability is Availability.READY:
        sign = signs.PAUSED
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
        doing_href=_doing_href(tile),
        note=note_of(tile, hold),
        line=drawing.line(tile.temperatures, scale=scale),
        hot=temperature is not None and temperature >= HOT_C[tile.kind],
        battery=_battery(tile),
        progress=progress,
        find=_find_words(tile, sign),
    )


def _find_words(tile: Tile, sign: Sign) -> str:
    device = tile.facts
    told = (device.name, device.serial, tile.model, device.type, device.pool, device.host, sign.word, tile.kind)
    kinds = ("virtual" if device.virtual else "", "" if device.listed else "unlisted")
    return " ".join(filter(None, (*told, *kinds, *device.labels.values()))).casefold()


def _doing(tile: Tile) -> str:
    """A few words: which run and suite or step, else why it does not work."""
    work = tile.work
    if work is None:
        if tile.availability is Availability.QUARANTINED:
            until = tile.facts.health_until
            return f"until {until:%H:%M} UTC" if until else "until a person releases it"
        return "" if tile.availability is Availability.READY else tile.why
    run = f"run {work.run_id}"
    if tile.availability is not Availability.RUNNING:
        return run
    if work.phase == Phase.EXECUTE.value and work.tests_total:
        return f"{run} · {work.tests_done} of {count(work.tests_total, 'test')}"
    return f"{run} · {work.phase}"


def _doing_href(tile: Tile) -> str | None:
    if tile.work:
        return f"/runs/{tile.work.run_id}"
    return "/reservations" if tile.availability is Availability.RESERVED else None


def note_of(tile: Tile, hold: Hold | None = None) -> str | None:
    """What it waits for, why it is held back, what helps; else that it is paused."""
    if tile.facts.connection in REMEDIES:
        return remedy(tile.facts.connection.value)
    if tile.availability is Availability.QUARANTINED:
        return tile.why
    if tile.availability is Availability.RUNNING and tile.work and tile.work.waiting_for:
        return f"waits for {tile.work.waiting_for}"
    return None if hold is None else f"no new work: paused by {hold.by}, {hold.reason}"


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


def view(fleet: Fleet, standing: list[Standing]) -> dict[str, object]:
    scale = drawing.shared_scale((tile.temperatures for tile in fleet.tiles), step=_SCALE_STEP_C)
    tiles = [tile_view(tile, scale, holds.hold_on(standing, tile.facts)) for tile in fleet.tiles]
    idle = sum(1 for tile in tiles if tile.sign is signs.PAUSED)
    numbers = {**fleet.counts, Availability.READY.value: fleet.counts.get(Availability.READY.value, 0) - idle}
    counts = [(numbers[word.value], label) for word, label in _COUNTS if numbers.get(word.value)]
    stopped = {one.hold.ref for one in standing if one.hold.scope == "host"}
    return {
        "paused": holds.paused(standing),
        "fleet": fleet,
        "tiles": tiles,
        "scale": scale,
        "counts": [*counts, *([(idle, "paused")] if idle else [])],
        "host_signs": {host.name: signs.of_host(host.silent, host.name in stopped) for host in fleet.hosts},
        "silent": [host for host in fleet.hosts if host.silent and host.devices],
    }


def add(routes: APIRouter, house: House) -> None:
    def show(request: Request, template: str) -> Response:
        viewer = house.viewer(request)
        with house.context.db.read() as session:
            found = reads.fleet(session, house.context.clock())
            standing = hold_reads.standing(session, house.context.clock())
        facts = [tile.facts for tile in found.tiles]
        names = {*(f.name for f in facts), *(f.pool for f in facts if f.pool), *(host.name for host in found.hosts)}
        may = {"operates": house.context.principal(request).may(Scope.OPERATE), "pausable": sorted(names)}
        return house.page(request, template, view(found, standing) | may, viewer=viewer)

    @routes.get("/")
    def page(request: Request) -> Response:
        return show(request, "fleet.html")

    @routes.get("/ui/fleet")
    def piece(request: Request) -> Response:
        return show(request, "fleet_live.html")
