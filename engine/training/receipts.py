"""Made-up receipts: what was bought, the text that a scanner made of the slip, and the answer that is wanted.

    python -m engine.training.receipts [--split unseen] [--index 0]

A receipt is made from its split and its index alone. Splits: `train`, `unseen` (the same shops and goods, other
receipts), `novel` (goods whose names occur in no training receipt). The prompt is the scanned text and `PROMPT_END`;
the answer is that of `purchases.answer`.
"""

from __future__ import annotations

import argparse
import datetime
from dataclasses import dataclass

from engine.training import lexicon
from engine.training.layouts import lay_out
from engine.training.ocr import NOISE_LEVELS, Chance, scan
from engine.training.purchases import Item, Receipt, answer

SPLITS = ("train", "unseen", "novel")
PROMPT_END = "\n=>\n"
MOST_ITEMS = 8
MOST_BYTES = 1664  # of prompt and answer together


@dataclass(frozen=True, slots=True)
class Example:
    """A task: what the model gets, and what it should say."""

    prompt: str
    answer: str
    receipt: Receipt
    noise: float


def _name(chance: Chance, goods: tuple[str, ...]) -> str:
    words = [chance.pick(goods)]
    if chance.happens(0.55):
        words.insert(0, chance.pick(lexicon.KINDS))
    if chance.happens(0.5):
        words.append(chance.pick(lexicon.SIZES))
    return " ".join(words)


def _price(chance: Chance) -> int:
    if chance.happens(0.1):
        return chance.between(2000, 14999)
    cents = chance.between(29, 1999)
    return cents - cents % 10 + 9 if chance.happens(0.5) else cents


def _receipt(chance: Chance, goods: tuple[str, ...]) -> Receipt:
    currency = chance.pick(("EUR", "GBP", "USD"))
    items = tuple(
        Item(_name(chance, goods), _price(chance), chance.between(2, 6) if chance.happens(0.2) else 1)
        for _ in range(chance.between(1, MOST_ITEMS))
    )
    subtotal = sum(item.cents for item in items)
    tax = subtotal * chance.between(3, 9) // 100 if currency == "USD" and chance.happens(0.7) else 0
    day = datetime.date(2019, 1, 1) + datetime.timedelta(days=chance.below(365 * 8))
    shop = f"{chance.pick(lexicon.SHOP_NAMES)} {chance.pick(lexicon.SHOP_KINDS)}"
    return Receipt(shop, currency, day, items, tax)


def example(split: str, index: int) -> Example:
    """The receipt number `index` of a split."""
    if split not in SPLITS:
        raise ValueError(f"no such split: {split}; there are {', '.join(SPLITS)}")
    chance = Chance(f"{split}/{index}")
    receipt = _receipt(chance, lexicon.HELD_OUT_GOODS if split == "novel" else lexicon.GOODS)
    noise = chance.pick(NOISE_LEVELS)
    text = scan(lay_out(receipt, chance), noise, chance)
    return Example(text + PROMPT_END, answer(receipt), receipt, noise)


def main() -> None:
    """Command line: prints one receipt and its answer."""
    parser = argparse.ArgumentParser(description="Print one made-up receipt and the wanted answer.")
    parser.add_argument("--split", choices=SPLITS, default="unseen")
    parser.add_argument("--index", type=int, default=0)
    arguments = parser.parse_args()
    shown = example(arguments.split, arguments.index)
    print(shown.prompt + shown.answer)


if __name__ == "__main__":
    main()
