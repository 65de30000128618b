"""System properties, and `getprop` / `setprop`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from virtual.android.calls import Call, Handler, UsageError

PERSISTENT = Path("/data/property/persistent.json")
NAME_MAX = 256
VALUE_MAX = 91
"""Bytes that a property which is not `ro.` may have, as in Android's PROP_VALUE_MAX."""


class Properties:
    """The store. `ro.` can be set once, `persist.` survives a reboot, the rest ends with it."""

    def __init__(self, initial: dict[str, str], persistent: Path = PERSISTENT) -> None:
        self._values = dict(initial)
        self._persistent = persistent
        self.on_set: Callable[[str, str], None] = lambda name, value: None
        if persistent.is_file():
            self._values |= json.loads(persistent.read_text())

    def get(self, name: str, default: str = "") -> str:
        """Value, or the default where there is none."""
        return self._values.get(name, default)

    def set(self, name: str, value: str) -> None:
        """Sets it as `setprop` does; raises `ValueError` where Android refuses."""
        if not name or len(name) > NAME_MAX or any(not (c.isalnum() or c in "._-@:") for c in name):
            raise ValueError(f"invalid name {name!r}")
        if name.startswith("ro.") and name in self._values:
            raise ValueError("it is read-only")
        if not name.startswith("ro.") and len(value.encode()) > VALUE_MAX:
            raise ValueError("the value is too long")
        self._values[name] = value
        if name.startswith("persist."):
            kept = {key: item for key, item in self._values.items() if key.startswith("persist.")}
            temporary = self._persistent.with_suffix(".new")
            temporary.write_text(json.dumps(kept))
            os.replace(temporary, self._persistent)
        self.on_set(name, value)

    def items(self) -> list[tuple[str, str]]:
        """All, sorted by name."""
        return sorted(self._values.items())


async def getprop(call: Call) -> int | None:
    """`getprop [NAME [DEFAULT]]`."""
    properties = call.android.properties
    if not call.arguments:
        await call.out("".join(f"[{name}]: [{value}]\n" for name, value in properties.items()))
        return None
    if len(call.arguments) > 2 or call.arguments[0].startswith("-"):
        raise UsageError("usage: getprop [NAME [DEFAULT]]")
    await call.out(properties.get(*call.arguments) + "\n")
    return None


async def setprop(call: Call) -> int | None:
    """`setprop NAME VALUE`."""
    if len(call.arguments) != 2:
        raise UsageError("usage: setprop NAME VALUE")
    name, value = call.arguments
    try:
        call.android.properties.set(name, value)
    except (ValueError, OSError) as error:
        raise UsageError(f"Failed to set property '{name}' to '{value}': {error}") from None
    return None


COMMANDS: dict[str, Handler] = {"getprop": getprop, "setprop": setprop}
