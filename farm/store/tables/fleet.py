"""Hosts and the devices on them: facts, each with its own time; what people and machines noted of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base


class Host(Base):
    """A machine with devices on it. `info`: agent version, adb version and port, platform, measure_slots."""

    __tablename__ = "hosts"
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    seen_at: Mapped[datetime | None]
    drained: Mapped[bool] = mapped_column(default=False)
    info: Mapped[dict[str, Any]] = mapped_column(default=dict)
    incarnation: Mapped[str | None] = mapped_column(String(64))  # the agent process that speaks for it now
    lost_at: Mapped[datetime | None]  # nobody hears it since; None: heard of
    channel_hash: Mapped[str | None] = mapped_column(String(64))  # of the secret that its agent shows on its channel
    unready: Mapped[str | None] = mapped_column(Text)  # why it must not be given work, as its agent said last


class Device(Base):
    """A device by its own serial number; address and transport id are where it was last found."""

    __tablename__ = "devices"
    id: Mapped[int] = mapped_column(primary_key=True)
    serial: Mapped[str] = mapped_column(String(200), unique=True)
    name: Mapped[str] = mapped_column(String(200))
    host: Mapped[str] = mapped_column(ForeignKey("hosts.name"), index=True)
    virtual: Mapped[bool] = mapped_column(default=False)
    listed: Mapped[bool] = mapped_column(default=False)
    type: Mapped[str | None] = mapped_column(String(100))
    pool: Mapped[str | None] = mapped_column(String(100))
    ring: Mapped[int | None]
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    address: Mapped[str | None] = mapped_column(String(200))
    connection: Mapped[str] = mapped_column(String(20), default="gone")
    connection_at: Mapped[datetime | None]
    seen_at: Mapped[datetime | None]
    health: Mapped[str] = mapped_column(String(20), default="good")
    health_reason: Mapped[str | None] = mapped_column(Text)
    health_by: Mapped[str | None] = mapped_column(String(100))
    health_at: Mapped[datetime | None]
    health_until: Mapped[datetime | None]
    temperature_c: Mapped[float | None]
    battery_pct: Mapped[int | None]
    has_battery: Mapped[bool | None]
    boot_completed: Mapped[bool | None]
    boot_id: Mapped[str | None] = mapped_column(String(64))
    readiness_at: Mapped[datetime | None]
    fingerprint_id: Mapped[int | None]
    infra_errors: Mapped[int] = mapped_column(default=0)
    last_bundle: Mapped[str | None] = mapped_column(String(64))
    last_token: Mapped[int] = mapped_column(default=0)  # the newest lease token granted on it
    strikes: Mapped[int] = mapped_column(default=0, server_default="0")  # failures in a row: back-off doubles
    used_s: Mapped[float] = mapped_column(default=0.0, server_default="0")  # time under leases: wear
    health_action: Mapped[str | None] = mapped_column(Text)  # what a person is advised to do
    health_log: Mapped[str | None] = mapped_column(Text)  # tail of what led to it
    hot_since: Mapped[datetime | None]  # see farm.domain.readiness
    low_since: Mapped[datetime | None]  # its battery waits to be charged since then
    free_bytes: Mapped[int | None] = mapped_column(BigInteger)  # of /data/local/tmp
    clock_skew_s: Mapped[float | None]  # device minus host


class DeviceEvent(Base):
    """History of a device: connection changes, health changes, leases, reboots, heat. Append only."""

    __tablename__ = "device_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(40))
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    __table_args__ = (Index("ix_device_events_device_id_kind_at", "device_id", "kind", "at"),)


class Fingerprint(Base):
    """What a device is and can do, as measured; a new row when the facts' hash changes."""

    __tablename__ = "fingerprints"
    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    hash: Mapped[str] = mapped_column(String(64))
    facts: Mapped[dict[str, Any]]
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
    __table_args__ = (UniqueConstraint("device_id", "hash"),)


class DeviceNote(Base):
    """What a person wrote about a device, on its own page."""

    __tablename__ = "device_notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"), index=True)
    at: Mapped[datetime]
    by: Mapped[str] = mapped_column(String(100))
    text: Mapped[str] = mapped_column(Text)


class Hold(Base):
    """No new work on what it names, until it is lifted: a host, a device, a pool, or the whole farm (pause, drain).

    `ref`: the host's or pool's name, the device's serial; empty for the farm. In force while `lifted_at` is NULL and
    `until` is not past.
    """

    __tablename__ = "holds"
    id: Mapped[int] = mapped_column(primary_key=True)
    scope: Mapped[str] = mapped_column(String(20))  # host, device, pool, farm
    ref: Mapped[str] = mapped_column(String(200), default="")
    reason: Mapped[str] = mapped_column(Text)
    by: Mapped[str] = mapped_column(String(100))
    at: Mapped[datetime]
    until: Mapped[datetime | None]
    lifted_at: Mapped[datetime | None]
    lifted_by: Mapped[str | None] = mapped_column(String(100))
    __table_args__ = (Index("ix_holds_lifted_at", "lifted_at"),)


class Alert(Base):
    """Something that a person should see to. One open row per kind and ref; cleared when it is over."""

    __tablename__ = "alerts"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(40))  # last-of-its-kind, host-trouble, host-lost, …
    ref: Mapped[str] = mapped_column(String(200))
    at: Mapped[datetime]
    message: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    cleared_at: Mapped[datetime | None]
    __table_args__ = (
        Index(
            "uq_alerts_open",
            "kind",
            "ref",
            unique=True,
            sqlite_where=text("cleared_at IS NULL"),
            postgresql_where=text("cleared_at IS NULL"),
        ),
    )
