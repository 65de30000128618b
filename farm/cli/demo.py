"""`farm demo`: the whole farm at work, on three virtual devices, with nothing to install and no phone.

It builds the reference engine (once), starts the devices and a server of its own, queues the suites on all three, shows
them running and prints what came out. Everything lives in one state folder and is stopped at the end, however it ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from farm.cli import faults as fault_specs
from farm.cli import processes
from farm.cli.client import Client, of_state_folder
from farm.cli.demo_parts import DEVICES, ROOT, Parts, Virtual
from farm.cli.errors import CliError
from farm.cli.output import note, print_json
from farm.cli.run import follow, submit
from farm.cli.signals import heed_no_signal, stopped_by_signals
from farm.cli.summary import believable, exit_code, exit_words, summary
from farm.domain.devices import Availability
from farm.domain.scheduling.values import AWAY
from farm.settings import DEFAULT_PORT, Settings, load, port_is_free

T = TypeVar("T")
SUITES = ("smoke", "fingerprint", "latency")
#: A host with no CPU to spare needs long for what takes seconds; what cannot become ready is told at once.
READY_S = 300.0
RUN_S = 1800.0
#: While the engine is built, what it is at is told this often, seconds; and for what devices wait.
BUILD_TOLD_S = 5.0
WAIT_TOLD_S = 10.0
#: The measurement whose median the summary names: tokens per second while decoding.
DECODE_RATE = "decode_rate"
FAULT_VARIABLE = "FARM_ENGINE_FAULT"


@click.command("demo")
@click.option("--once", is_flag=True, help="Run once, then stop everything and end.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output, and nothing else there.")
@click.option("--fault", "faults", multiple=True, metavar="SPEC", help="Engine fault, e.g. slow-stage=decode:2.0.")
@click.option("--fault-device", metavar="NAME", help="Device that gets the fault.  [default: the first]")
@click.option("--keep", is_flag=True, help="With --once: leave server and devices running.")
def command(once: bool, as_json: bool, faults: tuple[str, ...], fault_device: str | None, keep: bool) -> int:
    """Three virtual devices, an engine, suites and a dashboard.

    Stays up until Ctrl-C; where the demo is up already, the run is queued there and nothing is started or stopped.

    Exit codes: 0 passed, 1 failed, 2 the farm's own trouble, 3 refused, 5 interrupted.
    """
    settings = _settings()
    single = fault_specs.check(faults)
    fault_specs.check_device(fault_device, _device_names(settings), single)
    _check_tools()
    up = demo_that_is_up(settings)
    demo = Demo(settings, Parts(settings))
    with stopped_by_signals(), contextlib.ExitStack() as stack:
        if not (up or (once and keep)):
            stack.callback(demo.stop)
        client, bundle = demo.join(up) if up else demo.start()
        detail = demo.run(client, bundle, single, fault_device)
        shown = result(client, demo, detail)
        if as_json:
            print_json(shown)
            for line in shown["run"]["warnings"]:
                note(line)
        else:
            from farm.cli.show import print_run

            print_run(detail)
        if up:
            note("The demo that was up already goes on: `farm login` prints a link to its pages.")
        elif not once:
            _stay(client)
        elif keep:
            note(f"Left running: {client.url}. End it: farm down --all --state {settings.state}")
        else:
            note(f"Everything is stopped again. To look at its pages: farm up --state {settings.state}")
    if words := exit_words(shown["run"]):
        note(words)
    return exit_code(shown["run"]["outcome"])


@dataclass(slots=True)
class Demo:
    """One demo on one state folder. `seconds`: how long each part took."""

    settings: Settings
    parts: Parts
    seconds: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def start(self) -> tuple[Client, str]:
        """Engine, devices and server, side by side; returns the client and the bundle's hash."""
        self.settings.state.mkdir(parents=True, exist_ok=True)
        note("Starting three virtual devices and the farm; building the engine (the first time takes minutes) …")
        pool = ThreadPoolExecutor(max_workers=5)
        try:
            built = pool.submit(self._timed, "build", self.parts.build_bundle)
            served = pool.submit(self._timed, "setup", lambda: processes.start_server(self.settings))
            started = [pool.submit(self.parts.start_device, device) for device in DEVICES]
            for future in started:
                future.result()
            served.result()
            client = of_state_folder(self.settings)
            self._wait_for_devices(client, built)
            self.seconds["devices"] = round(time.monotonic() - self.began, 2)
            folder = self._follow_build(built)
        except BaseException:
            self.parts.interrupt()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return client, _send(client, folder)

    def join(self, client: Client) -> tuple[Client, str]:
        """The same of a demo that is up already: only the engine is built, where it has changed since."""
        note(f"The demo is up already at {client.url}: this run is queued there.")
        return client, _send(client, self._timed("build", self.parts.build_bundle))

    def run(self, client: Client, bundle: str, faults: list[str], fault_device: str | None) -> dict[str, Any]:
        """Queue the suites on the three devices and wait for the end; the run's detail."""
        serials = [device.serial for device in DEVICES]
        request = {
            "bundle": bundle,
            "suites": list(SUITES),
            "selector": f"serial in ({', '.join(serials)})",
            "title": "Demo" + (f" with {', '.join(faults)}" if faults else ""),
            "env": {fault_device or serials[0]: {FAULT_VARIABLE: ",".join(faults)}} if faults else {},
        }
        run_id = submit(client, request)
        note(f"Run {run_id}: {client.page(f'/runs/{run_id}')}")
        return self._timed("run", lambda: follow(client, run_id, RUN_S))

    def stop(self) -> None:
        """Stop everything, whatever of it runs; what cannot be stopped is said and the rest is stopped all the same.

        A second signal does not leave half of it behind: none interrupts from here on, and every step here has a limit
        of its own.
        """
        with contextlib.suppress(ValueError):  # only the main thread may
            heed_no_signal()
        self.parts.resume()
        for stop in (self._stop_server, self.parts.stop_adb, self.parts.stop_devices):
            try:
                stop()
            except (CliError, OSError) as error:
                note(f"not stopped: {error}")

    def _stop_server(self) -> None:
        processes.stop_server(self.settings)

    def _follow_build(self, built: Future[Path]) -> Path:
        """The bundle's folder; while the build goes on, its newest words now and then."""
        told = ""
        while True:
            try:
                return built.result(timeout=BUILD_TOLD_S)
            except TimeoutError:
                words = processes.last_line(self.parts.build_log)
                if words != told:
                    note(f"building the engine: {words[:100]}")
                told = words

    def _wait_for_devices(self, client: Client, built: Future[Path]) -> None:
        why: dict[str, str] = {}
        begun_anew: set[str] = set()
        told_at = time.monotonic()

        def ready() -> bool:
            nonlocal why, told_at
            if built.done():
                built.result()  # a build that failed is told at once
            why = self._not_ready(client, begun_anew)
            if why and time.monotonic() - told_at > WAIT_TOLD_S:
                told_at = time.monotonic()
                note("waiting for " + "; ".join(f"{serial} ({words})" for serial, words in why.items()))
            return not why

        try:
            processes.wait_until(ready, READY_S, "the devices", 0.2)
        except processes.WaitedInVain:
            told = "; ".join(f"{serial} is {words}" for serial, words in why.items())
            raise CliError(
                f"the virtual devices did not get ready within {READY_S:g} s: {told}",
                f"the server's log is {self.settings.log_file}",
            ) from None

    def _not_ready(self, client: Client, begun_anew: set[str]) -> dict[str, str]:
        """Serial number → why the device cannot be used yet; addresses too that do not say who they are."""
        fleet = client.get("/api/devices")
        tiles = {tile["facts"]["serial"]: tile for tile in fleet["devices"]}
        why: dict[str, str] = {}
        for device in DEVICES:
            tile = tiles.get(device.serial)
            if tile is None or tile["availability"] != "ready":
                why[device.serial] = "not seen yet" if tile is None else f"{tile['availability']}: {tile['why']}"
                self._mind(device, begun_anew)
        for one in fleet["unidentified"] if why else ():
            why[one["address"]] = f"{one['state']}: {one['remedy']}"
        return why

    def _mind(self, device: Virtual, begun_anew: set[str]) -> None:
        """A device whose process has died is started once more; one that dies again is told with its last words."""
        words = self.parts.death_of(device)
        if words is None:
            return
        if device.serial in begun_anew:
            log = self.settings.state / "virtual" / device.serial / "hardware.log"
            raise CliError(f"the virtual device {device.serial} died twice: {words}", f"its log is {log}")
        begun_anew.add(device.serial)
        note(f"{device.serial} died ({words[:200]}); starting it again …")
        self.parts.start_device(device)

    def _timed(self, name: str, work: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return work()
        finally:
            self.seconds[name] = round(time.monotonic() - began, 2)


def _send(client: Client, folder: Path) -> str:
    from farm.cli.upload import send_bundle

    return str(send_bundle(client, folder)["hash"])


def result(client: Client, demo: Demo, detail: dict[str, Any]) -> dict[str, Any]:
    """What `--json` prints."""
    wanted = {device.serial for device in DEVICES}
    tiles = [tile for tile in client.get("/api/devices")["devices"] if tile["facts"]["serial"] in wanted]
    shown = summary(detail)
    for attempt in shown["attempts"]:
        rate = attempt["medians"].get(DECODE_RATE)
        attempt["decode_rate"], attempt["decode_rate_marks"] = believable(rate) if rate else (None, ())
    return {
        "devices": [
            {
                "name": tile["facts"]["name"],
                "serial": tile["facts"]["serial"],
                "model": tile["model"],
                "virtual": tile["facts"]["virtual"],
                "availability": tile["availability"],
            }
            for tile in tiles
        ],
        "run": shown,
        "url": client.page(f"/runs/{shown['id']}"),
        "seconds": demo.seconds | {"total": round(time.monotonic() - demo.began, 2)},
    }


def _settings() -> Settings:
    """Those of the environment, in a state folder of the demo's own, on the first free port."""
    settings = load(state=os.environ.get("FARM_STATE") or Path(".farm") / "demo")
    inventory = settings.inventory if settings.inventory.exists() else ROOT / "devices.yaml"
    wanted = range(settings.port or DEFAULT_PORT, (settings.port or DEFAULT_PORT) + 200)
    port = next((port for port in wanted if port < 65536 and port_is_free(port)), 0)
    return dataclasses.replace(settings, port=port, inventory=inventory)


def _device_names(settings: Settings) -> list[str]:
    """Serial numbers of the demo's devices, and the names that the inventory gives them."""
    from farm.domain.inventory import Inventory, parse

    serials = [device.serial for device in DEVICES]
    try:
        inventory = parse(settings.inventory.read_text())
    except (OSError, UnicodeDecodeError):
        return serials
    found = [inventory.device(serial) for serial in serials] if isinstance(inventory, Inventory) else []
    return [*(entry.name for entry in found if entry is not None), *serials]


def demo_that_is_up(settings: Settings) -> Client | None:
    """The farm of this state folder where it is a demo in good order; None: none is up.

    Somebody may be working on it: it is never taken over or stopped in passing. Raises CliError for any other farm, and
    for a demo whose devices cannot be used.
    """
    server = processes.running_server(settings)
    if server is None:
        return None
    client = of_state_folder(settings)
    tiles = client.get("/api/devices")["devices"]
    states = {tile["facts"]["serial"]: tile["availability"] for tile in tiles if tile["facts"]["virtual"]}
    unfit = [device.serial for device in DEVICES if states.get(device.serial, Availability.GONE) in AWAY]
    if unfit:
        raise CliError(
            f"a farm is up in {settings.state} already, and not a demo to queue a run on: {server['url']} has no "
            f"{', '.join(unfit)} that can be used",
            f"use that one (farm login, farm run), end it with `farm down --all --state {settings.state}`, or give "
            "this demo a state of its own: FARM_STATE=/tmp/farm-demo farm demo",
        )
    return client


def _check_tools() -> None:
    missing = {"bwrap": "bubblewrap", "mksh": "mksh", "toybox": "toybox"}
    packages = [package for tool, package in missing.items() if shutil.which(tool) is None]
    if packages:
        raise CliError(
            f"virtual devices need {', '.join(packages)}", f"apt-get install {' '.join(packages)}, or `make setup`"
        )


def _stay(client: Client) -> None:
    """Say where the pages are and how to log in, and wait for Ctrl-C."""
    link = client.page(client.post("/api/login-links")["path"])
    note(f"\nThe farm is up: {client.url}")
    note(f"Log in (once, within ten minutes): {link}")
    note("Another link: `farm login`. Ctrl-C stops the farm and the devices.")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    note("Stopping …")
