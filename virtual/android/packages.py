"""`pm`, `am` and `cmd`: packages are installed and instrumented; what a virtual device cannot do with them it says."""

from __future__ import annotations

from pathlib import Path

from virtual.android import apks
from virtual.android.apps import Instrumentation
from virtual.android.calls import Call, Handler, UsageError
from virtual.android.settings import settings


async def _install(call: Call, apk: str, flags: set[str]) -> int | None:
    try:
        apks.install(Path(call.cwd, apk), replace="-r" in flags, grant="-g" in flags)
    except apks.InstallError as error:
        await call.err(f"Failure [{error}]")
        return 1
    await call.out("Success\n")
    return None


async def _uninstall(call: Call, name: str) -> int | None:
    call.android.processes.kill_named(name)
    if not apks.uninstall(name):
        await call.err("Failure [DELETE_FAILED_INTERNAL_ERROR]")
        return 1
    await call.out("Success\n")
    return None


async def _list(call: Call, words: list[str], names: list[str]) -> int | None:
    if words[1] == "packages":
        chosen = [name for name in names if not words[2:] or words[2] in name]
        await call.out("".join(f"package:{name}\n" for name in chosen))
    elif words[1] == "instrumentation":
        found = [one for one in apks.installed().values() if one.instrumentation]
        await call.out(
            "".join(f"instrumentation:{one.name}/{one.instrumentation} (target={one.name})\n" for one in found)
        )
    elif words[1] == "features":
        await call.out("feature:android.hardware.ram.normal\n")
    else:
        raise UsageError(f"pm list {words[1]}: not supported by a virtual device")
    return None


async def _path(call: Call, name: str) -> int | None:
    added = apks.installed()
    if name not in added and name not in call.android.profile.packages:
        return 1
    where = added[name].apk if name in added else f"/system/priv-app/{name}/{name}.apk"
    await call.out(f"package:{where}\n")
    return None


async def pm(call: Call) -> int | None:
    """`pm list`, `path`, `install [-r] [-t] [-g] APK`, `uninstall`, `grant`, `revoke`, `clear`."""
    words = [word for word in call.arguments if not word.startswith("-")]
    flags = {word for word in call.arguments if word.startswith("-")}
    added = list(apks.installed())
    names = added if "-3" in flags else [*call.android.profile.packages, *added]
    match words:
        case ["install", apk]:
            return await _install(call, apk, flags)
        case ["uninstall", name]:
            return await _uninstall(call, name)
        case ["list", _, *_]:
            return await _list(call, words, names)
        case ["path", name]:
            return await _path(call, name)
        case ["grant" | "revoke" as verb, name, permission]:
            wrong = apks.grant(name, permission, verb == "grant")
            if wrong is not None:
                raise UsageError(wrong)
            return None
        case ["clear", name] if name in added:
            call.android.processes.kill_named(name)
            await call.out("Success\n")
            return None
    raise UsageError(f"pm {' '.join(words)}: not supported by a virtual device")


async def am(call: Call) -> int | None:
    """`am instrument [-w] [-r] [-e KEY VALUE]… PACKAGE/RUNNER`, `am force-stop NAME`; it has no activities."""
    match call.arguments:
        case ["force-stop", name]:
            call.android.processes.kill_named(name)
            return None
        case ["get-current-user"]:
            await call.out("0\n")
            return None
        case ["instrument", *rest]:
            return await _instrument(call, rest)
    raise UsageError(f"am {' '.join(call.arguments[:1])}: not supported by a virtual device")


def _extras(words: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """(component, what -e and its like said) of `am instrument`'s arguments."""
    component, extras, rest = "", [], iter(words)
    for word in rest:
        if word in ("-e", "--es", "--ez", "--ei"):
            key, value = next(rest, None), next(rest, None)
            if key is None or value is None:
                raise UsageError(f"am instrument: {word} needs a key and a value")
            extras.append((key, value))
        elif word in ("--user", "--abi", "-p"):
            next(rest, None)
        elif not word.startswith("-"):
            component = word
    return component, extras


async def _instrument(call: Call, words: list[str]) -> int | None:
    component, extras = _extras(words)
    name, _, runner = component.partition("/")
    package = apks.installed().get(name)
    full = f"{name}{runner}" if runner.startswith(".") else runner
    if package is None or not package.runs or package.instrumentation != full:
        told = f"ComponentInfo{{{name}/{full}}}"
        await call.out(
            f"INSTRUMENTATION_STATUS: Error=Unable to find instrumentation info for: {told}\n"
            "INSTRUMENTATION_STATUS: id=ActivityManagerService\nINSTRUMENTATION_STATUS_CODE: -1\n"
        )
        await call.err(f"android.util.AndroidException: INSTRUMENTATION_FAILED: {component}")
        return 1
    call.android.processes.kill_named(name)
    run = Instrumentation(call.android, package, extras)
    lines = run.run()
    try:
        async for line in lines:
            if line.startswith("{"):
                await call.out(f"INSTRUMENTATION_STATUS: event={line}\nINSTRUMENTATION_STATUS_CODE: 1\n")
            else:
                await call.out(f"INSTRUMENTATION_STATUS: stream={line}\nINSTRUMENTATION_STATUS_CODE: 1\n")
    finally:
        await lines.aclose()  # the caller went away: the app goes as well
    if run.code is None:
        await call.out("INSTRUMENTATION_RESULT: shortMsg=Process crashed.\nINSTRUMENTATION_CODE: 0\n")
        return None
    await call.out(f"INSTRUMENTATION_RESULT: exit_code={run.code}\nINSTRUMENTATION_CODE: -1\n")
    return None


async def cmd(call: Call) -> int | None:
    """`cmd SERVICE …`: hands on to the command of that service."""
    services: dict[str, Handler] = {"activity": am, "package": pm, "settings": settings}
    words = call.arguments
    if not words or words[0] == "-l":
        await call.out("Currently running services:\n" + "".join(f"  {name}\n" for name in services))
        return None
    if words[0] not in services:
        raise UsageError(f"cmd: Can't find service: {words[0]}")
    call.arguments = words[1:]
    return await services[words[0]](call)


COMMANDS: dict[str, Handler] = {"pm": pm, "am": am, "cmd": cmd}
