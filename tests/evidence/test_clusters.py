"""Clusters: one fault in several words is one group, faults of their own stay apart, what is known is found again."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.evidence import clusters

MATMUL = (
    "native_crash SEGV_MAPERR libllama!ggml_compute_forward_mul_mat libllama!ggml_graph_compute libllama!llama_decode"
)
INLINED = "native_crash SEGV_MAPERR libllama!ggml_compute_forward_mul_mat libllama!llama_decode"
TOKENS = "load:tokenizer_lookup_failed llama.cpp error loading model vocabulary: cannot find tokenizer merges"
WORDS = ["abort", "libllama", "ggml", "decode", "load", "oom", "anr", "#"]
KILLED = "low_memory_kill com.example.app device is not responding"


def test_a_build_that_inlined_a_function_is_the_same_fault() -> None:
    one, other, tokens, killed = clusters.group([MATMUL, INLINED, TOKENS, KILLED])
    assert one == other >= 0
    assert tokens == killed == -1


def test_the_order_of_texts_changes_no_group() -> None:
    texts = [MATMUL, INLINED, TOKENS, KILLED]
    for order in itertools.permutations(range(4)):
        labels = clusters.group([texts[index] for index in order])
        together = {order[place] for place, label in enumerate(labels) if label >= 0}
        assert together == {0, 1}


def test_texts_without_words_are_alone() -> None:
    assert clusters.group([]) == []
    assert clusters.group(["…", "…"]) == [-1, -1]
    assert clusters.group([MATMUL]) == [-1]


def test_a_group_gathers_where_most_of_it_is() -> None:
    moves = clusters.settle(["a", "b", "c", "d"], [0, 0, 0, -1], {"a": 5, "b": 5, "c": 9, "d": 7}, kept=set())
    assert moves == {"c": 5}


def test_of_two_clusters_alike_the_older_one_stays() -> None:
    assert clusters.settle(["a", "b"], [0, 0], {"a": 9, "b": 5}, kept=set()) == {"a": 5}


def test_what_a_person_named_takes_others_in_and_is_never_emptied() -> None:
    now = {"a": 5, "b": 5, "c": 9, "d": 11}
    assert clusters.settle("abc", [0, 0, 0], now, kept={9}) == {"a": 9, "b": 9}
    assert clusters.settle("cd", [0, 0], now, kept={9, 11}) == {}


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(1, 5)), max_size=12), st.sets(st.integers(1, 5)))
@settings(max_examples=50)
def test_settling_twice_moves_nothing_more(rows: list[tuple[int, int]], kept: set[int]) -> None:
    keys, labels = [str(n) for n in range(len(rows))], [label for label, _ in rows]
    now = {key: cluster for key, (_, cluster) in zip(keys, rows, strict=True)}
    moved = {**now, **clusters.settle(keys, labels, now, kept)}
    assert clusters.settle(keys, labels, moved, kept) == {}
    assert all(moved[key] == now[key] for key in keys if now[key] in kept)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=12))
@settings(max_examples=40, deadline=None)
def test_whatever_the_texts_every_group_has_two_members(texts: list[list[str]]) -> None:
    labels = clusters.group([" ".join(words) for words in texts])
    assert len(labels) == len(texts)
    assert all(labels.count(label) > 1 for label in set(labels) - {-1})
