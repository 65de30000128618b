"""What of a suite's tries is written in full, what is counted, and where a suite stood when it was stopped."""

from __future__ import annotations

from runner.refusals import SPOKEN, Refusals
from runner.stacks import waited_in


def test_a_refusal_is_written_in_full_once_per_test_and_every_other_one_is_counted() -> None:
    refusals = Refusals()
    assert refusals.is_new("sandbox-refused", "open /x", "t1")
    assert not refusals.is_new("sandbox-refused", "open /x", "t1")
    assert refusals.is_new("sandbox-refused", "open /x", "t2"), "another test's is not lost in the first one's"
    assert not refusals.is_new("sandbox-refused", "open /x", "t1")
    assert list(refusals.rest()) == [(("sandbox-refused", "open /x", "t1"), 2)]


def test_of_refusals_that_never_end_few_are_written_and_all_are_counted() -> None:
    refusals = Refusals()
    written = sum(refusals.is_new("lens-refused", f"host:{n}", "t") for n in range(1000))
    assert written == SPOKEN
    assert written + sum(count for _, count in refusals.rest()) == 1000
    assert refusals.is_new("sandbox-refused", "open /x", "t"), "one class does not drown another"


def test_many_harmless_refusals_hide_none_of_another_kind_and_the_rest_says_its_kind() -> None:
    refusals = Refusals()
    for port in range(1000):
        refusals.is_new("sandbox-refused", f"connect 127.0.0.1 port {port}: nothing listens there", "t")
        refusals.is_new("sandbox-refused", f"open /srv/{port}: outside of this attempt", "t")
    for tried in (
        "openat /state/farm.sqlite: the farm's own, outside of this attempt",
        "openat /state/demo: the farm's own, outside of this attempt",
        "openat /etc/shadow: not shown to an attempt",
        "openat /root/.ssh/id: outside of this attempt",
        "connect 192.0.2.1 port 80: there is no network here",
        "connect /run/docker.sock: outside of this attempt",
    ):
        assert refusals.is_new("sandbox-refused", tried, "t"), tried
    assert {summary for (_, summary, _), _ in refusals.rest()} == {
        f"{1000 - SPOKEN} more like these: ports of the host",
        f"{1000 - SPOKEN} more like these: files outside of the attempt",
    }


STACKS = """Thread 0x00007f01 (most recent call first):
  File "/farm/pack/x.py", line 3 in background

a/test_x.py::test_sleeps Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in select
  File "/opt/farm/runner/handles.py", line 80 in shell
  File "/farm/pack/a/test_x.py", line 12 in test_sleeps
  File "/opt/env/_pytest/python.py", line 194 in pytest_pyfunc_call
"""


def test_where_a_stopped_suite_stood_is_read_from_its_stacks() -> None:
    assert waited_in(STACKS) == "shell, called at test_x.py line 12 in test_sleeps"
    assert waited_in(STACKS.split("Current")[0]) == "x.py line 3 in background"
    assert waited_in("--- stacks of the suite\n(none came)") == ""
