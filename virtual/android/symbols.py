"""Program counters → module, offset, function: /proc/PID/maps and the symbol tables of the mapped files."""

from __future__ import annotations

import bisect
import contextlib
import functools
import os
from dataclasses import dataclass
from pathlib import Path

FILE_MAX = 512 << 20
"""Bytes: files above are not searched for symbols."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of /proc/PID/maps."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True, slots=True)
class Table:
    """Functions of one file by address, and where its segments lie."""

    addresses: list[int]
    sizes: list[int]
    names: list[str]
    segments: list[tuple[int, int, int]]
    """(file offset, length, address)."""
    build_id: str


def mappings(pid: int) -> list[Mapping]:
    """The process's mappings, in order."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, _, offset, _, _, *path = line.split(None, 5)
        start, end = (int(value, 16) for value in span.split("-"))
        found.append(Mapping(start, end, int(offset, 16), path[0] if path else "<anonymous>"))
    return found


def describe(counter: int, maps: list[Mapping], innermost: bool) -> str:
    """The rest of a backtrace line after its number: `pc 00…  /path (function+offset) (BuildId: …)`."""
    where = next((one for one in maps if one.start <= counter < one.end), None)
    if where is None:
        return f"pc {counter:016x}  <unknown>"
    offset = counter - where.start + where.offset
    table = _table(where.path, _stamp(where.path)) if where.path.startswith("/") else None
    if table is None:
        return f"pc {offset:016x}  {where.path}"
    address = next(
        (base + offset - first for first, size, base in table.segments if first <= offset < first + size), offset
    )
    # A return address may already belong to the next function: look up the call before it.
    index = bisect.bisect_right(table.addresses, address - (0 if innermost else 1)) - 1
    name = ""
    if index >= 0 and address - table.addresses[index] <= table.sizes[index]:
        name = f" ({table.names[index]}+{address - table.addresses[index]})"
    build = f" (BuildId: {table.build_id})" if table.build_id else ""
    return f"pc {address:016x}  {where.path}{name}{build}"


def _stamp(path: str) -> tuple[int, int]:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size
    return 0, 0


@functools.lru_cache(maxsize=16)
def _table(path: str, stamp: tuple[int, int]) -> Table | None:
    """Symbols of one file in one version; None when it is no ELF file or cannot be read."""
    if not 0 < stamp[1] <= FILE_MAX:
        return None
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import NoteSection, SymbolTableSection

    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            functions = {}
            for section in elf.iter_sections():
                if isinstance(section, SymbolTableSection):
                    for symbol in section.iter_symbols():
                        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_value"]:
                            functions[symbol["st_value"]] = (symbol["st_size"], symbol.name)
            segments = [
                (one["p_offset"], one["p_filesz"], one["p_vaddr"])
                for one in elf.iter_segments()
                if one["p_type"] == "PT_LOAD"
            ]
            build_id = ""
            note = elf.get_section_by_name(".note.gnu.build-id")
            if isinstance(note, NoteSection):
                build_id = next((str(one["n_desc"]) for one in note.iter_notes()), "")
    except (OSError, ELFError, ValueError, KeyError):
        return None
    ordered = sorted(functions)
    return Table(ordered, [functions[a][0] for a in ordered], [functions[a][1] for a in ordered], segments, build_id)
