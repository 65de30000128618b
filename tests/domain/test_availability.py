"""One word for a device: what adb cannot reach is not running, whoever holds it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from farm.domain.devices import Availability, Connection, DeviceFacts, availability

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
        (Connection.ONLINE, Availability.RUNNING, "attempt:17"),
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
