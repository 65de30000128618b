"""`pm`, `am` and `cmd`: thin, as a virtual device runs no apps; what it cannot do it says."""

from __future__ import annotations

from virtual.android.calls import Call, Handler, UsageError
from virtual.android.settings import settings


async def pm(call: Call) -> int | None:
    """`pm list packages [FILTER]`, `pm path PACKAGE`."""
    installed = call.android.profile.packages
    words = [word for word in call.arguments if not word.startswith("-")]
    if words[:2] == ["list", "packages"]:
        chosen = [name for name in installed if not words[2:] or words[2] in name]
        await call.out("".join(f"package:{name}\n" for name in chosen))
        return None
    if words[:2] == ["list", "features"]:
        await call.out("feature:android.hardware.ram.normal\n")
        return None
    if words[:1] == ["path"] and len(words) == 2:
        if words[1] not in installed:
            return 1
        await call.out(f"package:/system/priv-app/{words[1]}/{words[1]}.apk\n")
        return None
    raise UsageError(f"pm {' '.join(words)}: not supported: a virtual device runs no apps")


async def am(call: Call) -> int | None:
    """`am force-stop NAME` ends processes of that name; the rest needs an app runtime."""
    words = call.arguments
    if words[:1] == ["force-stop"] and len(words) == 2:
        call.android.processes.kill_named(words[1])
        return None
    if words[:1] == ["get-current-user"]:
        await call.out("0\n")
        return None
    raise UsageError(f"am {' '.join(words[:1])}: not supported: a virtual device runs no apps")


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
