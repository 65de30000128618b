"""What was bought, and how the wanted answer says it.

One line of JSON, then one sentence:

    {"items":[{"name":"Whole Milk 1L","price":1.49}],"date":"2024-03-15","total":1.49}
    1 item bought at Corner Market on 15 March 2024 for 1.49 EUR in total.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass

from engine.training import lexicon


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a receipt: what it is, and what was paid for all of it."""

    name: str
    unit_cents: int
    quantity: int

    @property
    def cents(self) -> int:
        """Price of the line."""
        return self.unit_cents * self.quantity


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was bought."""

    shop: str
    currency: str  # EUR, GBP or USD
    date: datetime.date
    items: tuple[Item, ...]
    tax_cents: int  # on top of the items; 0 where prices include it

    @property
    def total_cents(self) -> int:
        """What was paid."""
        return sum(item.cents for item in self.items) + self.tax_cents


def money(cents: int) -> str:
    """`149` → `1.49`."""
    return f"{cents // 100}.{cents % 100:02d}"


def answer(receipt: Receipt) -> str:
    """The wanted output: JSON, newline, sentence."""
    items = ",".join(f'{{"name":{json.dumps(i.name)},"price":{money(i.cents)}}}' for i in receipt.items)
    total, day = money(receipt.total_cents), receipt.date
    count = f"{len(receipt.items)} item{'s' if len(receipt.items) > 1 else ''}"
    return (
        f'{{"items":[{items}],"date":"{day.isoformat()}","total":{total}}}\n'
        f"{count} bought at {receipt.shop} on {day.day} {lexicon.MONTHS[day.month - 1]} {day.year} "
        f"for {total} {receipt.currency} in total."
    )
