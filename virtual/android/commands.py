"""All commands of /system/bin that are ours, by name."""

from __future__ import annotations

from virtual.android import debuggerd, dumpsys, logcat, packages, power, properties, screen, settings
from virtual.android.calls import Handler

COMMANDS: dict[str, Handler] = {
    name: handler
    for module in (debuggerd, dumpsys, logcat, packages, power, properties, screen, settings)
    for name, handler in module.COMMANDS.items()
}
