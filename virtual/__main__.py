"""`python -m virtual start|stop|list|fault`: see `--help`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from virtual import fleet


def _plain(running: fleet.Running) -> dict[str, Any]:
    return asdict(running) | {"dir": str(running.dir)}


def _start(options: argparse.Namespace) -> int:
    one = fleet.start(
        options.profile,
        options.serial,
        options.dir,
        port=options.port,
        time_scale=options.time_scale,
        data_mb=options.data_mb,
        limiter=options.limiter,
    )
    note = " (was running already)" if one.already_running else ""
    print(json.dumps(_plain(one)) if options.json else f"{one.serial}  {one.profile}  {one.address}{note}")
    return 0


def _stop(options: argparse.Namespace) -> int:
    if options.all:
        stopped = fleet.stop_all(options.dir)
    elif options.serial:
        stopped = [options.serial] if fleet.stop(options.dir, options.serial) else []
    else:
        raise fleet.FleetError("stop what? give a SERIAL or --all")
    print(f"stopped: {', '.join(stopped)}" if stopped else "nothing to stop")
    return 0


def _list(options: argparse.Namespace) -> int:
    devices = fleet.running(options.dir)
    if options.json:
        print(json.dumps([_plain(one) for one in devices]))
    for one in [] if options.json else devices:
        print(f"{one.serial}  {one.profile}  {one.address}  pid {one.pid}")
    return 0


def _fault(options: argparse.Namespace) -> int:
    pairs = [pair.partition("=") for pair in options.arguments]
    if any(not equals for _, equals, _ in pairs):
        raise fleet.FleetError("arguments of a fault are key=value")
    print(json.dumps(fleet.fault(options.dir, options.serial, options.kind, **{key: value for key, _, value in pairs})))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m virtual", description="Virtual devices for the stock adb.")
    actions = parser.add_subparsers(required=True)
    start = actions.add_parser("start", help="start a device; returns when adb can connect")
    start.add_argument("--profile", required=True, help="built-in name or path to a .yaml file")
    start.add_argument("--serial", required=True)
    start.add_argument("--port", type=int, help="default: the first free one from 5600 on")
    start.add_argument("--time-scale", type=float, default=1.0, help="speed of the thermal model's time")
    start.add_argument("--data-mb", type=int, help="size of /data (held in this machine's memory)")
    start.add_argument(
        "--limiter", choices=("cgroup-v1", "cgroup-v2", "duty-cycle"), help="default: the best that works"
    )
    start.set_defaults(run=_start)
    stop = actions.add_parser("stop", help="switch a device off")
    stop.add_argument("serial", nargs="?")
    stop.add_argument("--all", action="store_true")
    stop.set_defaults(run=_stop)
    listing = actions.add_parser("list", help="devices that run")
    listing.set_defaults(run=_list)
    fault = actions.add_parser("fault", help="break something; `status` shows the state")
    fault.add_argument("serial")
    fault.add_argument("kind")
    fault.add_argument("arguments", nargs="*", metavar="key=value")
    fault.set_defaults(run=_fault)
    for action in (start, stop, listing, fault):
        action.add_argument("--dir", type=Path, required=True, help="folder of the fleet")
    for action in (start, listing):
        action.add_argument("--json", action="store_true")
    return parser


def main() -> int:
    """Runs one command; exit code."""
    options = _parser().parse_args()
    try:
        return int(options.run(options))
    except fleet.FleetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
