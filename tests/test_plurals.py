"""No message says "1 runs": who writes a count beside a noun lets `farm.domain.words.count` say it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NOUNS = (
    "alerts artifacts attempts devices errors estimates figures hosts incidents jobs layers leases pairs people "
    "reservations rows samples teams tests tokens users"
)
_COUNTED = re.compile(rf"^ (?:{'|'.join(_NOUNS.split())})\b|^ runs(?! (?:it|already|without)\b)")
#: What is larger than one where it is said, as its place shows.
_MANY = {"len(its)", "len(struck)", "len(values)", "len(runs)", "len(self._scenario.jobs) - len(self._done)"}


def hand_made(source: str) -> Iterator[int]:
    """Lines with an f-string that puts a figure before a plural noun, or makes its own plural."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Constant) and node.body.value == "s":
            yield node.lineno
        if not isinstance(node, ast.JoinedStr):
            continue
        for figure, words in zip(node.values, node.values[1:], strict=False):
            if not isinstance(figure, ast.FormattedValue) or not isinstance(words, ast.Constant):
                continue
            said = ast.unparse(figure.value)
            if _COUNTED.match(str(words.value)) and not said.isupper() and said not in _MANY:
                yield figure.lineno


def test_the_rule_notices_what_breaks_it() -> None:
    assert list(hand_made('f"{n} jobs wait"')) == [1]
    assert list(hand_made('f"{n} runs were cut off"')) == [1]
    assert list(hand_made("f\"{n} job{'s' if n != 1 else ''}\"")) == [1]
    assert not list(hand_made("f\"{count(n, 'job')} wait; at most {MAX_JOBS} jobs\""))
    assert not list(hand_made('f"job {n} runs it again"'))


def test_counts_are_said_by_the_one_helper() -> None:
    rooms = ("farm", "dashboard", "runner")
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in hand_made(path.read_text())]
    assert not found, f"let farm.domain.words.count say it: {', '.join(found)}"
