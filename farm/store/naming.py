"""Which device a person means: by its name, its serial number, `host/name` or `host/serial`, or its id.

A serial number is one device of the whole farm. A name is what an inventory gives, and each host has one of its own:
two hosts may call different devices the same. Then the name alone picks none of them.
"""

from __future__ import annotations

from sqlalchemy import Row, or_, select
from sqlalchemy.orm import Session

from farm.store import tables

#: So many of those that share a name are told.
_TOLD = 6


class AmbiguousName(LookupError):
    """Several devices are called so; the message says which (`host/serial`) and how one is named alone."""

    def __init__(self, ref: str, candidates: list[str]) -> None:
        more = f" and {len(candidates) - _TOLD} more" if len(candidates) > _TOLD else ""
        told = ", ".join(candidates[:_TOLD]) + more
        super().__init__(f"several devices are called {ref!r}: {told}; name one by its serial number")
        self.candidates = candidates


def device_id(session: Session, ref: str) -> int | None:
    """The device that `ref` means; None when there is none. Raises AmbiguousName.

    A name goes before a serial number, that before what names the host as well, and that before an id.
    """
    d = tables.Device
    host, slash, rest = ref.partition("/")
    asked = [d.name == ref, d.serial == ref]
    if slash:
        asked.append((d.host == host) & or_(d.name == rest, d.serial == rest))
    if ref.isascii() and ref.isdigit() and len(ref) < 16:
        asked.append(d.id == int(ref))
    found = session.execute(select(d.id, d.name, d.serial, d.host).where(or_(*asked)).order_by(d.host, d.id)).all()
    if not found:
        return None
    best = min(_rank(row, ref, host, rest) for row in found)
    meant = [row for row in found if _rank(row, ref, host, rest) == best]
    if len(meant) > 1:
        raise AmbiguousName(ref, [f"{row.host}/{row.serial}" for row in meant])
    return int(meant[0].id)


def _rank(row: Row[int, str, str, str], ref: str, host: str, rest: str) -> int:
    if row.name == ref:
        return 0
    if row.serial == ref:
        return 1
    return 2 if row.host == host and rest in (row.name, row.serial) else 3
