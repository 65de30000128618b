"""The wait chain: from the main thread over locks and binder calls to who holds everybody up."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.incidents.anr_traces import Labelled, variants
from farm.evidence import incidents, signature
from farm.evidence.registry import parse

VARIANTS = variants(2)


def first(text: str) -> dict[str, Any]:
    anr: dict[str, Any] = parse("anr", text.split("\n"))["anrs"][0]
    return anr


def named(words: str) -> dict[str, Any]:
    return first(next(one for one in VARIANTS if one.name == words).text)


@pytest.mark.parametrize("one", VARIANTS, ids=lambda one: one.name)
def test_the_cause_and_the_end_of_the_chain_are_named(one: Labelled) -> None:
    found = first(one.text)
    assert found["cause"] == one.cause
    if one.root is not None:
        assert found["root_cause"] == one.root


def test_there_are_enough_of_them() -> None:
    assert len(VARIANTS) >= 30
    assert len({one.cause for one in VARIANTS}) >= 9


def test_a_chain_of_two_locks_ends_in_a_forward_pass() -> None:
    found = named("two locks, forward mark at the end")
    assert [link["thread"] for link in found["wait_chain"]] == ["main", "loader", "decoder"]
    assert [link.get("waits") for link in found["wait_chain"]] == ["lock", "lock", None]
    assert found["wait_chain"][2]["forward"] == "decode"
    assert "waiting to lock" in found["wait_chain"][0]["why"]
    assert "stage_begin" in found["root_basis"]


def test_a_deadlock_comes_back_to_its_beginning() -> None:
    found = named("deadlock")
    assert [link["thread"] for link in found["wait_chain"]] == ["main", "sync", "main"]
    assert found["wait_end"] == "deadlock"


@pytest.mark.parametrize(("told", "inferred"), [("debug file", None), ("tracepoints", None), ("stacks", True)])
def test_a_binder_call_is_followed_into_the_other_process(told: str, inferred: bool | None) -> None:
    found = named(f"binder by {told}, lock, disk")
    main, serving, owner = found["wait_chain"]
    assert main["waits_for"] == "android.net.wifi.IWifiManager.getConfiguredNetworks"
    assert main.get("inferred") is inferred
    assert serving["process"] == owner["process"] == "system_server"
    assert (serving["waits"], owner["thread"]) == ("lock", "wifi")


def test_nobody_takes_the_call() -> None:
    assert named("binder, no free thread")["wait_end"] == "no-binder-thread"


def test_a_future_leads_to_the_only_thread_that_computes_and_says_that_it_was_concluded() -> None:
    main, worker = named("future of an inference")["wait_chain"]
    assert (main["inferred"], worker["thread"]) == (True, "llm")


def test_a_forward_pass_that_ended_before_is_not_the_cause() -> None:
    text = next(one for one in VARIANTS if one.name == "two locks, forward mark at the end").text
    tid = named("two locks, forward mark at the end")["wait_chain"][2]["sys_tid"]
    begun, _, rest = text.partition("\n")
    ended = begun.replace("11:05.001", "11:06.001").replace("stage_begin", "stage_end")
    found = first("\n".join((begun, ended, rest)))
    assert str(tid) in begun
    assert found["wait_chain"][2].get("forward") is None
    assert found["root_cause"] != "inference"


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(VARIANTS), st.integers(0, 2**30), st.floats(0, 1))
def test_any_piece_in_any_order_is_read(one: Labelled, seed: int, share: float) -> None:
    lines = one.text.split("\n")
    random.Random(seed).shuffle(lines)
    found = parse("anr", lines[: int(len(lines) * share)])
    json.dumps(found, allow_nan=False)
    list(signature.signed({"kind": "anr", **found}))


def test_an_anr_that_the_runner_tells_is_stored_with_its_chain_before_it() -> None:
    text = next(one for one in VARIANTS if one.name == "deadlock").text
    told = incidents.explained("anr", text)
    assert told is not None
    assert told.endswith(text)
    assert "wait chain, deadlock: lock" in told
    assert "main waits (lock) for" in told
    signs = {signature.of_incident("anr", "x", evidence).key for evidence in (text, told)}
    assert len(signs) == 1  # telling it changes nothing of what it is
    assert incidents.explained("engine-crashed", text) == text
    assert incidents.explained("anr", "nothing of use") == "nothing of use"
    assert incidents.explained("anr", None) is None
