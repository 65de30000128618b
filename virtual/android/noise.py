"""What a phone logs by itself: boot, heat, and the chatter of its services."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtual.android.system import Android

_STATUS = ("NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL", "EMERGENCY", "SHUTDOWN")
# (buffer, priority, tag, text); fields in braces come from the live state.
_CHATTER = (
    ("main", "D", "WifiNl80211Manager", "Scan result ready event"),
    (
        "system",
        "I",
        "ActivityManager",
        "Background started FGS: Disallowed [callingPackage: com.android.shell; uidState: BTOP]",
    ),
    ("main", "D", "BatteryService", "Processing new values: level={level}, temperature={temperature}"),
    ("main", "W", "ProcessStats", "Tracking association SourceState pid=0 process=com.android.systemui"),
    ("system", "D", "ConnectivityService", "NetReassign [no changes] [c 0] [a 1] [i 0]"),
    ("main", "I", "thermal", "governor level {throttle_level}, {cores} cores left"),
    ("main", "D", "PowerUI", "can't show warning due to - plugged: true status unknown: false"),
    ("radio", "D", "RILJ", "[0391]> SIGNAL_STRENGTH [PHONE0]"),
    ("events", "I", "battery_level", "[{level},4200,{temperature}]"),
    ("main", "V", "AlarmManager", "Triggered alarm #2 on type 2"),
    ("kernel", "I", "", "healthd: battery l={level} t={temperature}"),
)


def boot_lines(android: Android) -> None:
    """The first lines of a boot."""
    write = android.logd.write
    boot_id, release = android.state()["boot_id"], android.properties.get("ro.build.version.release")
    write("I", "", f"Linux version (virtual) booting, boot_id {boot_id}", buffer="kernel", pid=0)
    write("I", "boot_progress_start", "[1200]", buffer="events", pid=2)
    write("I", "boot_progress_system_run", "[2900]", buffer="events", pid=2)
    write(
        "I", "SystemServer", f"Entered the Android system server! (virtual, Android {release})", buffer="system", pid=2
    )
    write("I", "adbd", "adbd started", pid=2)
    write("I", "ActivityManager", "System now ready", buffer="system", pid=2)
    write("I", "boot_progress_enable_screen", "[4700]", buffer="events", pid=2)
    write("I", "SystemServiceManager", "Starting phase 1000", buffer="system", pid=2)


def thermal_status(android: Android, before: int, after: int) -> None:
    """The lines for a change of Android's thermal status."""
    priority = "W" if after > before else "I"
    text = f"Thermal status changed from {_STATUS[before]} ({before}) to {_STATUS[after]} ({after})"
    android.logd.write(priority, "ThermalManagerService", text, buffer="system", pid=2)
    android.logd.write(
        "I", "thermal_changed", f"[{android.profile.thermal.status_node},{after}]", buffer="events", pid=2
    )


async def run(android: Android) -> None:
    """Chatter, every second or two, the same for the same serial."""
    dice = random.Random(android.device["serial"])
    while True:
        await asyncio.sleep(dice.uniform(0.5, 2.5))
        buffer, priority, tag, text = dice.choice(_CHATTER)
        state = android.state()
        if "{level}" in text and not state["battery"]:
            continue
        android.logd.write(priority, tag, text.format(**state, **state["battery"]), buffer=buffer, pid=2)
