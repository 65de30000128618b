"""One device: what it is, how it is, what it did."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from dashboard import device_health, history, holds, incidents, signs, words
from dashboard.errors import gone
from dashboard.fleet import note_of, tile_view
from dashboard.house import House
from dashboard.signs import Sign
from farm.domain.devices import Health
from farm.domain.holds import Hold
from farm.store.reads import devices as reads
from farm.store.reads import holds as hold_reads
from farm.store.reads.devices import DeviceDetail, EventRow, RecentAttempt, flat
from farm.store.reads.history import History
from farm.store.reads.history import history as read_history

#: A family of facts (properties, …) with more members than this is folded.
LARGE_FAMILY = 6

Window = Annotated[Literal["1h", "24h", "7d"], Query()]
DeviceName = Annotated[str, Path(max_length=200)]


def view(detail: DeviceDetail, past: History | None, window: str, hold: Hold | None) -> dict[str, object]:
    facts = detail.tile.facts
    return {
        "detail": detail,
        "incidents": incidents.groups(detail.incidents),
        "tile": detail.tile,
        "device": facts,
        "view": tile_view(detail.tile, hold=hold),
        "note": note_of(detail.tile),
        "hold": hold,
        "labels": sorted(facts.labels.items()),
        "attempts": [(row, _sign(row)) for row in detail.attempts],
        "events": history.grouped(detail.events, event_words),
        "history": history.view(past) if past else None,
        "window": window,
        "windows": tuple(history.WINDOWS),
        "prints": [(row, fact_groups(row.facts)) for row in detail.fingerprints],
    }


def _sign(row: RecentAttempt) -> Sign:
    if row.outcome is not None:
        return signs.of_outcome(row.outcome)
    return Sign("quarter", "accent", row.phase)


def fact_groups(facts: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Facts for reading: what is short first under no title, every large family folded under its own."""
    families = {k: v for k, v in facts.items() if isinstance(v, dict) and len(v) > LARGE_FAMILY}
    plain = {k: v for k, v in facts.items() if k not in families}
    folded = [(name, sorted(flat(family).items())) for name, family in sorted(families.items())]
    return [("", sorted(flat(plain).items())), *folded]


def event_words(event: EventRow) -> str:
    """A line of the history as a person reads it; what this version does not know is shown as it stands."""
    detail: dict[str, Any] = event.detail
    if event.kind == "connection" and "connection" in detail:
        where = f" at {detail['address']}" if detail.get("address") else ""
        return f"adb says {detail['connection']}{where}" if detail["connection"] != "gone" else "adb lists it no more"
    if event.kind in ("leased", "released", "freed") and "holder" in detail:
        why = f": {detail['reason']}" if detail.get("reason") else ""
        return f"{str(detail['holder']).replace(':', ' ')}{why}"
    if event.kind == "fingerprint":
        return "first measured" if detail.get("from") is None else "measured anew: its facts have changed"
    if event.kind == "clock" and "skew_s" in detail:
        return f"{words.quantity(detail['skew_s'], 's')} off the host's"
    if event.kind == "health" and "health" in detail:
        by = f", by {detail['by']}" if detail.get("by") else ""
        why = detail.get("reason") or ("" if detail["health"] == Health.GOOD.value else "no reason given")
        return f"{detail['health']}{f': {why}' if why else ''}{by}"
    if event.kind == "recovery" and "rung" in detail:
        return f"{signs.plain(str(detail['rung']))}: {detail.get('why') or 'no reason given'}"
    if event.kind == "recovery-action" and "rung" in detail:
        return f"{signs.plain(str(detail['rung']))} {detail.get('result') or ''}".strip()
    if event.kind in ("battery-low", "charged") and "percent" in detail:
        return words.quantity(detail["percent"], "%")
    if event.kind == "cooled" and "celsius" in detail:
        return words.celsius(detail["celsius"])
    if event.kind == "rebooted":
        return f"boot {str(detail.get('boot_id') or 'unknown')[:8]}"
    return ", ".join(f"{key}: {value}" for key, value in detail.items())


def add(routes: APIRouter, house: House) -> None:
    device_health.add(routes, house)

    def show(request: Request, template: str, name: str, window: str) -> Response:
        viewer, now = house.viewer(request), house.context.clock()
        with house.context.db.read() as session:
            found = reads.device(session, name, now)
            if found is None:
                raise gone("device", name, ("/", "to the fleet"))
            hold = holds.hold_on(hold_reads.standing(session, now), found.tile.facts)
            past = read_history(session, found.tile.facts.id, history.WINDOWS[window], now)
        shown = view(found, past, window, hold) | device_health.view(found, viewer)
        return house.page(request, template, shown, viewer=viewer)

    @routes.get("/devices/{name:path}")
    def page(request: Request, name: DeviceName, window: Window = "24h") -> Response:
        return show(request, "device.html", name, window)

    @routes.get("/ui/devices/{name:path}")
    def piece(request: Request, name: DeviceName, window: Window = "24h") -> Response:
        return show(request, "device_live.html", name, window)
