"""`adb devices` and `adb devices -l`: one line per transport, with header, notices of the server and old wordings.

A serial number there is an address (host:port for a network device), not an identity; an mDNS name may hold blanks.
Source of the format: AOSP `packages/modules/adb/transport.cpp`, `append_transport`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

_LINE = re.compile(
    r"(\S.*?)\s+(device|offline|unauthorized|authorizing|connecting|recovery|rescue|sideload|bootloader|fastbootd?"
    r"|host|detached|no permissions|no device)(?=\s|;|$)(.*)"
)
_NOTICE = re.compile(r"\*|#|List of devices|adb |error:|ERROR: Mult|Command failed|Otherwise|Try |This adb")
_VIEW = re.compile(r"ERROR:\s+-->\s+\(\w+\)\s+")  # the list as scrcpy prints it
_WORD = re.compile(r"\b(product|model|device|transport_id):(\S+)")
_PATH = re.compile(r"\s(?:usb:(\S+)|(\d+-[\d.]+))(?=\s|$)")


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """`state`: adb's own word. `usb`: the path, without `usb:`. None: not printed."""

    serial: str
    state: str
    usb: str | None = None
    transport_id: int | None = None
    product: str | None = None
    model: str | None = None
    device: str | None = None


def parse_devices(text: str) -> list[DeviceLine]:
    return [line for raw in text.splitlines() if (line := _line(_VIEW.sub("", raw).rstrip()))]


def _line(line: str) -> DeviceLine | None:
    match = None if _NOTICE.match(line) else _LINE.match(line)
    if match is None:
        return None
    rest = " " + match[3]
    words = dict(_WORD.findall(rest))
    path = _PATH.search(rest)
    number = words.get("transport_id", "")
    return DeviceLine(
        serial=match[1],
        state=match[2],
        usb=(path[1] or path[2]) if path else None,
        transport_id=int(number) if number.isdigit() else None,
        product=words.get("product"),
        model=words.get("model"),
        device=words.get("device"),
    )


def devices_core(text: str) -> dict[str, object]:
    """The uniform keys of kind `adb_devices`; what is not printed is left out."""
    return {
        "devices": [
            {key: value for key, value in asdict(line).items() if value is not None} for line in parse_devices(text)
        ]
    }
