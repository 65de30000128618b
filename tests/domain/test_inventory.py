"""devices.yaml: what it means, and how a wrong one is explained."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.domain.inventory import Inventory, parse

GOOD = """
hosts: {local: {measure_slots: 1}}
types:
  pixel-8-pro:
    name: Pixel 8 Pro
    kind: phone
    match: {ro.product.device: husky}
    labels: {soc: Tensor G3, gpu: Mali-G715}
  rk3568: {kind: board, match: {ro.board.platform: "rk356*"}}
devices:
  - {serial: v1, name: husky-v1, type: pixel-8-pro, pool: demo, ring: 0, labels: {owner: demo, vip: yes, floor: 2}}
  - serial: 0123456789ABCDEF
connect: ["127.0.0.1:5600", "[::1]:5601"]
virtual: true
"""


def read(text: str) -> Inventory:
    found = parse(text)
    assert isinstance(found, Inventory), [e.words("devices.yaml") for e in found]
    return found


def test_a_whole_inventory_is_read() -> None:
    found = read(GOOD)
    assert found.hosts["local"].measure_slots == 1
    assert found.types["pixel-8-pro"].labels == {"soc": "Tensor G3", "gpu": "Mali-G715"}
    [first, second] = found.devices
    assert (first.name, first.pool, first.ring) == ("husky-v1", "demo", 0)
    assert first.labels == {"owner": "demo", "vip": "true", "floor": "2"}
    assert (second.serial, second.name) == ("0123456789ABCDEF", "0123456789ABCDEF")
    assert found.connect == ("127.0.0.1:5600", "[::1]:5601")
    assert found.virtual


def test_an_empty_file_is_an_empty_inventory() -> None:
    assert read("") == Inventory()


def test_the_type_is_the_named_one_or_the_first_that_the_properties_meet() -> None:
    found = read(GOOD)
    named = found.type_of("v1", {})
    matched = found.type_of("unlisted", {"ro.board.platform": "rk3568"})
    assert named is not None
    assert named.key == "pixel-8-pro"
    assert matched is not None
    assert matched.key == "rk3568"
    assert found.type_of("unlisted", {"ro.board.platform": "mt6989"}) is None


@pytest.mark.parametrize(
    ("text", "line", "what", "suggestion"),
    [
        ("devices:\n  - {serial: a, lables: {x: 1}}", 2, "unknown key 'lables'", "did you mean labels?"),
        ("devises: []", 1, "unknown key 'devises'", "did you mean devices?"),
        ("types: {pixel: {}}\ndevices:\n  - {serial: a, type: pixle}", 3, "unknown type 'pixle'", "mean pixel?"),
        ("devices:\n  - {name: x}", 2, "serial is missing", ""),
        ("devices:\n  - {serial: a}\n  - {serial: a}", 3, "'a' is listed twice", "its own"),
        ("devices:\n  - {serial: a, name: 'a b'}", 2, "stands in URLs", ""),
        ("devices:\n  - {serial: a, ring: many}", 2, "ring must be a number", ""),
        ("devices: {a: 1}", 1, "devices must be a list", ""),
        ("types:\n  x: {kind: fone}", 2, "unknown kind 'fone'", "did you mean phone?"),
        ("connect:\n  - 5600", 2, "5600 is no address", "127.0.0.1:5600"),
        ("virtual: maybe", 1, "virtual must be true or false", ""),
        ("hosts:\n  local: {measure_slots: 0}", 2, "measure_slots must be a number from 1", ""),
        ("devices:\n  - {serial: a", 2, "no valid YAML", "a { is not closed"),
        ("devices: [a, b", 1, "no valid YAML", "a [ is not closed"),
        ("devices:\n\t- serial: a", 2, "no valid YAML", "there is a tab"),
        ("virtual\ndevices: []", 2, "no valid YAML", "the line before lacks its colon"),
        ("devices: []\nvirtual", 2, "no valid YAML", "a key stands alone"),
        ('devices:\n  - {serial: "a}', 2, "no valid YAML", "a quote is not closed"),
        ("devices:\n  - serial: a\n   name: b", 3, "no valid YAML", "indented otherwise"),
        ("devices:\n  - serial: a: b", 2, "no valid YAML", "stands in quotes"),
        ("devices:\n  - serial: *x", 2, "no valid YAML", "put the value in quotes"),
        ("devices:\n  - serial: @x", 2, "no valid YAML", "stands in quotes"),
        ("hosts: {}\nhosts: {}", 2, "'hosts' is given twice", "remove one"),
        ("[1, 2]", 1, "must be a mapping", ""),
        ("devices:\n  - serial: !!python/object:os.system x", 2, "no valid YAML", "plain values"),
    ],
)
def test_a_wrong_file_says_line_what_and_a_suggestion(text: str, line: int, what: str, suggestion: str) -> None:
    errors = parse(text)
    assert isinstance(errors, list)
    assert errors[0].line == line
    assert what in errors[0].what
    assert suggestion in errors[0].suggestion


def test_every_error_is_found_at_once() -> None:
    errors = parse("devices:\n  - {name: x}\n  - {serial: a, ring: -1}\nvirtuel: true")
    assert isinstance(errors, list)
    assert {e.line for e in errors} == {2, 3, 4}
    assert "devices.yaml:4: unknown key 'virtuel' in the inventory; did you mean virtual?" in [
        e.words("devices.yaml") for e in errors
    ]


def test_a_file_that_holds_itself_or_explodes_is_refused() -> None:
    assert isinstance(parse("devices: &a [*a]"), list)
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 10)}]\n" for i in range(9)
    )
    assert isinstance(parse(bomb), list)


@given(st.text(max_size=200))
def test_any_text_is_an_inventory_or_errors(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Inventory) or found


def test_a_hosts_command_for_power_is_a_list_that_may_name_the_device() -> None:
    found = parse('hosts: {lab1: {power_cycle: [uhubctl, -a, cycle, -s, "{serial}"]}}\n')
    assert isinstance(found, Inventory)
    assert found.hosts["lab1"].power_cycle == ("uhubctl", "-a", "cycle", "-s", "{serial}")
    wrong = parse('hosts: {lab1: {power_cycle: ["{serial}", "{device}"]}}\n')
    assert isinstance(wrong, list)
    assert ["cannot stand for the device" in error.what for error in wrong] == [True, True]
    assert isinstance(parse("hosts: {lab1: {power_cycle: uhubctl -a cycle}}\n"), list)
