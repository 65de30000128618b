"""What the lens lets through: every request of the host protocol has a verdict, and the verdict is the right one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adb.lens_rules import Allowed, Kind, Refused, Rules
from farm.evidence.adb_output import parse_devices

MINE, SHOWN, OTHER = "127.0.0.1:5600", "PHONE1", "127.0.0.1:5601"
ONE = Rules({MINE: SHOWN})
TWO = Rules({MINE: SHOWN, "usb:1-2": "BOARD2"})
TRANSPORTS = {7: MINE}


@pytest.mark.parametrize("request_", ["host:version", "host:host-features"])
def test_what_the_server_is_may_be_asked(request_: str) -> None:
    assert ONE.judge(request_, {}) == Allowed(Kind.SERVER)


@pytest.mark.parametrize("name", [MINE, SHOWN])
def test_a_leased_device_is_reached_by_its_serial_number_and_by_its_address(name: str) -> None:
    assert ONE.judge(f"host:transport:{name}", {}) == Allowed(Kind.TRANSPORT, MINE)
    assert ONE.judge(f"host:tport:serial:{name}", {}) == Allowed(Kind.TRANSPORT, MINE, tport=True)
    assert ONE.judge(f"host-serial:{name}:get-state", {}) == Allowed(Kind.QUESTION, MINE, "get-state")
    assert ONE.judge(f"host-serial:{name}:wait-for-any-device", {}) == Allowed(
        Kind.QUESTION, MINE, "wait-for-any-device"
    )


def test_a_transport_id_names_a_leased_device_or_nothing() -> None:
    assert ONE.judge("host:transport-id:7", TRANSPORTS) == Allowed(Kind.TRANSPORT, MINE)
    assert ONE.judge("host-transport-id:7:features", TRANSPORTS) == Allowed(Kind.QUESTION, MINE, "features")
    assert isinstance(ONE.judge("host:transport-id:8", TRANSPORTS), Refused)


def test_the_only_device_needs_no_name_and_of_two_one_must_be_named() -> None:
    assert ONE.judge("host:transport-any", {}) == Allowed(Kind.TRANSPORT, MINE)
    assert ONE.judge("host:features", {}) == Allowed(Kind.QUESTION, MINE, "features")
    verdict = TWO.judge("host:transport-any", {})
    assert verdict == Refused("more than one device/emulator", None)


@pytest.mark.parametrize(
    "request_",
    [
        "host:kill",
        f"host:connect:{OTHER}",
        f"host:disconnect:{MINE}",
        "host:pair:123456:127.0.0.1:1",
        "host:reconnect",
        "host:mdns:services",
        f"host-serial:{MINE}:forward:tcp:1;tcp:2",
        f"host-serial:{SHOWN}:killforward-all",
        f"host-serial:{OTHER}:get-state",
        "host-serial:OTHER:features",
        f"host:transport:{OTHER}",
        f"host:tport:serial:{OTHER}",
        "host:transport:usb:1-3",
        "host:list-forward",
        "host:emulator:5554",
        f"host-serial:{SHOWN}",
        "shell:id",
        "",
    ],
)
def test_everything_else_is_refused_and_reported(request_: str) -> None:
    verdict = ONE.judge(request_, TRANSPORTS)
    assert isinstance(verdict, Refused)
    assert verdict.answer
    assert verdict.report


@given(st.text(max_size=60) | st.from_regex(r"host(-serial|-transport-id|)?:[a-z0-9:.\-;]{0,40}", fullmatch=True))
def test_no_request_reaches_what_is_not_leased(request_: str) -> None:
    verdict = TWO.judge(request_, TRANSPORTS)
    if isinstance(verdict, Allowed):
        assert verdict.target in (None, MINE, "usb:1-2")
        assert verdict.target is not None or verdict.kind in (Kind.SERVER, Kind.DEVICES, Kind.TRACK)


@pytest.mark.parametrize(
    "service", ["shell,v2,raw:id", "shell:", "exec:id", "sync:", "tcp:8080", "localabstract:x", "reboot:"]
)
def test_what_touches_the_device_alone_passes(service: str) -> None:
    assert ONE.device_service(service) is None


@pytest.mark.parametrize(
    "service",
    [
        "unknown:",
        "host:forward:tcp:0;tcp:1",
        "reboot:bootloader",
        "",
        "sideload-host:1:1",
        "reverse:forward:tcp:1;tcp:5432",
        "reverse:list-forward",
        "tcpip:5555",
        "usb:",
        "root:",
        "remount:",
        "tcp:80:example.org",
    ],
)
def test_what_opens_a_way_round_the_lens_is_refused(service: str) -> None:
    refused = ONE.device_service(service)
    assert refused is not None
    assert refused.report


def test_only_leased_devices_are_shown_under_their_own_serial_number() -> None:
    text = (
        f"{MINE}  device product:husky model:Pixel_8_Pro device:husky transport_id:7\n"
        f"{OTHER}  device product:a model:b device:c transport_id:8\n"
    )
    long = [ONE.show(line, long=True) for line in parse_devices(text)]
    assert long == [f"{SHOWN:<22} device product:husky model:Pixel_8_Pro device:husky transport_id:7\n", None]
    assert ONE.show(parse_devices(text)[0], long=False) == f"{SHOWN}\tdevice\n"
