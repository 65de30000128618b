"""The devices of a plan, and sets of them: a set is an integer with one bit per device, quick to meet and to join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from farm.domain.scheduling.values import PlannedDevice
from farm.domain.selectors import Selector


def bits(mask: int) -> Iterator[int]:
    """The single bits of a set, lowest first."""
    while mask:
        low = mask & -mask
        yield low
        mask ^= low


class Fleet:
    """Every device by its id, which bit it has, and the sets that plans ask for."""

    def __init__(self) -> None:
        self.devices: dict[int, PlannedDevice] = {}
        self.bit_of: dict[int, int] = {}
        self.usable = self.idle = self.away = 0
        self.types: Counter[str | None] = Counter()  # usable devices per type
        self.held: Counter[str] = Counter()  # devices held per account
        self._at: dict[int, int] = {}  # bit -> device id
        self._free: list[int] = []  # bits of devices that were forgotten
        self._selected: dict[str, tuple[Selector, int]] = {}  # a selector's text -> the devices that it picks
        self._alike: dict[tuple[str, ...], dict[tuple[str | None, ...], int]] = {}

    def copy(self) -> Fleet:
        made = Fleet()
        made.devices, made.bit_of, made._at = dict(self.devices), dict(self.bit_of), dict(self._at)
        made.usable, made.idle, made.away = self.usable, self.idle, self.away
        made.types, made.held = self.types.copy(), self.held.copy()
        made._free, made._selected, made._alike = list(self._free), dict(self._selected), dict(self._alike)
        return made

    def device_at(self, bit: int) -> PlannedDevice:
        return self.devices[self._at[bit]]

    def of(self, mask: int) -> list[PlannedDevice]:
        """The devices of a set, by id."""
        return sorted((self.device_at(bit) for bit in bits(mask)), key=lambda d: d.id)

    def set_of(self, ids: Sequence[int] | frozenset[int]) -> int:
        """Those of the ids that are known."""
        mask = 0
        for device_id in ids:
            mask |= self.bit_of.get(device_id, 0)
        return mask

    def put(self, device: PlannedDevice) -> bool:
        """Add or replace; True when selectors may pick differently now."""
        before = self.devices.get(device.id)
        if before is None:
            bit = self.bit_of[device.id] = self._free.pop() if self._free else 1 << len(self._at)
            self._at[bit] = device.id
        else:
            bit = self.bit_of[device.id]
            self._count(before, -1)
        self.devices[device.id] = device
        self._count(device, 1)
        self.usable = self.usable | bit if device.usable else self.usable & ~bit
        self.idle = self.idle | bit if device.idle else self.idle & ~bit
        self.away = self.away | bit if device.away else self.away & ~bit
        if before is not None and before.facts == device.facts:
            return False
        self._choose_again(bit, device)
        return True

    def drop(self, device_id: int) -> None:
        device, bit = self.devices.pop(device_id), self.bit_of.pop(device_id)
        del self._at[bit]
        self._free.append(bit)
        self._count(device, -1)
        self.usable, self.idle, self.away = self.usable & ~bit, self.idle & ~bit, self.away & ~bit
        self._choose_again(bit, None)

    def picked_by(self, selector: Selector) -> int:
        """The devices that the selector picks."""
        known = self._selected.get(selector.text)
        if known is None:
            known = self._selected[selector.text] = (selector, self._pick(selector))
        return known[1]

    def _count(self, device: PlannedDevice, by: int) -> None:
        if device.usable:
            self.types[device.type] += by
        if device.holder is not None:
            for account in device.accounts:
                self.held[account] += by

    def _choose_again(self, bit: int, device: PlannedDevice | None) -> None:
        """One device is other than it was: each selector looks at it anew."""
        self._alike.clear()
        for text, (selector, mask) in self._selected.items():
            picked = device is not None and selector.matches(device.facts)
            self._selected[text] = (selector, mask | bit if picked else mask & ~bit)

    def _pick(self, selector: Selector) -> int:
        """Devices that are alike in what the selector asks for are looked at once."""
        keys = tuple(sorted(selector.keys()))
        mask = 0
        for alike in self._by(keys).values():
            if selector.matches(self.device_at(alike & -alike).facts):
                mask |= alike
        return mask

    def _by(self, keys: tuple[str, ...]) -> dict[tuple[str | None, ...], int]:
        found = self._alike.get(keys)
        if found is None:
            found = self._alike[keys] = {}
            for device_id, device in self.devices.items():
                values = tuple(device.facts.get(key) for key in keys)
                found[values] = found.get(values, 0) | self.bit_of[device_id]
        return found
