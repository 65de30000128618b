"""`settings`: the three tables of the settings provider, kept on /data."""

from __future__ import annotations

import json
import os
from pathlib import Path

from virtual.android.calls import Call, Handler, UsageError

FILE = Path("/data/system/settings.json")
DEFAULTS = {
    "global": {"adb_enabled": "1", "airplane_mode_on": "0", "stay_on_while_plugged_in": "0", "device_name": "virtual"},
    "system": {"screen_brightness": "102", "screen_off_timeout": "60000"},
    "secure": {"android_id": "0000000000000000"},
}
USAGE = "usage: settings get|put|delete|list system|secure|global [KEY [VALUE]]"
KEY_MAX, VALUE_MAX = 256, 4096


class Settings:
    """The tables; survive a reboot."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self.tables = {name: dict(table) for name, table in DEFAULTS.items()}
        if file.is_file():
            for name, table in json.loads(file.read_text()).items():
                self.tables[name] = dict(table)

    def save(self) -> None:
        """Writes them to /data."""
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps(self.tables))
        os.replace(temporary, self._file)


async def settings(call: Call) -> int | None:
    """`settings get|put|delete|list TABLE [KEY [VALUE]]`."""
    words = list(call.arguments)
    if words[:1] == ["--user"]:
        words = words[2:]
    if len(words) < 2 or words[1] not in DEFAULTS:
        raise UsageError(USAGE)
    verb, table = words[0], call.android.settings.tables[words[1]]
    rest = words[2:]
    if verb == "list" and not rest:
        await call.out("".join(f"{key}={value}\n" for key, value in sorted(table.items())))
    elif verb == "get" and len(rest) == 1:
        await call.out(table.get(rest[0], "null") + "\n")
    elif verb == "put" and len(rest) >= 2 and len(rest[0]) <= KEY_MAX and len(rest[1]) <= VALUE_MAX:
        table[rest[0]] = rest[1]
        call.android.settings.save()
    elif verb == "delete" and len(rest) == 1:
        await call.out(f"Deleted {int(table.pop(rest[0], None) is not None)} rows\n")
        call.android.settings.save()
    else:
        raise UsageError(USAGE)
    return None


COMMANDS: dict[str, Handler] = {"settings": settings}
