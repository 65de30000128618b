"""Whether a submission can work: checked before anything is queued, refused with what to do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.devices import Availability, DeviceFacts, availability
from farm.domain.jobs import HANDICAP_S
from farm.domain.names import did_you_mean, suggest
from farm.domain.selector_terms import quoted
from farm.domain.selectors import Mismatch, Selector, SelectorError, nearest, parse, words_of
from farm.store import devices, runs, tables
from farm.work.request import Refused, RunRequest

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
MAX_ENV = 32 * 1024
MAX_PARAMS = 64 * 1024
MAX_TESTS = 2000
MAX_SHARDS = 100
_AWAY = {Availability.GONE, Availability.STALE, Availability.QUARANTINED, Availability.MAINTENANCE}


@dataclass(frozen=True, slots=True)
class Admitted:
    """What a submission means. `left_out`: devices that match and cannot work now, with why."""

    bundle: tables.Bundle
    pack: tables.SuitePack
    devices: list[DeviceFacts]
    left_out: list[dict[str, str]]


def admit(session: Session, request: RunRequest, now: datetime) -> Admitted:
    """Raises Refused with the first thing that cannot work."""
    _form(request)  # words about the request before words about the bundle
    bundle = _bundle(session, request.bundle)
    pack, working, left_out = check(session, request, bundle.name, list(bundle.manifest["files"]), now)
    return Admitted(bundle, pack, working, left_out)


def check(
    session: Session, request: RunRequest, bundle: str, abis: Sequence[str], now: datetime
) -> tuple[tables.SuitePack, list[DeviceFacts], list[dict[str, str]]]:
    """Everything but whether the bundle is there: the pack, the devices, and those left out. Raises Refused."""
    _form(request)
    pack = _pack(session, request.pack)
    _suites(request.suites, pack)
    _tests(request.tests, pack)
    known = devices.facts(session)
    _environment(request.env, known)
    wants = wants_of(request.selector, request.suites, pack)
    served = by_abi(bundle, abis, _matching(wants, known), wants)
    if served.refusal is not None:
        raise served.refusal
    working, left_out = _usable(served.fits, now)
    return pack, working, left_out + [_never_told(d, now) for d in served.never_told]


@dataclass(frozen=True, slots=True)
class Served:
    """Whom of the devices that a submission matches its bundle has files for. `refusal`: it cannot be queued so."""

    fits: list[DeviceFacts]
    never_told: list[DeviceFacts]  # left out: their ABI is not known yet
    refusal: Refused | None


def by_abi(bundle: str, abis: Sequence[str], matching: Sequence[DeviceFacts], wants: Sequence[Selector]) -> Served:
    """The one rule of submit and preview for a bundle and the ABIs of devices.

    A device of another ABI refuses the run. One that never told its ABI keeps no other from it, but is not left out in
    silence either where it was asked for by its name or is all there is.
    """
    silent = [d for d in matching if "abi" not in d.labels and not any(wanted.names(d.facts()) for wanted in wants)]
    told = [d for d in matching if d not in silent] or list(matching)
    fits = [d for d in told if d.labels.get("abi") in abis]
    refusal = None if len(fits) == len(told) else _no_abi(bundle, abis, told)
    return Served(fits, [d for d in silent if d not in told], refusal)


def _form(request: RunRequest) -> None:
    if request.klass not in HANDICAP_S:
        raise Refused("unknown-class", f"class {request.klass!r} is none of {', '.join(HANDICAP_S)}")
    if request.mode not in ("each", "any", "shard"):
        raise Refused("unknown-mode", f"mode {request.mode!r} is none of each, any, shard")
    if request.mode == "shard" and not 2 <= request.shards <= MAX_SHARDS:
        raise Refused("bad-shards", f"shards={request.shards}: split the tests into 2 to {MAX_SHARDS} parts")
    if len(json.dumps(dict(request.params), default=str)) > MAX_PARAMS:
        raise Refused("params-too-long", f"params are longer than {MAX_PARAMS} characters")


def wants_of(selector: str, suites: Iterable[str], pack: tables.SuitePack) -> tuple[Selector, ...]:
    """The selector of a submission and what its suites need. Raises Refused."""
    try:
        wanted = parse(selector)
    except SelectorError as error:
        detail = {"position": error.position, "suggestion": error.suggestion}
        raise Refused("bad-selector", f"the selector cannot be read: {error}", detail) from None
    return (wanted, *needs_of(suites, pack))


def needs_of(suites: Iterable[str], pack: tables.SuitePack) -> tuple[Selector, ...]:
    """What suites of a pack need; those that it does not have need nothing."""
    needs = dict.fromkeys(pack.manifest["suites"].get(s, {}).get("needs") or "" for s in suites)
    return tuple(parse(n) for n in needs if n)


def selector_of(key: str, values: Sequence[str]) -> Selector:
    """`key in (…)`."""
    return parse(f"{key} in ({', '.join(quoted(v) for v in values)})")


def _bundle(session: Session, wanted: str) -> tables.Bundle:
    found = runs.find_bundle(session, wanted)
    if found is not None:
        return found
    names = session.scalars(select(tables.Bundle.name).distinct().limit(1000)).all()
    raise _unknown("unknown-bundle", "bundle", wanted, names, "send one with: farm bundle build")


def _pack(session: Session, wanted: str | None) -> tables.SuitePack:
    found = runs.find_pack(session, wanted)
    if found is not None:
        return found
    names = session.scalars(select(tables.SuitePack.name).distinct().limit(1000)).all()
    raise _unknown("unknown-pack", "suite pack", wanted or runs.BUILTIN_PACK, names, "send one with: farm suite pack")


def _unknown(code: str, what: str, wanted: str, known: Iterable[str], otherwise: str) -> Refused:
    names = list(known)
    hint = did_you_mean(wanted, names) or otherwise
    return Refused(
        code, f"there is no {what} {wanted!r}; {hint}", {"nearest": suggest(wanted, names), "known": names[:50]}
    )


def _suites(suites: Sequence[str], pack: tables.SuitePack) -> None:
    known = list(pack.manifest["suites"])
    if not suites:
        raise Refused("no-suite", f"no suite was named; {pack.name} has {', '.join(known)}", {"known": known})
    for suite in suites:
        if suite not in known:
            hint = did_you_mean(suite, known) or f"{pack.name} has {', '.join(known)}"
            detail = {"nearest": suggest(suite, known), "known": known}
            raise Refused("unknown-suite", f"there is no suite {suite!r} in {pack.name}; {hint}", detail)
    if len(set(suites)) != len(suites):
        raise Refused("suite-twice", "a suite was named twice; name each once")


def _tests(tests: Sequence[str] | None, pack: tables.SuitePack) -> None:
    if tests is None:
        return
    if not tests or len(tests) > MAX_TESTS:
        raise Refused("bad-tests", f"name 1 to {MAX_TESTS} tests, or none at all to run every one")
    files = list(pack.manifest["content"])
    for test in tests:
        file = test.split("::", 1)[0]
        if len(test) > 500 or file not in files:
            hint = did_you_mean(file, [f for f in files if f.endswith(".py")]) or "write it as smoke/test_x.py::test_y"
            raise Refused("unknown-test", f"{pack.name} has no file for the test {test[:200]!r}; {hint}")


def _environment(env: Mapping[str, Mapping[str, str]], known: Sequence[DeviceFacts]) -> None:
    names = {"*"} | {d.name for d in known} | {d.serial for d in known}
    for device, variables in env.items():
        if device not in names:
            hint = did_you_mean(device, names) or "use '*' for every device"
            raise Refused("unknown-device", f"environment for the unknown device {device!r}; {hint}")
        for key, value in variables.items():
            if not _VARIABLE.fullmatch(key) or "\0" in value:
                raise Refused("bad-variable", f"{key!r} is no name of a variable, or its value holds a zero byte")
    if sum(len(k) + len(v) for variables in env.values() for k, v in variables.items()) > MAX_ENV:
        raise Refused("env-too-long", f"the environment is longer than {MAX_ENV} characters")


def _matching(wants: Sequence[Selector], known: Sequence[DeviceFacts]) -> list[DeviceFacts]:
    if not known:
        raise Refused("no-device", "the farm has no device yet; connect one, or start virtual ones with: farm demo")
    fits = list(known)
    for wanted in wants:
        left = [d for d in fits if wanted.matches(d.facts())]
        if not left:
            raise _no_match(wanted, nearest(wanted, fits), known)
        fits = left
    return fits


def _no_match(wanted: Selector, missed: list[Mismatch], known: Sequence[DeviceFacts]) -> Refused:
    keys = {key for d in known for key in d.facts()}
    hints = {key: did_you_mean(key, keys) for key in sorted(wanted.keys() - keys)}
    strange = [f"no device has {key!r}, {hint}" for key, hint in hints.items() if hint]
    words = "; ".join([*strange, words_of(missed)])
    detail = {
        "nearest": [
            {
                "device": m.device.name,
                "serial": m.device.serial,
                "failed": [{"term": f.term, "key": f.key, "have": f.have} for f in m.failed],
            }
            for m in missed
        ]
    }
    return Refused("no-match", f"no device matches {wanted.text!r}; nearest: {words}", detail)


def _no_abi(bundle: str, abis: Sequence[str], told: Sequence[DeviceFacts]) -> Refused:
    """A bundle without a file for a device's ABI must not reach that device."""
    wrong = [d for d in told if d.labels.get("abi") not in abis]
    named = ", ".join(f"{d.name} ({d.labels.get('abi', 'ABI not known yet')})" for d in wrong[:5])
    narrow = None if len(wrong) == len(told) else selector_of("abi", abis).text
    hint = f"; narrow the selector with: {narrow}" if narrow else ""
    return Refused(
        "no-abi",
        f"bundle {bundle} has files for {', '.join(abis)} and none for {named}{hint}",
        {
            "bundle_abis": list(abis),
            "devices": [{"device": d.name, "abi": d.labels.get("abi")} for d in wrong],
            "narrow": narrow,  # the term that leaves the others
        },
    )


def _never_told(device: DeviceFacts, now: datetime) -> dict[str, str]:
    why = "its ABI is not known yet: the farm has not seen it"
    return {"device": device.name, "state": availability(device, now)[0].value, "why": why}


def _usable(fits: Sequence[DeviceFacts], now: datetime) -> tuple[list[DeviceFacts], list[dict[str, str]]]:
    """Devices that may work, and those that cannot now; when none can, all wait."""
    states = {d.id: availability(d, now) for d in fits}
    away = [d for d in fits if states[d.id][0] in _AWAY]
    if len(away) == len(fits):
        return list(fits), []
    left_out = [{"device": d.name, "state": states[d.id][0].value, "why": states[d.id][1]} for d in away]
    return [d for d in fits if d not in away], left_out
