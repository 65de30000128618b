"""When a run gives up."""

from __future__ import annotations

import pytest

from farm.domain.persistence import why_give_up


@pytest.mark.parametrize(
    ("errors", "tests", "lost", "devices", "gives_up"),
    [
        (3, 0, 0, 1, False),
        (4, 0, 0, 1, True),
        (4, 10, 0, 1, False),
        (5, 10, 0, 1, True),
        (13, 100, 0, 1, False),
        (14, 100, 0, 1, True),
        (0, 10, 2, 2, False),
        (0, 10, 3, 3, True),
        (0, 10, 3, 20, False),
        (0, 10, 4, 20, True),
        (0, 10, 0, 0, False),
    ],
)
def test_a_run_gives_up_above_three_and_a_tenth_or_two_and_a_twentieth(
    errors: int, tests: int, lost: int, devices: int, gives_up: bool
) -> None:
    found = why_give_up(errors=errors, tests=tests, lost=lost, devices=devices)
    assert (found is not None) is gives_up


def test_it_says_which_figure_was_too_high() -> None:
    assert why_give_up(errors=5, tests=10, lost=0, devices=4) == (
        "5 errors over 10 tests are more than 3 and 10% of the tests"
    )
    assert "3 of 4 devices were lost" in str(why_give_up(errors=0, tests=10, lost=3, devices=4))
