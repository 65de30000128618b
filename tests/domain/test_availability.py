"""One word for a device: what adb cannot reach is not running, whoever holds it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from farm.domain.devices import Availability, Connection, DeviceFacts, Health, availability, usable_once

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def device(connection: Connection, holder: str | None = None, *, released: bool = False) -> DeviceFacts:
    return DeviceFacts(
        1, "s", "d", "local", True, True, None, None, None,
        connection=connection, seen_at=NOW, lease_holder=holder, lease_released=released,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("connection", "word", "why"),
    [
        (Connection.GONE, Availability.GONE, "adb does not list it; its lease is held by attempt 17"),
        (Connection.OFFLINE, Availability.NOT_READY, "adb says offline; its lease is held by attempt 17"),
        (Connection.ONLINE, Availability.RUNNING, "attempt 17"),
    ],
)
def test_a_cable_that_is_out_is_told_before_the_lease(connection: Connection, word: Availability, why: str) -> None:
    assert availability(device(connection, "attempt:17"), NOW) == (word, why)


def test_a_device_that_nobody_holds_is_just_gone() -> None:
    assert availability(device(Connection.GONE), NOW) == (Availability.GONE, "adb does not list it")


def test_a_device_that_is_being_cleaned_and_cannot_be_reached_is_not_called_cleaning() -> None:
    word, why = availability(device(Connection.OFFLINE, "attempt:3", released=True), NOW)
    assert word is Availability.NOT_READY
    assert why.endswith("held by attempt 3")


def on_host(**more: object) -> DeviceFacts:
    return replace(device(Connection.ONLINE), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("connection", list(Connection))
def test_a_device_whose_host_is_lost_is_away_whatever_adb_said_there(connection: Connection) -> None:
    lost = replace(device(connection), host_lost_at=NOW, seen_at=NOW - timedelta(minutes=5))
    assert availability(lost, NOW) == (Availability.STALE, "its host local is away since 11:55 UTC")


def test_how_long_a_host_is_away_is_told_with_its_day_and_one_never_heard_of_without() -> None:
    days = on_host(seen_at=NOW - timedelta(days=2))
    assert availability(days, NOW) == (Availability.STALE, "its host local is away since Nov 27, 12:00 UTC")
    assert availability(on_host(seen_at=None), NOW) == (Availability.STALE, "its host local has not been heard of")


def test_a_host_that_is_not_ready_keeps_its_idle_devices_from_work_and_says_why() -> None:
    full = "only 1.0 MB are free"
    word, why = availability(on_host(host_unready=full), NOW)
    assert (word, why) == (Availability.NOT_READY, "its host local is not ready: only 1.0 MB are free")
    assert availability(on_host(host_unready=full, lease_holder="attempt:1"), NOW)[0] is Availability.RUNNING


WELL = "a health check finds it well (nobody needs to release it)"


@pytest.mark.parametrize(
    ("more", "once"),
    [
        ({}, None),
        ({"connection": Connection.GONE, "health": Health.SUSPECT}, f"it is plugged in again and {WELL}"),
        (
            {"connection": Connection.GONE, "health": Health.BAD, "health_until": NOW + timedelta(minutes=5)},
            f"it is plugged in again, its quarantine is over at 12:05 UTC and {WELL}",
        ),
        (
            {"connection": Connection.GONE, "health": Health.BAD, "health_until": NOW - timedelta(minutes=5)},
            f"it is plugged in again and {WELL}",
        ),
        (
            {"health": Health.BAD, "health_until": NOW + timedelta(minutes=5)},
            f"its quarantine is over at 12:05 UTC and {WELL}",
        ),
        ({"health": Health.BAD}, "a person releases it (`farm device release d`)"),
        (
            {"connection": Connection.GONE, "health": Health.MAINTENANCE},
            "it is plugged in again and a person releases it (`farm device release d`)",
        ),
        ({"host_lost_at": NOW, "health": Health.SUSPECT}, f"its host local is heard of again and {WELL}"),
        ({"seen_at": None}, "its host local is heard of again"),
    ],
)
def test_what_must_happen_before_a_device_that_is_away_is_used_again(more: dict[str, object], once: str | None) -> None:
    assert usable_once(on_host(**more), NOW) == once
