"""llama-bench's rows as CSV (`-o csv`) and SQL (`-o sql`): values quoted, names in the head or in the statement."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import Any

_SQL = re.compile(r"^INSERT INTO \w+ \(([^)]*)\) VALUES \((.*)\);$")
_INTEGER = re.compile(r"^-?\d{1,18}$")
_DECIMAL = re.compile(r"^-?\d{1,18}\.\d{1,12}$")


@dataclass(slots=True)
class Rows:
    """The columns of the CSV head that came last."""

    columns: list[str] | None = None
    broken: bool = False  # the last row had another shape than the head

    def is_row(self, line: str) -> bool:
        """Whether `line` belongs to one of the two forms."""
        if line.startswith(("build_commit,", "INSERT INTO ")):
            return True
        return self.columns is not None and line.startswith('"') and '","' in line

    def row(self, line: str) -> dict[str, Any] | None:
        """The row, in the names and types of the JSON form; None for the head and for what is cut off."""
        self.broken = False
        if line.startswith("build_commit,"):
            self.columns = [name.strip() for name in line.split(",")][:100]
            return None
        if match := _SQL.match(line):
            return self._typed([name.strip() for name in match[1].split(",")], _split(match[2], "'"))
        if line.startswith("INSERT INTO "):
            self.broken = True
            return None
        return self._typed(self.columns or [], _split(line, '"') if line.rstrip().endswith('"') else [])

    def _typed(self, names: list[str], values: list[str]) -> dict[str, Any] | None:
        self.broken = not values or len(names) != len(values)
        return None if self.broken else {name: _value(text) for name, text in zip(names, values, strict=True)}


def _split(text: str, quote: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([text], quotechar=quote, skipinitialspace=True), [])]
    except csv.Error:
        return []


def _value(text: str) -> Any:
    if _INTEGER.match(text):
        return int(text)
    return float(text) if _DECIMAL.match(text) else text
