"""The inventory, `devices.yaml`: hosts, what the device types are, and which devices the farm should have.

    hosts: {local: {measure_slots: 1, power_cycle: [uhubctl, -a, cycle, -s, "{serial}"]}}
    types:
      pixel-8-pro: {name: Pixel 8 Pro, kind: phone, match: {ro.product.device: husky}, labels: {soc: Tensor G3}}
    devices:
      - {serial: virtual-pixel-8-pro, name: husky-v1, type: pixel-8-pro, pool: demo, ring: 0, labels: {owner: demo}}
    connect: ["127.0.0.1:5600"]   # addresses that the agent keeps connected
    virtual: true                 # connect every virtual device below the folder `virtual` of the state folder

Text in, `Inventory` or a list of errors out: a wrong file changes nothing. A device that is not listed is usable all
the same, by its labels. A device takes the type that it names, or the first whose `match` its properties meet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from farm.domain.names import did_you_mean
from farm.domain.yaml_lines import Checker, FileError, load

KINDS = ("phone", "board", "tablet", "other")
#: What `parse` returns for a wrong file.
InventoryError = FileError

_MAX_COMMAND = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ADDRESS = re.compile(r"[A-Za-z0-9._-]{1,200}:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A machine with devices on it. `measure_slots`: how many measuring tests may run at once.

    `power_cycle`: the command that switches the port of a device off and on, run on that host, never through a shell;
    `{serial}` and `{address}` stand for the device. Empty: the host cannot.
    """

    name: str
    measure_slots: int = 1
    power_cycle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """What a kind of device is. `match`: properties that a device of this type has, `*` and `?` allowed."""

    key: str
    name: str
    kind: str = "other"
    match: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device that the farm should have, by its own serial number."""

    serial: str
    name: str
    type: str | None = None
    host: str | None = None
    pool: str | None = None
    ring: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The whole file, checked."""

    hosts: Mapping[str, HostEntry] = field(default_factory=dict)
    types: Mapping[str, TypeEntry] = field(default_factory=dict)
    devices: tuple[DeviceEntry, ...] = ()
    connect: tuple[str, ...] = ()
    virtual: bool = False

    def device(self, serial: str) -> DeviceEntry | None:
        return next((d for d in self.devices if d.serial == serial), None)

    def type_of(self, serial: str, props: Mapping[str, str]) -> TypeEntry | None:
        """The type that the device names, or the first whose `match` its properties meet."""
        entry = self.device(serial)
        if entry is not None and entry.type is not None:
            return self.types[entry.type]
        return next((t for t in self.types.values() if t.match and _meets(t.match, props)), None)


def _meets(match: Mapping[str, str], props: Mapping[str, str]) -> bool:
    from farm.domain.selector_terms import equals

    return all(key in props and equals(props[key], want) for key, want in match.items())


def parse(text: str) -> Inventory | list[InventoryError]:
    """Read the file's text. Every error is found at once, not only the first."""
    value, lines, errors = load(text)
    check = Checker(lines, errors)
    if errors and value is None:
        return errors
    top = check.mapping(value, (), "the inventory")
    check.keys(top, (), ("hosts", "types", "devices", "connect", "virtual"), "the inventory")
    hosts = {
        name: _host(check, name, entry) for name, entry in check.mapping(top.get("hosts"), ("hosts",), "hosts").items()
    }
    types = {
        key: _type(check, key, entry) for key, entry in check.mapping(top.get("types"), ("types",), "types").items()
    }
    devices = tuple(
        found
        for i, entry in enumerate(check.sequence(top.get("devices"), ("devices",), "devices"))
        if (found := _device(check, ("devices", i), entry, types, hosts)) is not None
    )
    _unique(check, devices)
    connect = tuple(_addresses(check, top.get("connect")))
    virtual = top.get("virtual", False)
    if not isinstance(virtual, bool):
        check.wrong(("virtual",), f"virtual must be true or false, not {virtual!r}")
    return errors or Inventory(hosts, types, devices, connect, virtual is True)


