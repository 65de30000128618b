"""Engine faults as `--fault` takes them, looked at before anything starts.

The reference engine has the last word (`engine/src/faults.cpp`); a test holds the two lists together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from farm.cli.errors import CliError
from farm.domain.names import did_you_mean
from farm.domain.outcomes import ExitCode

STAGES = ("load.open", "load.map", "load.tokenizer", "load.init", "warmup", "prefill", "decode")
SIGNALS = ("SEGV", "ABRT", "BUS", "ILL", "FPE", "TRAP", "KILL", "TERM")
#: Fault → how it is written.
FORMS = {
    "crash": "crash=STAGE[:SIGNAL]",
    "hang": "hang=STAGE",
    "leak": "leak=MB_PER_TOKEN",
    "slow-stage": "slow-stage=STAGE:FACTOR",
    "exit": "exit=CODE[:STAGE]",
}


def check(specs: Iterable[str]) -> list[str]:
    """The single faults of these (one may hold several, with commas between). Raises CliError REFUSED."""
    single = [part for spec in specs for part in spec.split(",") if part]
    for spec in single:
        wrong = _wrong(spec)
        if wrong is not None:
            forms = ", ".join(FORMS.values())
            raise CliError(
                f"--fault {spec!r}: {wrong}", f"faults: {forms}; stages: {', '.join(STAGES)}", ExitCode.REFUSED
            )
    return single


def check_device(name: str | None, known: Iterable[str], faults: Iterable[str]) -> None:
    """The device that gets the faults must be one of the demo's. Raises CliError REFUSED."""
    if name is None:
        return
    names = list(known)
    if name not in names:
        near = did_you_mean(name, names)
        raise CliError(
            f"--fault-device {name!r}: no device of the demo is called so" + (f": {near}" if near else ""),
            f"devices: {', '.join(names)}",
            ExitCode.REFUSED,
        )
    if not list(faults):
        raise CliError(f"--fault-device {name} has no fault to get", "name one with --fault", ExitCode.REFUSED)


def _wrong(spec: str) -> str | None:
    kind, _, value = spec.partition("=")
    first, colon, second = value.partition(":")
    if kind not in FORMS:
        return f"there is no fault {kind!r}" + (f": {near}" if (near := did_you_mean(kind, FORMS)) else "")
    return _CHECKS[kind](first, second, bool(colon))


def _stage(name: str) -> str | None:
    if name in STAGES:
        return None
    near = did_you_mean(name, STAGES)
    return f"there is no stage {name!r}" + (f": {near}" if near else "")


def _number(text: str, low: float, high: float) -> str | None:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return None if low <= value <= high else f"{text!r} is no number from {low:g} to {high:g}"


def _crash(stage: str, signal: str, _colon: bool) -> str | None:
    known = not signal or signal.removeprefix("SIG") in SIGNALS
    return _stage(stage) or (None if known else f"there is no signal {signal!r}: one of {', '.join(SIGNALS)}")


def _hang(stage: str, rest: str, colon: bool) -> str | None:
    return _stage(f"{stage}:{rest}" if colon else stage)


def _leak(megabytes: str, rest: str, colon: bool) -> str | None:
    return _number(f"{megabytes}:{rest}" if colon else megabytes, 0.001, 4096)


def _slow(stage: str, factor: str, _colon: bool) -> str | None:
    return _stage(stage) or _number(factor, 1, 1000)


def _exit(code: str, stage: str, _colon: bool) -> str | None:
    return _number(code, 0, 255) or (_stage(stage) if stage else None)


_CHECKS: dict[str, Callable[[str, str, bool], str | None]] = {
    "crash": _crash,
    "hang": _hang,
    "leak": _leak,
    "slow-stage": _slow,
    "exit": _exit,
}
