"""How much of an answer is right, field by field."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.training.purchases import Receipt, answer, money

KINDS = ("name", "price", "date", "total", "summary")
FIELDS = ("name", "price", "date", "total")  # what "field accuracy" is taken over


@dataclass(frozen=True, slots=True)
class Score:
    """Right fields out of all, per kind, of one answer."""

    counts: Mapping[str, tuple[int, int]]  # kind → (right, of)
    exact: bool  # the answer is the wanted one in every byte


def _items(document: Mapping[str, object]) -> list[tuple[object, object]]:
    found = document.get("items")
    rows = found if isinstance(found, list) else []
    return [(row.get("name"), row.get("price")) if isinstance(row, dict) else (None, None) for row in rows]


def _document(line: str) -> Mapping[str, object]:
    """The JSON of the first line with its numbers as they are written; empty when it is none."""
    try:
        found = json.loads(line, parse_float=str, parse_int=str)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def score(receipt: Receipt, text: str) -> Score:
    """Compares an answer with the truth.

    Items are compared in their order; one that is missing, or too many, is a wrong name and a wrong price.
    """
    line, _, sentence = text.partition("\n")
    document = _document(line)
    wanted = [(item.name, money(item.cents)) for item in receipt.items]
    got = _items(document)
    of = max(len(wanted), len(got))
    names = sum(w[0] == g[0] for w, g in zip(wanted, got, strict=False))
    prices = sum(w[1] == g[1] for w, g in zip(wanted, got, strict=False))
    counts = {
        "name": (names, of),
        "price": (prices, of),
        "date": (int(document.get("date") == receipt.date.isoformat()), 1),
        "total": (int(document.get("total") == money(receipt.total_cents)), 1),
        "summary": (int(sentence == answer(receipt).partition("\n")[2]), 1),
    }
    return Score(counts, text == answer(receipt))


def added(scores: list[Score]) -> dict[str, tuple[int, int]]:
    """Right and all fields per kind over many answers, with `fields` (names, prices, dates, totals) and `exact`."""
    sums = {kind: (sum(s.counts[kind][0] for s in scores), sum(s.counts[kind][1] for s in scores)) for kind in KINDS}
    sums["fields"] = (sum(sums[kind][0] for kind in FIELDS), sum(sums[kind][1] for kind in FIELDS))
    sums["exact"] = (sum(s.exact for s in scores), len(scores))
    return sums


def wilson(right: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927). ValueError when `of` is 0: nothing was measured."""
    if of == 0:
        raise ValueError("no field was measured")
    share, spread = right / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return 0.0 if right == 0 else middle - half, 1.0 if right == of else middle + half
