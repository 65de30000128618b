"""Selectors: what is picked, what is refused and with which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.domain.devices import DeviceFacts
from farm.domain.selector_terms import distance
from farm.domain.selectors import SelectorError, nearest, parse, words_of

FACTS = {
    "soc": "Tensor G3",
    "gpu": "Mali-G715",
    "android": "14",
    "ram_gb": "12",
    "kernel": "5.15.149-android14",
    "virtual": "true",
    "rooted": "false",
    "backend:vulkan": "1.3",
    "pool": "demo",
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "  * ",
        'soc="tensor g3"',
        "soc='Tensor G3' android=14",
        "gpu=mali*",
        "gpu=*G71?",
        "android>=14",
        "android=14.0",
        "android>13 android<15 android<=14",
        "ram_gb>=8",
        "kernel>=5.15",
        "kernel>5.9.200",
        "not kernel>=5.15.150",
        "backend:vulkan",
        "label:backend:vulkan",
        "virtual",
        "not rooted",
        "not nothing",
        "nothing!=1",
        "pool in (ci, demo)",
        "pool in ( 'demo' )",
        "soc=RK3568 or gpu=mali-g715",
        "(soc=RK3568 or virtual=true) and android>=10",
        "not (soc=RK3568 or android<10)",
        "NOT soc=RK3568 AND virtual",
    ],
)
def test_a_selector_that_fits_matches(text: str) -> None:
    assert parse(text).matches(FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "soc=RK3568",
        "soc=Tensor",
        "nothing",
        "rooted",
        "nothing=1",
        "nothing>=0",
        "soc>=3",
        "android<14",
        "not virtual",
        "pool in (ci, lab)",
        "virtual soc=RK3568",
        "gpu!=mali-*",
    ],
)
def test_a_selector_that_does_not_fit_does_not_match(text: str) -> None:
    assert not parse(text).matches(FACTS)


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("soc==RK3568", 3, "write soc="),
        ("soc=", 3, "value is missing"),
        ("soc = or", 4, ""),
        ("(soc=a", 0, "add )"),
        ("soc=a)", 5, "cannot stand here"),
        ('soc="a', 4, "quote is not closed"),
        ("ram_gb>=much", 6, "compares numbers"),
        ("pool in demo", 5, "pool in (a, b)"),
        ("pool in (a b)", 11, "commas"),
        ("not", 3, "a term was expected"),
        ("=3", 0, "a term was expected"),
        ("and soc=1", 0, "a term was expected"),
        ("soc!3", 3, "quotes"),
    ],
)
def test_a_wrong_selector_says_where_and_what_to_write(text: str, position: int, words: str) -> None:
    if text == "soc = or":  # a word that looks like a keyword is a fine value
        assert parse(text).matches({"soc": "OR"})
        return
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert caught.value.position == position
    assert words in str(caught.value)


def test_endless_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(SelectorError, match="nested deeper"):
        parse("(" * 500 + "a" + ")" * 500)
    with pytest.raises(SelectorError, match="nested deeper"):
        parse("not " * 400 + "a")
    with pytest.raises(SelectorError, match="too long"):
        parse("a " * 3000)


@given(st.text(max_size=60) | st.text("abc=<>!()\"', *?or notin", max_size=60))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError as error:
        position: int | None = error.position
    else:
        position = None
    if position is not None:
        assert 0 <= position <= len(text)
        return
    assert selector.matches(FACTS) == (selector.failed(FACTS) == ())


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(max_size=4)), st.sampled_from(["a=1", "b", "c in (x, y)"])
)
def test_not_turns_every_answer_round(facts: dict[str, str], text: str) -> None:
    assert parse(text).matches(facts) is not parse(f"not {text}").matches(facts)


def device(name: str, **labels: str) -> DeviceFacts:
    return DeviceFacts(1, name, name, "local", False, True, None, "demo", None, labels)


def test_the_nearest_devices_come_first_and_say_what_differs() -> None:
    devices = [
        device("far", soc="A1", android="9"),
        device("near", soc="RK3568", android="11"),
        device("match", soc="RK3568", android="14"),
    ]
    found = nearest(parse("soc=RK3568 android>=14"), devices)
    assert [m.device.name for m in found] == ["near", "far"]
    assert found[0].words() == "near: android is 11, wanted android>=14"


def test_of_alternatives_the_nearest_one_is_named() -> None:
    found = nearest(parse("(soc=X android>=14) or (gpu=Y)"), [device("d", soc="X", android="9")])
    assert [f.term for f in found[0].failed] == ["android>=14"]


@pytest.mark.parametrize(
    ("selector", "key", "values"),  # nearest first, against the alphabet
    [
        ("ram_gb>=12", "ram_gb", ["8", "6", "2", None]),
        ("ram_gb=9", "ram_gb", ["8", "12", "4"]),
        ("android>=14", "android", ["13", "9", "4.4"]),
        ("kernel>=6.1", "kernel", ["5.15.149-android14", "4.19", "3.10"]),
        ("soc=RK3568", "soc", ["RK3566", "RK3399", "Dimensity 9300", None]),
        ("soc in (RK3568, RK3588)", "soc", ["RK3588S", "Tensor G3"]),
        ('gpu="Mali-G7*"', "gpu", ["Mali-G52", "Adreno 750"]),
    ],
)
def test_of_devices_that_miss_the_same_terms_the_one_that_misses_by_least_is_nearest(
    selector: str, key: str, values: list[str | None]
) -> None:
    names = "dcba"
    labels = [{} if value is None else {key: value} for value in values]
    devices = [device(name, **label) for name, label in zip(names, labels, strict=False)]
    found = nearest(parse(selector), reversed(devices))
    assert [m.device.name for m in found] == list(names[: len(values)])


def test_fewer_missed_terms_go_before_smaller_misses() -> None:
    devices = [device("two", soc="RK3566", android="13"), device("one", soc="RK3568", android="4")]
    assert [m.device.name for m in nearest(parse("soc=RK3568 android>=14"), devices)] == ["one", "two"]


def test_what_several_devices_miss_is_said_once() -> None:
    devices = [device(name, soc="Tensor G3") for name in "abcde"] + [device("rk", soc="RK3566"), device("x")]
    missed = nearest(parse("soc=RK3568"), devices, limit=7)
    assert words_of(missed) == (
        "rk: soc is RK3566; a, b, c and 2 more: soc is Tensor G3; x: soc is unknown, wanted soc=RK3568"
    )
    assert words_of(nearest(parse("soc=Y android>=14"), [device("d", soc="X", android="9")])) == (
        "d: soc is X, android is 9, wanted soc=Y and android>=14"
    )
    assert words_of([]) == ""


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_distance_is_a_share_whatever_the_values_are(have: str, want: str) -> None:
    assert 0.0 <= distance(have, want) <= 1.0
    assert distance(have, have) == 0.0


def test_a_fact_that_a_device_lacks_is_called_unknown() -> None:
    assert nearest(parse('npu="RKNN 2"'), [device("d")])[0].words() == 'd: npu is unknown, wanted npu="RKNN 2"'


def test_a_hostile_pattern_takes_no_exponential_time() -> None:
    assert not parse("soc=" + "*a" * 20 + "*b").matches({"soc": "a" * 40})
