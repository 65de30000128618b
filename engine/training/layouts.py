"""How tills print: seven ways to set the items, dates by country, and all that stands around them and is no answer."""

from __future__ import annotations

from collections.abc import Callable

from engine.training import lexicon
from engine.training.ocr import Chance, Line, Part, Piece
from engine.training.purchases import Item, Receipt, money

SIGNS = {"EUR": "€", "GBP": "£", "USD": "$"}
WIDTHS = (32, 38, 42)
NAME_CASES: tuple[Callable[[str], str], ...] = (str.upper, str.upper, str, str.lower)
MONTH_CASES: tuple[Callable[[str], str], ...] = (str, str.upper)


class Till:
    """One shop's habits, drawn once per receipt."""

    def __init__(self, receipt: Receipt, chance: Chance) -> None:
        self.chance = chance
        self.width = chance.pick(WIDTHS)
        self.comma = receipt.currency == "EUR" and chance.happens(0.7)
        self.case = chance.pick(NAME_CASES)
        self.filler = chance.pick((" ", " ", "."))
        self.sign = SIGNS[receipt.currency] if chance.happens(0.3) else ""
        self.suffix = chance.pick(("", "", " A", " B", " *"))

    def price(self, cents: int) -> Piece:
        """An amount as this till prints it."""
        text = money(cents)
        return Piece(self.sign + (text.replace(".", ",") if self.comma else text), Part.NUMBER)

    def name(self, item: Item) -> Piece:
        """A name as this till prints it."""
        return Piece(self.case(item.name))

    def gap(self, *pieces: Piece) -> Piece:
        """What fills the line between the left and the right column; at least two characters."""
        used = sum(len(piece.text) for piece in pieces)
        return Piece(" " + self.filler * max(self.width - used - 2, 1) + " ", Part.GAP)

    def row(self, left: list[Piece], right: list[Piece]) -> Line:
        """Left column, filler, right column."""
        return (*left, self.gap(*left, *right), *right)


def _space(n: int) -> Piece:
    return Piece(" " * n, Part.GAP)


def _inline(till: Till, item: Item) -> list[Line]:
    left = [till.name(item)]
    if item.quantity > 1:
        left = [Piece(f"{item.quantity}", Part.NUMBER), Piece(" x "), *left]
    return [till.row(left, [till.price(item.cents), Piece(till.suffix)])]


def _two_lines(till: Till, item: Item) -> list[Line]:
    count = [_space(2), Piece(str(item.quantity), Part.NUMBER), Piece(" x "), till.price(item.unit_cents)]
    return [(till.name(item),), till.row(count, [till.price(item.cents)])]


def _price_first(till: Till, item: Item) -> list[Line]:
    line: list[Piece] = [till.price(item.cents), _space(2), till.name(item)]
    if item.quantity > 1:
        line += [Piece(" ("), Piece(f"{item.quantity}", Part.NUMBER), Piece(" x "), till.price(item.unit_cents)]
        line.append(Piece(")"))
    return [tuple(line)]


def _coded(till: Till, item: Item) -> list[Line]:
    code = Piece(f"{till.chance.below(10000):04d}", Part.NUMBER)
    return [till.row([code, _space(1), till.name(item)], [till.price(item.cents), Piece(till.suffix)])]


def _barcode(till: Till, item: Item) -> list[Line]:
    code = "".join(str(till.chance.below(10)) for _ in range(13))
    return [till.row([till.name(item)], [till.price(item.cents)]), (_space(2), Piece(code, Part.NUMBER))]


def _table(till: Till, item: Item) -> list[Line]:
    return [till.row([Piece(str(item.quantity), Part.NUMBER), _space(2), till.name(item)], [till.price(item.cents)])]


def _each_below(till: Till, item: Item) -> list[Line]:
    lines = [till.row([till.name(item)], [till.price(item.cents)])]
    if item.quantity > 1:
        lines.append((_space(3), Piece(f"{item.quantity}", Part.NUMBER), Piece(" @ "), till.price(item.unit_cents)))
    return lines


ITEM_LAYOUTS = (_inline, _two_lines, _price_first, _coded, _barcode, _table, _each_below)


def _date(receipt: Receipt, chance: Chance) -> list[Piece]:
    """The date as the country writes it: day first with GBP and EUR, month first with USD."""
    day = receipt.date
    d, m, y = f"{day.day:02d}", f"{day.month:02d}", str(day.year)
    month = lexicon.MONTHS[day.month - 1][:3]
    forms: dict[str, tuple[str, ...]] = {
        "EUR": (f"{d}.{m}.{y}", f"{d}.{m}.{y[2:]}", f"{y}-{m}-{d}"),
        "GBP": (f"{d}/{m}/{y}", f"{d}/{m}/{y[2:]}", f"{d}-{m}-{y}"),
        "USD": (f"{m}/{d}/{y}", f"{m}/{d}/{y[2:]}", f"{m}-{d}-{y}"),
    }
    if chance.happens(0.25):
        case = chance.pick(MONTH_CASES)
        if receipt.currency == "USD":
            return [Piece(case(month) + " "), Piece(d, Part.NUMBER), Piece(", "), Piece(y, Part.NUMBER)]
        return [Piece(d, Part.NUMBER), Piece(f" {case(month)} "), Piece(y, Part.NUMBER)]
    return [Piece(chance.pick(forms[receipt.currency]), Part.NUMBER)]


