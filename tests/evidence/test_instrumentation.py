"""`am instrument -r`: reports, tests, results and every way to end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.evidence.collect.instrumentation import InstrumentationStream, Status

JUNIT = """\
INSTRUMENTATION_STATUS: class=com.example.BenchTest
INSTRUMENTATION_STATUS: current=1
INSTRUMENTATION_STATUS: test=decode
INSTRUMENTATION_STATUS_CODE: 1
INSTRUMENTATION_STATUS: class=com.example.BenchTest
INSTRUMENTATION_STATUS: stack=java.lang.AssertionError: too slow
\tat com.example.BenchTest.decode(BenchTest.java:41)
INSTRUMENTATION_STATUS: test=decode
INSTRUMENTATION_STATUS_CODE: -2
INSTRUMENTATION_STATUS: test=load
INSTRUMENTATION_STATUS_CODE: 0
INSTRUMENTATION_RESULT: stream=
Time: 0.9

FAILURES!!!
INSTRUMENTATION_CODE: -1
"""


def fed(text: str) -> tuple[InstrumentationStream, list[Status]]:
    stream = InstrumentationStream()
    return stream, [status for line in text.splitlines() if (status := stream.feed(line))]


def test_reports_tests_and_values_of_several_lines() -> None:
    stream, statuses = fed(JUNIT)
    assert [status.code for status in statuses] == [1, -2, 0]
    assert stream.tests == {"failed": 1, "passed": 1}
    [(name, stack)] = stream.failures
    assert name == "com.example.BenchTest#decode"
    assert stack == "java.lang.AssertionError: too slow\n\tat com.example.BenchTest.decode(BenchTest.java:41)"
    assert stream.code == -1
    assert stream.result["stream"].endswith("FAILURES!!!")
    assert stream.crash is None


def test_a_crash_is_told_by_the_last_report() -> None:
    stream, _ = fed(
        "INSTRUMENTATION_RESULT: longMsg=java.lang.IllegalStateException: no model\n"
        "INSTRUMENTATION_RESULT: shortMsg=java.lang.IllegalStateException\nINSTRUMENTATION_CODE: 0\n"
    )
    assert stream.crash == "java.lang.IllegalStateException: java.lang.IllegalStateException: no model"


def test_what_was_never_started_says_why() -> None:
    missing = "Unable to find instrumentation info for: ComponentInfo{a.b/a.b.C}"
    stream, _ = fed(
        f"INSTRUMENTATION_STATUS: Error={missing}\nINSTRUMENTATION_STATUS_CODE: -1\n"
        "android.util.AndroidException: INSTRUMENTATION_FAILED: a.b/a.b.C\n"
    )
    assert stream.error == missing
    assert fed("INSTRUMENTATION_FAILED: a.b/.C")[0].error == "INSTRUMENTATION_FAILED: a.b/.C"
    assert (
        fed("INSTRUMENTATION_ABORTED: System has crashed.")[0].error == "INSTRUMENTATION_ABORTED: System has crashed."
    )


def test_a_report_is_bounded() -> None:
    stream, _ = fed("INSTRUMENTATION_STATUS: stream=x\n" + "y" * 400_000 + "\n" + "z" * 900_000)
    status = stream.feed("INSTRUMENTATION_STATUS_CODE: 1")
    assert status is not None
    assert len(status.values["stream"]) <= 1 << 20


WORDS = st.sampled_from(
    ["INSTRUMENTATION_STATUS: ", "INSTRUMENTATION_STATUS_CODE: ", "INSTRUMENTATION_CODE: ", "INSTRUMENTATION_RESULT: "]
)


@given(st.lists(st.one_of(st.text(max_size=60), st.builds(str.__add__, WORDS, st.text(max_size=30))), max_size=40))
def test_no_text_makes_it_fail(lines: list[str]) -> None:
    fed("\n".join(lines))
