"""Holds: no new work on a device, a host, a pool or the whole farm, until a person lifts it or its time is over.

What runs there goes on to its end. *Pause* and *drain* are both holds; who drains waits until nothing runs there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

#: What can be held.
SCOPES = ("device", "host", "pool", "farm")


@dataclass(frozen=True, slots=True)
class Hold:
    """`ref`: the device's serial, the host's or pool's name; empty for the farm. `until` None: until it is lifted.

    `called`: what people call a device whose serial `ref` is; None where that is the same.
    """

    id: int
    scope: str
    ref: str
    reason: str
    by: str
    at: datetime
    until: datetime | None = None
    called: str | None = None

    @property
    def what(self) -> str:
        """`host lab-2`, `device husky-1`, `the farm`."""
        return "the farm" if self.scope == "farm" else f"{self.scope} {self.called or self.ref}"

    def names(self, serial: str, host: str, pool: str | None) -> bool:
        wanted = {"device": serial, "host": host, "pool": pool, "farm": ""}
        return self.scope in wanted and wanted[self.scope] == self.ref

    def words(self) -> str:
        """`host lab-2 is paused by ada: new cable`."""
        return f"{self.what} is paused by {self.by}: {self.reason}"


def holding(holds: Iterable[Hold], serial: str, host: str, pool: str | None) -> Hold | None:
    """The hold that keeps this device from new work: the oldest of those that name it."""
    found = [hold for hold in holds if hold.names(serial, host, pool)]
    return min(found, key=lambda hold: (hold.at, hold.id), default=None)
