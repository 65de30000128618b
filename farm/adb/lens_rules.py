"""What the lens lets through: requests of the adb host protocol, parsed and judged. Pure.

A suite may ask about and talk to the devices of its lease, and nothing else: not to the server itself (kill, connect,
pair, mDNS), not to other devices, and not in a way that opens a way round the lens (forward: the server listens on the
host; reverse: the device reaches ports of the host; tcpip: the device listens for anybody). Everything that is not
known is refused. Source of the requests: AOSP `packages/modules/adb/SERVICES.TXT` and `adb.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from farm.evidence.adb_output import DeviceLine

#: What adb answers when a device is not there; clients know this wording.
_NOT_FOUND = "device '{}' not found"
#: Services of a device that touch the device alone.
DEVICE_SERVICES = (
    *("shell", "exec", "sync", "abb", "abb_exec", "tcp", "local", "localabstract", "localreserved", "localfilesystem"),
    *("dev", "dev-raw", "framebuffer", "jdwp", "track-jdwp", "track-app", "reboot", "log", "sink", "source"),
)
_WHY_NOT = {
    "reverse": "a reverse forward lets the device reach ports of the host; serve from the device, or push files",
    "tcpip": "it would open the device to the network",
    "usb": "it restarts the device's adbd",
    "root": "it changes the device beyond this lease",
    "unroot": "it changes the device beyond this lease",
    "remount": "it changes the device beyond this lease",
    "disable-verity": "it changes the device beyond this lease",
    "enable-verity": "it changes the device beyond this lease",
    "sideload": "it replaces the device's system",
    "kill": "the adb server belongs to the farm",
    "connect": "a suite reaches the devices of its lease only",
    "disconnect": "a suite reaches the devices of its lease only",
    "pair": "a suite reaches the devices of its lease only",
    "reconnect": "the connection belongs to the farm",
    "reconnect-offline": "the connection belongs to the farm",
    "forward": "the adb server would listen on the host; open tcp:PORT on the device instead",
    "killforward": "forwards belong to the farm",
    "killforward-all": "forwards belong to the farm",
    "list-forward": "forwards belong to the farm",
    "mdns": "a suite reaches the devices of its lease only",
    "emulator": "a suite reaches the devices of its lease only",
    "attach": "the connection belongs to the farm",
    "detach": "the connection belongs to the farm",
}
#: Questions about the server that give nothing away.
_SERVER_QUESTIONS = frozenset({"version", "host-features"})
#: Questions about one device.
_DEVICE_QUESTIONS = re.compile(r"(get-state|get-serialno|get-devpath|features|wait-for-(any|usb|local)-[a-z]+)\Z")


class Kind(Enum):
    SERVER = auto()  # pass on as it is
    DEVICES = auto()  # answer with the allowed devices, once
    TRACK = auto()  # … at every change
    QUESTION = auto()  # about one device: `question`
    TRANSPORT = auto()  # bind the connection to one device


@dataclass(frozen=True, slots=True)
class Allowed:
    """What to do. `target`: an address at the real server. `long`: with model and transport. `tport`: tell its id."""

    kind: Kind
    target: str | None = None
    question: str = ""
    long: bool = False
    tport: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """What to answer after FAIL, and what to report; `report` None: a mistake, not an attempt."""

    answer: str
    report: str | None


class Rules:
    """`allowed`: address at the real server → serial number that is shown. Both name the device here."""

    def __init__(self, allowed: Mapping[str, str]) -> None:
        self.allowed = dict(allowed)
        self._addresses = {shown: address for address, shown in self.allowed.items()} | {a: a for a in self.allowed}

    def judge(self, request: str, transports: Mapping[int, str]) -> Allowed | Refused:
        """Judge a host request. `transports`: ids of allowed devices → address."""
        prefix, _, rest = request.partition(":")
        if prefix == "host":
            return self._host(rest, transports)
        if prefix in ("host-serial", "host-transport-id"):
            return self._about(prefix, rest, transports)
        if prefix in ("host-usb", "host-local"):
            return self._question(self._only(), rest)
        return _refuse(prefix, "it is no request of the host protocol")

    def _host(self, rest: str, transports: Mapping[int, str]) -> Allowed | Refused:
        verb, _, argument = rest.partition(":")
        if verb in _SERVER_QUESTIONS and not argument:
            return Allowed(Kind.SERVER)
        if verb in ("devices", "devices-l"):
            return Allowed(Kind.DEVICES, long=verb.endswith("-l"))
        if verb in ("track-devices", "track-devices-l"):
            return Allowed(Kind.TRACK, long=verb.endswith("-l"))
        if verb == "transport":
            return self._transport(self._named(argument))
        if verb == "transport-id":
            return self._transport(self._numbered(argument, transports))
        if verb in ("transport-any", "transport-usb", "transport-local"):
            return self._transport(self._only())
        if verb == "tport":
            how, _, name = argument.partition(":")
            target = self._named(name) if how == "serial" else self._only()
            return self._transport(target, tport=True)
        if _DEVICE_QUESTIONS.match(verb) and not argument:
            return self._question(self._only(), verb)
        return _refuse(verb, "the lens does not know it")

    def _about(self, prefix: str, rest: str, transports: Mapping[int, str]) -> Allowed | Refused:
        if prefix == "host-transport-id":
            number, _, question = rest.partition(":")
            return self._question(self._numbered(number, transports), question)
        # A serial number may hold colons (host:port): take the longest name that fits.
        names = [name for name in self._addresses if rest.startswith(f"{name}:")]
        if names:
            name = max(names, key=len)
            return self._question(self._addresses[name], rest[len(name) + 1 :])
        match = re.match(r"(?:\[[^\]]*\]|[^:]*)(?::\d+)?(?=:)", rest)
        return self._stranger(match[0] if match else rest)

    def _question(self, target: str | Refused, question: str) -> Allowed | Refused:
        if isinstance(target, Refused):
            return target
        if not _DEVICE_QUESTIONS.match(question):
            return _refuse(question.partition(":")[0], "the lens does not know it")
        return Allowed(Kind.QUESTION, target, question)

    def _transport(self, target: str | Refused, tport: bool = False) -> Allowed | Refused:
        return target if isinstance(target, Refused) else Allowed(Kind.TRANSPORT, target, tport=tport)

    def _named(self, name: str) -> str | Refused:
        return self._addresses.get(name) or self._stranger(name)

    def _numbered(self, number: str, transports: Mapping[int, str]) -> str | Refused:
        known = transports.get(int(number)) if number.isdigit() and len(number) < 19 else None
        return known or Refused(
            f"no device with transport id '{number[:20]}'", f"transport {number[:20]} is not leased"
        )

    def _only(self) -> str | Refused:
        if len(self.allowed) == 1:
            return next(iter(self.allowed))
        if self.allowed:
            return Refused("more than one device/emulator", None)
        return Refused("no devices/emulators found", None)

    def _stranger(self, name: str) -> Refused:
        name = name[:100]
        return Refused(_NOT_FOUND.format(name), f"{name!r} is not a device of this lease")

    def device_service(self, service: str) -> Refused | None:
        """Judge what is asked of a device once the connection is bound to it; None: let it through."""
        verb = re.split(r"[:,]", service, maxsplit=1)[0]
        if verb == "tcp" and not re.fullmatch(r"tcp:\d{1,5}", service):
            return _refuse("tcp", "only ports of the device itself: tcp:PORT")
        if verb == "reboot" and service != "reboot:":
            return _refuse("reboot", "only into the system: a bootloader would keep the device from the next lease")
        if verb == "host":  # newer adb asks the server on a connection that is bound to a device
            return _refuse(service.split(":")[1] if ":" in service else verb, "the lens does not know it")
        return None if verb in DEVICE_SERVICES else _refuse(verb, "the lens does not know it")

    def show(self, line: DeviceLine, long: bool) -> str | None:
        """The line of `devices` or `devices -l` for one of the real server's; None: it is not shown."""
        shown = self.allowed.get(line.serial)
        if shown is None:
            return None
        if not long:
            return f"{shown}\t{line.state}\n"
        words = [f"{key}:{value}" for key in ("product", "model", "device") if (value := getattr(line, key))]
        if line.transport_id is not None:
            words.append(f"transport_id:{line.transport_id}")
        return f"{shown:<22} {line.state} {' '.join(words)}\n"


def _refuse(verb: str, unknown: str) -> Refused:
    verb = verb[:40]
    why = _WHY_NOT.get(verb, unknown)
    return Refused(f"{verb!r} is not for a suite: {why}", f"{verb!r}: {why}")
