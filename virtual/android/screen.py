"""`screencap`, `input`, `wm`, `svc`: the screen of a device that has one."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from virtual.android.calls import Call, Handler, UsageError
from virtual.profiles import Screen

_NO_SCREEN = "no display is attached to this board"
KEYCODE_POWER, KEYCODE_SLEEP, KEYCODE_WAKEUP = 26, 223, 224


def png(screen: Screen, shade: int, bar: float) -> bytes:
    """A screenshot: one grey level, and a lighter bar at the top whose length (0 to 1) shows the battery."""
    lit = round(screen.width * min(max(bar, 0.0), 1.0))
    plain = b"\0" + bytes((shade, shade, shade)) * screen.width
    barred = b"\0" + bytes((min(255, shade + 120),) * 3) * lit + bytes((shade, shade, shade)) * (screen.width - lit)
    rows = barred * 48 + plain * (screen.height - 48)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", screen.width, screen.height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


async def screencap(call: Call) -> int | None:
    """`screencap [-p] [FILE]`."""
    screen = call.android.profile.screen
    if screen is None:
        raise UsageError(f"screencap: {_NO_SCREEN}")
    files = [word for word in call.arguments if not word.startswith("-")]
    if "-p" not in call.arguments and not any(name.endswith(".png") for name in files):
        raise UsageError("screencap: only -p (PNG) is supported on a virtual device")
    level = call.android.state()["battery"].get("level", 0) / 100
    image = png(screen, 40 if call.android.screen_on else 0, level if call.android.screen_on else 0.0)
    if files:
        Path(call.cwd, files[0]).write_bytes(image)
    else:
        await call.out(image)
    return None


async def wm(call: Call) -> int | None:
    """`wm size`, `wm density`."""
    screen = call.android.profile.screen
    if screen is None:
        raise UsageError(f"wm: {_NO_SCREEN}")
    if call.arguments == ["size"]:
        await call.out(f"Physical size: {screen.width}x{screen.height}\n")
    elif call.arguments == ["density"]:
        await call.out(f"Physical density: {screen.density}\n")
    else:
        raise UsageError(f"wm {' '.join(call.arguments)}: not supported on a virtual device")
    return None


async def input_event(call: Call) -> int | None:
    """`input keyevent|tap|swipe|text …`: keys switch the screen, the rest is logged and has nobody to touch."""
    words = call.arguments
    if words[:1] == ["keyevent"] and len(words) == 2:
        code = words[1].removeprefix("KEYCODE_").upper()
        keys = {"POWER": KEYCODE_POWER, "SLEEP": KEYCODE_SLEEP, "WAKEUP": KEYCODE_WAKEUP}
        number = int(code) if code.isdigit() else keys.get(code, 0)
        if number == KEYCODE_POWER:
            call.android.screen_on = not call.android.screen_on
        elif number in (KEYCODE_SLEEP, KEYCODE_WAKEUP):
            call.android.screen_on = number == KEYCODE_WAKEUP
    elif words[:1] not in (["tap"], ["swipe"], ["text"], ["keyevent"]):
        raise UsageError("usage: input keyevent|tap|swipe|text ...")
    call.android.logd.write("D", "InputDispatcher", f"input {' '.join(words)}"[:200], buffer="system", pid=2)
    return None


async def svc(call: Call) -> int | None:
    """`svc power stayon true|false|usb|ac`; radios are not there."""
    words = call.arguments
    if words[:2] == ["power", "stayon"] and len(words) == 3:
        call.android.stay_on = words[2] != "false"
        return None
    if words[:1] in (["wifi"], ["data"], ["nfc"], ["bluetooth"]):
        raise UsageError(f"svc {words[0]}: not supported: a virtual device has no radio")
    raise UsageError("usage: svc power stayon true|false|usb|ac")


COMMANDS: dict[str, Handler] = {"screencap": screencap, "wm": wm, "input": input_event, "svc": svc}