def _host(check: Checker, name: str, entry: Any) -> HostEntry:
    path = ("hosts", name)
    body = check.mapping(entry, path, f"host {name!r}")
    check.keys(body, path, ("measure_slots", "power_cycle"), f"host {name!r}")
    slots = check.number(body.get("measure_slots", 1), (*path, "measure_slots"), "measure_slots", 1, 64)
    return HostEntry(name, int(slots or 1), _command(check, body.get("power_cycle"), (*path, "power_cycle")))


def _command(check: Checker, value: Any, path: tuple[Any, ...]) -> tuple[str, ...]:
    """A program and its arguments; which of them may name the device is checked, so that a typo does not stay."""
    parts = [
        check.text(part, (*path, i), "a part of a command") or ""
        for i, part in enumerate(check.sequence(value, path, "power_cycle"))
    ]
    if len(parts) > _MAX_COMMAND:
        check.wrong(path, f"power_cycle has {len(parts)} parts, more than {_MAX_COMMAND}", "put it into a script")
    for i, part in enumerate(parts):
        for name in re.findall(r"\{(\w*)\}", part):
            if i == 0 or name not in ("serial", "address"):
                what = "the program itself" if i == 0 else f"{{{name}}}"
                check.wrong(
                    (*path, i), f"power_cycle: {what} cannot stand for the device", "known: {serial}, {address}"
                )
    return tuple(parts)


def _type(check: Checker, key: str, entry: Any) -> TypeEntry:
    path = ("types", key)
    body = check.mapping(entry, path, f"type {key!r}")
    check.keys(body, path, ("name", "kind", "match", "labels"), f"type {key!r}")
    kind = check.text(body.get("kind", "other"), (*path, "kind"), "kind") or "other"
    if kind not in KINDS:
        check.wrong(
            (*path, "kind"), f"unknown kind {kind!r}", did_you_mean(kind, KINDS) or f"one of {', '.join(KINDS)}"
        )
    return TypeEntry(
        key,
        check.text(body.get("name", key), (*path, "name"), "name") or key,
        kind,
        check.labels(body.get("match"), (*path, "match"), "match"),
        check.labels(body.get("labels"), (*path, "labels"), "label"),
    )


_DEVICE_KEYS = ("serial", "name", "type", "host", "pool", "ring", "labels")


def _device(
    check: Checker, path: tuple[Any, ...], entry: Any, types: Mapping[str, TypeEntry], hosts: Mapping[str, HostEntry]
) -> DeviceEntry | None:
    body = check.mapping(entry, path, "a device")
    check.keys(body, path, _DEVICE_KEYS, "a device")
    serial = check.text(body.get("serial"), (*path, "serial"), "serial", needed=True)
    if serial is None:
        return None
    name = check.text(body.get("name", serial), (*path, "name"), "name") or serial
    if not _NAME.fullmatch(name):
        check.wrong((*path, "name"), f"name {name!r} must be letters, digits, '.', '_' and '-' (it stands in URLs)")
    for key, known in (("type", types), ("host", hosts)):
        value = body.get(key)
        if value is not None and str(value) not in known:
            hint = did_you_mean(str(value), known) or f"add it to {key}s"
            check.wrong((*path, key), f"device {name!r} names the unknown {key} {value!r}", hint)
    ring = check.number(body.get("ring"), (*path, "ring"), "ring", 0, 100)
    return DeviceEntry(
        serial,
        name,
        check.text(body.get("type"), (*path, "type"), "type"),
        check.text(body.get("host"), (*path, "host"), "host"),
        check.text(body.get("pool"), (*path, "pool"), "pool"),
        None if ring is None else int(ring),
        check.labels(body.get("labels"), (*path, "labels"), "label"),
    )


def _unique(check: Checker, devices: tuple[DeviceEntry, ...]) -> None:
    for what in ("serial", "name"):
        seen: dict[str, int] = {}
        for i, device in enumerate(devices):
            value = getattr(device, what)
            if value in seen:
                check.wrong(("devices", i, what), f"{what} {value!r} is listed twice", "every device has its own")
            seen[value] = i


def _addresses(check: Checker, value: Any) -> list[str]:
    found: list[str] = []
    for i, item in enumerate(check.sequence(value, ("connect",), "connect")):
        if isinstance(item, str) and _ADDRESS.fullmatch(item):
            found.append(item)
        else:
            check.wrong(("connect", i), f"{item!r} is no address", 'write "host:port", for example "127.0.0.1:5600"')
    return found
