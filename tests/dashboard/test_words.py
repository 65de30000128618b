"""Figures, times and signs as a person reads them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from dashboard import drawing, signs, words
from dashboard.render import Static, breakable, segment, short_test
from farm.domain.devices import Availability
from farm.domain.measurements import median_interval
from farm.domain.outcomes import MEANING, Outcome, TestOutcome
from farm.store.reads.shared import Point

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.041234, "0.0412"),
        (3.914, "3.91"),
        (21.44, "21.4"),
        (412.3, "412"),
        (11600, "11\u202f600"),
        (-5.81, "−5.81"),
    ],
)
def test_a_figure_has_three_significant_digits(value: float, text: str) -> None:
    assert words.figure(value) == text


@pytest.mark.parametrize(
    ("low", "high", "unit", "text"),
    [
        (0.07, 1.534, "tasks", "0.07 to 1.53\u202ftasks"),
        (2.0, 11.62, "W", "2.0 to 11.6\u202fW"),
        (1900, 2400, "MHz", "1\u202f900 to 2\u202f400\u202fMHz"),
        (-5.0, 0.0, "", "−5.00 to 0.00"),
        (400.02, 400.04, "MB", "400.02 to 400.04\u202fMB"),
        (1e-9, 2e-9, "s", "1.00e−09 to 2.00e−09\u202fs"),
    ],
)
def test_both_ends_of_a_range_have_the_digits_of_the_larger_one(low: float, high: float, unit: str, text: str) -> None:
    assert words.between(low, high, unit) == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_was_not_measured_is_said_in_words(value: float | None) -> None:
    assert words.quantity(value, "tok/s") == "not measured"


def test_a_unit_stands_a_thin_space_behind_its_figure() -> None:
    assert words.quantity(21.44, "tok/s") == "21.4\u202ftok/s"
    assert words.celsius(41.2) == "41.2\u202f°C"
    assert words.celsius(None) == "not measured"
    assert words.size(34_500_000) == "34.5\u202fMB"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "not measured"),
        (0.0004, "0.4 ms"),
        (0.041, "41 ms"),
        (0.9996, "1.0 s"),
        (2.31, "2.3 s"),
        (38.4, "38 s"),
        (59.7, "1 min"),
        (134, "2 min 14 s"),
        (3900, "1 h 5 min"),
        (3 * 86400 + 4 * 3600, "3 d 4 h"),
        (-5, "0 s"),
    ],
)
def test_durations_use_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert words.duration(seconds).replace("\u202f", " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (12, "12 s ago"), (185, "3 min ago"), (7300, "2 h ago"), (90000, "1 d ago"), (-300, "in 5 min")],
)
def test_times_are_relative(seconds: float, text: str) -> None:
    assert words.ago(NOW - timedelta(seconds=seconds), NOW).replace("\u202f", " ") == text


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_the_shape_and_colour_of_the_one_table(outcome: Outcome) -> None:
    sign = signs.of_outcome(outcome.value)
    assert sign.colour == MEANING[outcome].colour.value
    assert sign.shape in {"dot", "cross", "triangle", "diamond", "ring"}
    assert sign.why == MEANING[outcome].words


def test_every_test_outcome_and_availability_has_a_sign_of_its_own() -> None:
    tests = {(s.shape, s.word) for s in (signs.of_test("ended", outcome.value) for outcome in TestOutcome)}
    assert len(tests) == len(TestOutcome)
    states = {signs.of_device(word).word for word in Availability}
    assert len(states) == len(Availability)


def test_farm_trouble_is_never_red() -> None:
    for outcome in (Outcome.DEVICE_LOST, Outcome.INFRA_ERROR, Outcome.DEPLOY_FAILED):
        assert signs.of_outcome(outcome.value).colour == "farm"
    assert signs.of_test("ended", "error").colour == "farm"


def test_a_failed_test_shows_what_the_engine_died_of() -> None:
    assert signs.of_test("ended", "failed", "crashed").word == "crashed"
    assert signs.of_test("ended", "failed").word == "failed"
    assert signs.of_test("ended", "passed", "crashed").word == "passed"
    hung = signs.of_test("ended", "error", "timed-out")
    assert (hung.word, hung.colour) == ("timed out", "bad"), "a suite that hung is not the farm's trouble"
    assert signs.of_test("not-run", None).word == "not run"


def test_a_word_of_a_newer_farm_is_shown_as_it_is() -> None:
    assert signs.of_outcome("exploded").word == "exploded"
    assert signs.of_test("ended", "exploded").word == "exploded"


def test_a_test_id_is_cut_to_what_tells_tests_apart() -> None:
    assert short_test("latency/test_latency.py::test_ttft[q4]") == "latency::ttft[q4]"
    assert short_test("a/b/test_kv.py::TestX::test_y") == "a/b/kv::TestX::test_y"
    assert short_test("test_alone.py::test_x") == "alone::x"
    assert short_test("no path at all") == "no path at all"


def test_breaks_are_added_to_escaped_text_only() -> None:
    assert str(breakable("a::<b>")) == "a::<wbr>&lt;b&gt;"
    assert segment("a/b?c#d") == "a%2Fb%3Fc%23d"


def test_a_line_needs_two_points_and_stays_in_its_box() -> None:
    assert drawing.line([Point(NOW, 1.0)]) is None
    points = [Point(NOW + timedelta(seconds=i), math.sin(i) * 40) for i in range(50)]
    drawn = drawing.line(points)
    assert drawn is not None
    pairs = [tuple(map(float, step.split())) for step in drawn.path.lstrip("M").split("L")]
    assert all(0 <= x <= drawing.BOX_WIDTH and 0 <= y <= drawing.BOX_HEIGHT for x, y in pairs)
    assert [x for x, _ in pairs] == sorted(x for x, _ in pairs)


def test_noise_is_drawn_small() -> None:
    points = [Point(NOW + timedelta(seconds=i), 30 + 0.1 * (i % 2)) for i in range(10)]
    drawn = drawing.line(points, least_span=4.0)
    assert drawn is not None
    heights = [float(step.split()[1]) for step in drawn.path.lstrip("M").split("L")]
    assert max(heights) - min(heights) < 5


def test_dots_lie_around_their_median_and_marked_ones_stay_visible() -> None:
    values = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 160.0]
    marks = [None] * 6 + ["throttled"]
    drawn = drawing.dots(values, marks, 100.0, 0.02)
    assert drawn is not None
    assert drawn.dots[0].x == 50.0
    assert (drawn.dots[-1].x, drawn.dots[-1].mark, drawn.outside) == (99.0, "throttled", 1)
    assert drawn.interval is not None
    assert drawn.interval[0] <= 50.0 <= drawn.interval[1]
    assert drawing.dots([1.0], ["throttled"], None, 0.1) is None


def test_one_axis_serves_all_rows_and_holds_nearly_every_value() -> None:
    assert drawing.reach_of([([100.0, 103.0], 100.0), ([10.0, 9.2], 10.0)]) == 0.1
    assert drawing.reach_of([([5.0], None)]) == 0.05
    assert drawing.reach_of([([1.0, 900.0], 1.0)]) == 2.0


@pytest.mark.parametrize("length", [0.05, 1, 7, 59, 61, 600, 5000, 100_000, 5_000_000])
def test_an_axis_has_a_few_round_marks(length: float) -> None:
    ticks = drawing.seconds_ticks(drawing.Axis(NOW, NOW + timedelta(seconds=length)))
    assert 1 <= len(ticks) <= 7
    assert all(0 <= tick.x <= 100 for tick in ticks)


def test_an_axis_that_ends_now_counts_back() -> None:
    ticks = drawing.ticks_back(drawing.Axis(NOW - timedelta(hours=1), NOW))
    assert ticks[-1].label == "now"
    assert ticks[0].label.startswith("−")
    assert [t.x for t in ticks] == sorted(t.x for t in ticks)


def test_the_interval_of_a_median_holds_ninety_five_percent() -> None:
    assert median_interval(range(5)) is None
    for n in (6, 9, 20, 100, 200, 201, 5000):
        low, high = median_interval([float(i) for i in range(n)]) or (0.0, 0.0)
        below = int(low)
        outside = sum(math.comb(n, k) for k in range(below + 1)) if n <= 200 else 0
        assert 2 * outside / 2**n <= 0.05
        assert low + high == n - 1


def test_static_files_are_found_below_their_root_alone() -> None:
    static = Static()
    found = static.find("app.css")
    assert found is not None
    assert found[1] == "text/css"
    for name in ("../pages.py", "/etc/passwd", "vendor/../../pages.py", "nothing.js", "", "."):
        assert static.find(name) is None


def test_one_scale_holds_all_curves_on_round_figures() -> None:
    def curve(*values: float) -> list[Point]:
        return [Point(NOW + timedelta(seconds=i), value) for i, value in enumerate(values)]

    assert drawing.shared_scale([], step=5.0) is None
    assert drawing.shared_scale([curve(31.2, 33.9), curve(57.1, 58.4)], step=5.0) == (30.0, 60.0)
    assert drawing.shared_scale([curve(30.0, 30.0)], step=5.0) == (25.0, 35.0), "noise stays small"
    assert drawing.shared_scale([curve(-3.0)], step=5.0) == (-10.0, 0.0)
    drawn = drawing.line(curve(30.0, 60.0), scale=(30.0, 60.0))
    assert drawn is not None
    assert drawn.path == "M0.0 100.0L1000.0 0.0"
