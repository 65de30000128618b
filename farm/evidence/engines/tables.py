"""Markdown tables in what a tool prints: cells by name, whatever their width; a row that is cut off is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """The names of a table's columns, and its rows by them."""

    columns: list[str]

    @classmethod
    def of(cls, line: str) -> Table:
        return cls(cells(line))

    def row(self, line: str) -> dict[str, str] | None:
        """One row by column; None if it is cut off or has another number of cells."""
        found = cells(line)
        if not line.rstrip().endswith("|") or len(found) != len(self.columns):
            return None
        return dict(zip(self.columns, found, strict=True))

    def rule(self, line: str) -> bool:
        """Whether `line` is the rule between head and body, or a part of it."""
        return all(set(cell) <= set("-: ") for cell in cells(line))


def cells(line: str) -> list[str]:
    """The cells of a row; emphasis that people put on a figure is no part of it."""
    return [cell.strip().strip("*").strip() for cell in line.strip().strip("|").split("|")]
