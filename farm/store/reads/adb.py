"""How a device is reached with adb by who has leased it: on which machine, at which server, by which name."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.store import tables


@dataclass(frozen=True, slots=True)
class AdbRef:
    """`adb -P port -s serial`, typed on the machine that calls itself `node`, which the farm knows as `host`.

    `serial` is what adb lists it as: an address for what is attached by network. `port` and `node` are None for a host
    whose agent has not said them.
    """

    host: str
    node: str | None
    port: int | None
    serial: str


def of_device(session: Session, device_id: int) -> AdbRef:
    """Raises NoResultFound when there is no such device."""
    device, host = tables.Device, tables.Host
    query = (
        select(device.serial, device.address, host.name, host.info)
        .join(host, host.name == device.host)
        .where(device.id == device_id)
    )
    serial, address, name, info = session.execute(query).one()
    return AdbRef(name, info.get("node"), info.get("adb_port"), address or serial)
