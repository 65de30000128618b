"""`pm`, `am` and `cmd`: thin, as a virtual device runs no apps; what it cannot do it says.

`pm install` registers an APK whose manifest is plain text, so that what a lease installs can be seen and taken away.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

from virtual.android.calls import Call, Handler, UsageError
from virtual.android.settings import settings

FILE = Path("/data/system/packages.json")
_MANIFEST_MAX = 1 << 20
_PACKAGE = re.compile(rb"""<manifest\b[^>]*\bpackage=["']([A-Za-z]\w*(?:\.[A-Za-z]\w*)+)["']""")


def third_party() -> list[str]:
    """What was installed since the device was made; survives a reboot."""
    return list(json.loads(FILE.read_text())) if FILE.is_file() else []


def _keep(names: list[str]) -> None:
    temporary = FILE.with_suffix(".new")
    temporary.write_text(json.dumps(sorted(set(names))))
    os.replace(temporary, FILE)


def _package_of(apk: Path) -> str | None:
    """The name in an APK's manifest, when that is plain text; None when it is no such file."""
    try:
        with zipfile.ZipFile(apk) as archive, archive.open("AndroidManifest.xml") as manifest:
            found = _PACKAGE.search(manifest.read(_MANIFEST_MAX))
    except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return None
    return None if found is None else found[1].decode()


async def _install(call: Call, apk: str) -> int | None:
    name = _package_of(Path(call.cwd, apk))
    if name is None:
        await call.err("Failure [INSTALL_PARSE_FAILED_NOT_APK: no archive with a manifest in plain text]")
        return 1
    _keep([*third_party(), name])
    await call.out("Success\n")
    return None


async def _uninstall(call: Call, name: str) -> int | None:
    names = third_party()
    if name not in names:
        await call.err("Failure [DELETE_FAILED_INTERNAL_ERROR]")
        return 1
    _keep([other for other in names if other != name])
    await call.out("Success\n")
    return None


async def pm(call: Call) -> int | None:
    """`pm list packages [-3] [FILTER]`, `pm path PACKAGE`, `pm install APK`, `pm uninstall PACKAGE`."""
    words = [word for word in call.arguments if not word.startswith("-")]
    added = third_party()
    installed = added if "-3" in call.arguments else [*call.android.profile.packages, *added]
    if words[:1] == ["install"] and len(words) == 2:
        return await _install(call, words[1])
    if words[:1] == ["uninstall"] and len(words) == 2:
        return await _uninstall(call, words[1])
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