def _date_line(receipt: Receipt, chance: Chance) -> Line:
    pieces = _date(receipt, chance)
    if chance.happens(0.5):
        pieces.insert(0, Piece(chance.pick(("Date: ", "DATE ", "Date "))))
    if chance.happens(0.6):
        clock = f"{chance.between(7, 22):02d}:{chance.below(60):02d}"
        pieces += [_space(chance.between(1, 4)), Piece(clock, Part.NUMBER)]
    return tuple(pieces)


def _head(receipt: Receipt, till: Till) -> list[Line]:
    chance = till.chance
    shop = receipt.shop.upper() if chance.happens(0.6) else receipt.shop
    edge = chance.pick(("", "", "*** ", "== "))
    lines: list[Line] = [(_space(chance.between(1, 8)), Piece(edge), Piece(shop), Piece(edge[::-1]))]
    if chance.happens(0.6):
        street = f"{chance.pick(lexicon.STREETS)}, {chance.pick(lexicon.TOWNS)}"
        lines.append((Piece(f"{chance.between(1, 199)}", Part.NUMBER), Piece(f" {street}")))
    if chance.happens(0.4):
        phone = f"0{chance.below(10000):04d} {chance.below(1000000):06d}"
        lines.append((Piece(chance.pick(("Tel ", "Tel: ", "PHONE "))), Piece(phone, Part.NUMBER)))
    if chance.happens(0.4):
        lines.append((Piece("Receipt no "), Piece(f"{chance.below(1000000):06d}", Part.NUMBER)))
    return lines


def _sums(receipt: Receipt, till: Till) -> list[Line]:
    chance = till.chance
    subtotal = sum(item.cents for item in receipt.items)
    lines: list[Line] = []
    if receipt.tax_cents or chance.happens(0.3):
        lines.append(till.row([Piece(chance.pick(("SUBTOTAL", "Subtotal", "Sub-total")))], [till.price(subtotal)]))
    if receipt.tax_cents:
        lines.append(till.row([Piece(chance.pick(("TAX", "Sales tax")))], [till.price(receipt.tax_cents)]))
    # The total names the currency, so that the slip always does.
    total, sign = till.price(receipt.total_cents), SIGNS[receipt.currency]
    words = [Piece(chance.pick(lexicon.TOTAL_WORDS))]
    if not till.sign:
        if chance.happens(0.5):
            words.append(Piece(f" {receipt.currency}"))
        else:
            total = Piece(sign + total.text, Part.NUMBER)
    lines.append(till.row(words, [total]))
    if receipt.currency != "USD" and chance.happens(0.4):
        lines.append(till.row([Piece("incl. VAT")], [till.price(subtotal * chance.pick((5, 7, 19, 20)) // 100)]))
    return lines


def _foot(receipt: Receipt, till: Till) -> list[Line]:
    chance, total = till.chance, receipt.total_cents
    lines: list[Line] = []
    if chance.happens(0.35):
        cash = total + 500 - total % 500
        lines.append(till.row([Piece("CASH")], [till.price(cash)]))
        lines.append(till.row([Piece("CHANGE")], [till.price(cash - total)]))
    elif chance.happens(0.6):
        card = f"{chance.pick(('VISA', 'CARD', 'DEBIT'))} ****"
        lines.append(till.row([Piece(card), Piece(f"{chance.below(10000):04d}", Part.NUMBER)], [till.price(total)]))
    if chance.happens(0.3):
        lines.append((Piece(f"Served by {chance.pick(lexicon.CASHIERS)}"),))
    if chance.happens(0.6):
        lines.append((Piece(chance.pick(lexicon.GREETINGS)),))
    return lines


def lay_out(receipt: Receipt, chance: Chance) -> list[Line]:
    """The slip as it is printed, before anyone scans it."""
    till = Till(receipt, chance)
    set_item = chance.pick(ITEM_LAYOUTS)
    rule: list[Line] = [(Piece(chance.pick("-=") * till.width, Part.GAP),)] if chance.happens(0.5) else []
    lines = _head(receipt, till)
    date = _date_line(receipt, chance)
    date_on_top = chance.happens(0.6)
    lines += [date] if date_on_top else []
    lines += rule
    if set_item is _table:
        lines.append((Piece(chance.pick(("QTY  ITEM            AMOUNT", "Qty Item       Price"))),))
    for item in receipt.items:
        lines += set_item(till, item)
    lines += rule + _sums(receipt, till) + _foot(receipt, till)
    return lines if date_on_top else [*lines, date]
