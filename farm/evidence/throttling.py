"""Is a device slowed down by heat just now? Kernel cooling devices, frequency caps, Android's thermal status.

Not all slowdown is heat and no single signal tells all of it: a cooling device that is at work, a CPU whose highest
allowed frequency lies below what it can do, or a thermal status of moderate and above each count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: One command that prints all of it, `path:value` per line; what a device lacks is silently left out. The thermal
#: service is asked only where the kernel's cooling devices cannot be seen: the question costs a phone some 50 ms.
COMMAND = (
    "grep -H . /sys/class/thermal/cooling_device*/type /sys/class/thermal/cooling_device*/cur_state 2>/dev/null"
    " || dumpsys thermalservice 2>/dev/null | grep -i 'Thermal Status' | head -n 1; "
    "grep -H . /sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq "
    "/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq 2>/dev/null"
)
#: Android's THERMAL_STATUS_MODERATE: the first at which a device gives up performance.
MODERATE = 2
#: A cap this little below the top is rounding, not throttling.
_NEAR = 0.98

_LINE = re.compile(r"^(/sys/\S{1,200}/)([a-z_]{1,40}):(.{1,100})$")
_STATUS = re.compile(r"Thermal Status\s*:\s*(\d{1,2})", re.I)
_COOLS_A_PROCESSOR = re.compile(r"cpu|gpu|devfreq|processor|cluster|thermal-idle", re.I)


def signals(text: str) -> list[str]:
    """Why the device is throttled, in words; empty when nothing says that it is."""
    facts: dict[str, dict[str, str]] = {}
    for line in text.splitlines()[:2000]:
        if match := _LINE.match(line.strip()):
            facts.setdefault(match[1], {})[match[2]] = match[3].strip()
    status = _STATUS.search(text)
    found = [*_cooling(facts), *_caps(facts)]
    if status and int(status[1]) >= MODERATE:
        found.append(f"thermal status {status[1]}")
    return found


def _cooling(facts: dict[str, dict[str, str]]) -> Iterator[str]:
    for values in facts.values():
        kind, state = values.get("type", ""), _number(values.get("cur_state"))
        if _COOLS_A_PROCESSOR.search(kind) and state is not None and state > 0:
            yield f"{kind} cools at step {state}"


def _caps(facts: dict[str, dict[str, str]]) -> Iterator[str]:
    for path, values in facts.items():
        allowed, possible = _number(values.get("scaling_max_freq")), _number(values.get("cpuinfo_max_freq"))
        if allowed is not None and possible and allowed < possible * _NEAR:
            cpu = path.rstrip("/").split("/")[-2]
            yield f"{cpu} is held at {allowed // 1000} of {possible // 1000} MHz"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 16 else None
