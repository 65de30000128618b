"""All commands of /system/bin that are ours, by name."""

from __future__ import annotations

from virtual.android import logcat, properties
from virtual.android.calls import Handler

COMMANDS: dict[str, Handler] = {**properties.COMMANDS, **logcat.COMMANDS}
