"""Many fixed words in a text: the same places as a plain search for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.evidence.log import Log
from farm.evidence.needles import Needles
from farm.evidence.registry import KINDS

WORDS = tuple(dict.fromkeys(needle for kind in KINDS.values() for needle in kind.needles))
NEEDLES = Needles(WORDS)


def plainly(text: str, words: tuple[str, ...]) -> list[tuple[int, str]]:
    return sorted((at, word) for word in words for at in range(len(text)) if text.startswith(word, at))


PIECES = st.lists(
    st.one_of(st.sampled_from(WORDS), st.sampled_from(WORDS).map(lambda word: word[1:]), st.text(max_size=9)),
    max_size=12,
).map("".join)


@given(PIECES)
def test_every_word_is_found_where_a_plain_search_finds_it(text: str) -> None:
    assert NEEDLES.find(text) == plainly(text, WORDS)


@given(
    st.lists(st.text("ab ", min_size=1, max_size=6), min_size=1, max_size=8),
    st.text("ab \u00e9\u4e2d\ud800", max_size=60),
)
def test_words_that_hold_each_other_and_text_that_is_not_ascii(words: list[str], text: str) -> None:
    assert Needles(words).find(text) == plainly(text, tuple(dict.fromkeys(words)))


def test_lines_far_from_any_word_are_seen_by_no_parser() -> None:
    log = Log()
    noise = [f"11-30 10:00:00.000  100  100 I Tag: message {n}" for n in range(5000)]
    for line in [*noise, "11-30 10:00:01.000  100  100 I am_kill : [0,77,com.x,905,empty,1]", *noise]:
        log.feed(line)
    log.finish()
    assert 0 < log.lines < 20
