"""What can go wrong between the farm and a device, as types.

Each class says who is in trouble (the adb server, the transport, the device, the command), because that alone decides
what happens next: a dead adb server is restarted, a lost device makes the attempt *device-lost*, a full device makes it
*deploy-failed*. Every error carries a `remedy`: the next thing to do.
"""

from __future__ import annotations

import re


class AdbError(Exception):
    """Anything that farm.adb raises. `remedy` says what to do about it."""

    default_remedy = "look at the device's page and its last incidents"

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy or self.default_remedy


class AdbServerGone(AdbError):
    """The adb server does not answer, or died in the middle of a request. Says nothing about the device."""

    default_remedy = "the tracker restarts the adb server; try again once it answers"


class DeviceUnavailable(AdbError):
    """The device cannot be talked to now; see the subclasses."""


class DeviceGone(DeviceUnavailable):
    """adb does not know the device, or its transport was lost in the middle of something."""

    default_remedy = "check cable, hub and power; it is used again as soon as adb lists it"


class DeviceOffline(DeviceUnavailable):
    """adb lists the device and gets no answer from it (booting, hung, a bad cable)."""

    default_remedy = "wait for it to boot, or reconnect it: adb reconnect offline"


class Unauthorized(DeviceUnavailable):
    """The device has not accepted this host's adb key."""

    default_remedy = "accept the key on the device's screen (\"always allow\"), or install the agent's adbkey.pub on it"


class AmbiguousDevice(DeviceUnavailable):
    """Several devices answer to this address."""

    default_remedy = "address it by its USB path or transport id, or give the devices different serial numbers"


class IdentityMismatch(DeviceUnavailable):
    """Another device answers at this address than the one that was leased."""

    default_remedy = "end the lease; the device that answers must be listed under its own serial number"


class ShellTimeout(AdbError):
    """A command did not end within its limit; its process group on the device was killed."""

    default_remedy = "give it more time, or find out why the device is slow (load, heat, a hung system server)"


class RemoteError(AdbError):
    """The device answered, and the answer is a refusal or makes no sense."""


class NoSpace(RemoteError):
    """The device's storage is full. `needed` and `free` are bytes; None: not known."""

    default_remedy = "free space on the device's /data, or choose a device with more storage"

    def __init__(self, message: str, *, needed: int | None, free: int | None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.needed = needed
        self.free = free


class WrongContent(RemoteError):
    """What the device stored is not what was sent."""

    default_remedy = "try again; when it happens again, the device's storage or its cable is bad"


class Cancelled(AdbError):
    """The caller's `cancelled` said yes while something long was going on."""

    default_remedy = "nothing to do: it was asked for"


#: What the adb server and adbd write, in the order in which they are looked for.
_WORDINGS: tuple[tuple[re.Pattern[str], type[AdbError]], ...] = (
    (re.compile(r"^(no|the) adb server at ", re.I), AdbServerGone),  # the lens, when there is nobody behind it
    (re.compile(r"more than one device|more than one emulator", re.I), AmbiguousDevice),
    (re.compile(r"unauthorized|failed to authenticate|no permissions|insufficient permissions", re.I), Unauthorized),
    (re.compile(r"\b(device )?(still )?(offline|connecting|authorizing)\b", re.I), DeviceOffline),
    (
        re.compile(r"device .*not found|no devices?(/emulators)? found|unknown host service.*transport", re.I),
        DeviceGone,
    ),
    (re.compile(r"no such device|transport.*(closed|not found)|device disconnected", re.I), DeviceGone),
)


#: Of what somebody wrote a message quotes so many characters.
_QUOTED = 80


def last_words(data: bytes | str) -> str:
    """The end of what a device or a server wrote: one line of at most 80 characters, `nothing` when there is none.

    Control characters and bytes that are no UTF-8 become U+FFFD.
    """
    text = data[-4 * _QUOTED :]
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
        if len(data) > 4 * _QUOTED:
            text = text.lstrip("\ufffd")  # a character that the cut went through
    text = " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text).split())
    return (text if len(text) <= _QUOTED else "…" + text[1 - _QUOTED :]) or "nothing"


def seconds(value: float) -> str:
    """A limit as a person reads it: `14.7 s`, `0.05 s`."""
    return f"{round(value, 1) if value >= 1 else value:.3g} s" if value < 100 else f"{value:.0f} s"


def from_server(text: str, address: str) -> AdbError:
    """The error for what an adb server answered after FAIL while `address` was asked for."""
    text = text.strip()[:500]
    for pattern, kind in _WORDINGS:
        if pattern.search(text):
            return kind(f"{address}: {text}")
    return RemoteError(f"{address}: adb refused: {text or 'no reason given'}")
