"""Alerts: one per trouble and not one per device, the last of a kind, and none for what passes by itself."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from farm.domain.alerts import HostState, Member, wanted

T = datetime(2026, 1, 1, tzinfo=UTC)
LAB = HostState("lab", silent=False)


def bad(number: int, seconds_ago: float, kind: str = "pixel", host: str = "lab") -> Member:
    return Member(number, f"d{number}", kind, host, "gone, adb does not list it", T - timedelta(seconds=seconds_ago))


def good(number: int, kind: str = "pixel", host: str = "lab") -> Member:
    return Member(number, f"d{number}", kind, host)


def kinds(members: list[Member], *hosts: HostState) -> list[tuple[str, str]]:
    return [(a.kind, a.ref) for a in wanted(members, hosts or (LAB,), T)]


def test_three_devices_of_a_host_that_fail_within_a_minute_are_one_alert_of_the_host() -> None:
    fleet = [bad(1, 100), bad(2, 80), bad(3, 45), good(4)]
    [alert] = wanted(fleet, [LAB], T)
    assert (alert.kind, alert.ref) == ("host-trouble", "lab")
    assert alert.message.startswith("3 of 4 devices of host lab failed together: d1, d2, d3")
    assert kinds([bad(1, 400), bad(2, 200), bad(3, 45), good(4)]) == []


def test_all_devices_of_a_small_host_are_one_alert_and_a_single_device_is_its_own_trouble() -> None:
    others = [good(8, host="far"), good(9, host="far")]
    assert kinds([bad(1, 60), bad(2, 50), *others]) == [("host-trouble", "lab")]
    assert kinds([bad(1, 60), *others]) == []


def test_the_last_device_of_a_kind_is_an_alert_and_the_last_but_one_is_none() -> None:
    assert kinds([bad(1, 40, "rk3568"), good(2, "rk3568"), good(3)]) == []
    [alert] = wanted([bad(1, 400, "rk3568"), bad(2, 40, "rk3568"), good(3)], [LAB], T)
    assert (alert.kind, alert.ref) == ("last-of-its-kind", "rk3568")
    assert "d1: gone" in alert.message


def test_what_has_not_lasted_half_a_minute_is_no_alert() -> None:
    assert kinds([bad(1, 29), bad(2, 20), bad(3, 10)]) == []


def test_a_silent_host_is_one_alert_and_not_one_of_each_kind_of_trouble() -> None:
    silent = HostState("lab", silent=True, adb_trouble="its adb server is away")
    assert kinds([bad(1, 50), bad(2, 50), bad(3, 50), good(4, host="far")], silent) == [("host-lost", "lab")]
    assert kinds([], silent) == []


def test_a_serial_number_that_two_devices_have_is_told_with_both_addresses() -> None:
    twice = HostState("lab", silent=False, duplicates=(("0123456789ABCDEF", ("usb:1-1", "usb:1-2")),))
    [alert] = wanted([good(1)], [twice], T)
    assert alert.kind == "duplicate-serial"
    assert "at usb:1-1 and usb:1-2" in alert.message


def test_trouble_with_the_adb_server_is_the_hosts() -> None:
    away = HostState("lab", silent=False, adb_trouble="the adb server on port 5038 speaks version 40")
    assert kinds([good(1)], away) == [("adb-server", "lab")]


def test_the_order_of_devices_and_hosts_does_not_matter() -> None:
    fleet = [bad(n, 30 + 5 * n, "rk" if n % 2 else "px", "lab" if n < 5 else "far") for n in range(1, 9)]
    hosts = [LAB, HostState("far", silent=True)]
    first = wanted(fleet, hosts, T)
    for seed in range(10):
        random.Random(seed).shuffle(fleet)
        assert wanted(fleet, hosts[::-1], T) == first


def test_a_host_that_is_not_ready_is_an_alert_unless_nobody_hears_it() -> None:
    full = HostState("lab", silent=False, unready="only 1.0 MB are free")
    [alert] = wanted([good(1)], [full], T)
    assert (alert.kind, alert.ref, alert.message) == (
        "host-unready", "lab", "host lab is given no work: only 1.0 MB are free",
    )  # fmt: skip
    assert kinds([good(1)], HostState("lab", silent=True, unready="only 1.0 MB are free")) == [("host-lost", "lab")]
