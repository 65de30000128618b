"""What `farm doctor` says of the farm that the state folder belongs to: its inventory, its adb server, its devices."""

from __future__ import annotations

import os
from typing import Any

from farm.cli.client import connect, start_words
from farm.cli.demo_parts import adb_server
from farm.cli.errors import CliError
from farm.cli.finding import Finding
from farm.cli.processes import running_server
from farm.domain.inventory import Inventory, parse
from farm.settings import Settings

#: So many devices that are not ready are named.
_NAMED = 5
#: Availability of devices that work, or would.
_WELL = ("ready", "running", "reserved", "cleaning", "checking")


def findings(settings: Settings) -> list[Finding]:
    """Asks the farm once; one that is not up is judged by its files."""
    up = running_server(settings) is not None
    fleet: dict[str, Any] | None = None
    trouble = Finding("devices", False, "not asked, the farm is not up", start_words(settings), needed=False)
    if up or os.environ.get("FARM_URL"):
        try:
            fleet = connect(settings).get("/api/devices")
        except CliError as error:
            trouble = Finding("devices", False, f"not asked: {error.message}", error.hint)
    return [
        inventory(settings, fleet["inventory_errors"] if fleet else None),
        adb(settings, up),
        devices(fleet) if fleet else trouble,
    ]


def inventory(settings: Settings, told: list[str] | None) -> Finding:
    """`told`: what the farm that is up found wrong in its file; None: it was not asked, and the file is read here."""
    path = settings.inventory
    if told is not None:
        words, wrong = "in force", list(told)
    elif not path.exists():
        return Finding("inventory", True, f"no {path}: devices are used by what they tell of themselves")
    else:
        words, wrong = str(path), _mistakes(settings)
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    remedy = "mend the file: a farm that is up reads it by itself, and keeps the inventory before it until then"
    return Finding("inventory", not wrong, wrong[0] + more if wrong else words, remedy)


def _mistakes(settings: Settings) -> list[str]:
    path = settings.inventory
    try:
        found = parse(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        return [f"{path} cannot be read: {error}"]
    return [] if isinstance(found, Inventory) else [error.words(path.name) for error in found]


def adb(settings: Settings, up: bool) -> Finding:
    """The farm's own adb server. One that has ended is started again by a farm that is up."""
    found = adb_server(settings.state)
    if found is not None and found.runs:
        return Finding("farm's adb server", True, f"runs on port {found.port} (pid {found.pid})")
    if not up:
        return Finding("farm's adb server", True, "none runs; the farm starts it")
    words = "none was started yet" if found is None else f"the one of port {found.port} has ended"
    remedy = f"wait a moment, the farm starts it again; if it does not, its log says why: {settings.log_file}"
    return Finding("farm's adb server", False, words, remedy)


def devices(fleet: dict[str, Any]) -> Finding:
    """How many can be used, and what is wrong with the others."""
    tiles = fleet["devices"]
    wrong = [tile for tile in tiles if tile["availability"] not in _WELL]
    ready = sum(tile["availability"] == "ready" for tile in tiles)
    said = [f"{tile['facts']['name']} is {tile['availability']}: {tile['why']}" for tile in wrong]
    said += [f"{one['address']} is {one['state']}: {one['remedy']}" for one in fleet["unidentified"]]
    if len(said) > _NAMED:
        said[_NAMED:] = [f"and {len(said) - _NAMED} more"]
    words = "; ".join((f"{ready} of {len(tiles)} ready" if tiles else "none yet", *said))
    remedy = (
        "`farm devices` and their pages say what helps" if tiles else "plug one in with USB debugging on, or: farm demo"
    )
    return Finding("devices", bool(tiles) and not said, words, remedy, needed=False)
