"""`farm doctor --device S --bundle B`: can this bundle work on that device now? The precheck of an attempt, at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from farm.cli.client import HttpError, Unreachable, connect, segment
from farm.cli.errors import CliError
from farm.cli.output import cell, console, print_json
from farm.domain.outcomes import ExitCode
from farm.settings import Settings, choose_adb_port

#: Longest wait for the device's answers.
LIMIT_S = 60


def examine(device: str, bundle: str, as_json: bool, settings: Settings) -> int:
    """Print every check; the exit code says whether a job would be started. Raises CliError."""
    question = {**_device(device, settings), **_bundle(bundle, settings)}
    found = _ask(question)
    wrong = any(check["ok"] is False for check in found)
    if as_json:
        print_json({"ok": not wrong, "device": device, "bundle": bundle, "checks": found})
    else:
        for check in found:
            _print(check)
    return int(ExitCode.REFUSED) if wrong else 0


def _print(check: dict[str, Any]) -> None:
    mark, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}[check["ok"]]
    console().print(cell(mark, style), cell(f"{check['name']}: {check['figure']}"))
    if check["ok"] is False and check["remedy"]:
        console().print(cell(f"    {check['remedy']}", "bold"))


def _device(name: str, settings: Settings) -> dict[str, Any]:
    """Where the device is; without a farm, `name` is what adb lists."""
    where: dict[str, Any] = {"host": "127.0.0.1", "port": choose_adb_port(settings)}
    try:
        tile = connect(settings).get(f"/api/devices/{segment(name)}")["tile"]
    except Unreachable:
        return {**where, "address": name, "serial": None, "abi": None}
    except HttpError as error:
        if error.status != 404:
            raise
        raise CliError(f"there is no device {name!r}", "`farm devices` lists them", ExitCode.REFUSED) from None
    facts = tile["facts"]
    if tile["address"] is None or tile["availability"] == "gone":
        remedy = "connect it and ask again: `farm devices` lists what can be asked"
        raise CliError(f"{facts['name']} cannot be asked, it is {tile['availability']}: {tile['why']}", remedy)
    return {**where, "address": tile["address"], "serial": facts["serial"], "abi": facts["labels"].get("abi")}


def _bundle(name: str, settings: Settings) -> dict[str, Any]:
    """A folder's bundle with its models' files, or one that the farm has, of which only sizes are known here."""
    folder = Path(name)
    if folder.is_dir():
        from farm.cli.upload import read_bundle_folder
        from farm.domain.manifests import content_hash

        packed = read_bundle_folder(folder).manifest
        models = {path: str(folder / path) for path in packed["models"].values()}
        return {"manifest": packed, "models": models, "bundle": content_hash(packed)}
    try:
        found = connect(settings).get(f"/api/bundles/{segment(name)}")
    except HttpError as error:
        if error.status != 404:
            raise
        remedy = "give a folder with a bundle.yaml, or see `farm bundle list`"
        raise CliError(f"there is no bundle {name!r}", remedy, ExitCode.REFUSED) from None
    return {"manifest": found["manifest"], "models": {}, "bundle": found["row"]["hash"]}


def _ask(question: dict[str, Any]) -> list[dict[str, Any]]:
    """What the other process found: only it speaks adb. Raises CliError."""
    line = [sys.executable, "-m", "farm.adb.precheck"]
    try:
        done = subprocess.run(line, input=json.dumps(question), capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise CliError(f"the device did not answer within {LIMIT_S} s", "look at it: `farm device check`") from None
    answer = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()[-300:]}
    if "error" in answer:
        raise CliError(answer["error"], "is it listed by `farm devices`, and does the farm run on this machine?")
    return list(answer["checks"])
