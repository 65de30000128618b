"""The journal: the truth of an attempt, one JSON object per line.

The runner appends; the agent ships; `(attempt, seq)` is unique, so shipping twice is harmless. The same file is what a
run at one's desk leaves behind. Every record has

    {"v": 1, "seq": 0.., "wall": seconds since the epoch, "mono": seconds on the runner host's monotonic clock,
     "kind": "...", ...fields of the kind}

A torn last line (the writer died in it) is no record. Kinds and fields are below; readers ignore fields that they do
not know and keep records of kinds that they do not know.

| kind        | fields                                                                                              |
|-------------|-----------------------------------------------------------------------------------------------------|
| start       | attempt, token, pid, devices [serial], runner (version); once per start of the runner (adoption aside)|
| collected   | tests [id]                                                                                          |
| test_start  | test                                                                                                |
| test_end    | test, outcome (TestOutcome), duration_s, message?, detail? (bounded text), cause? (Outcome)         |
| measurement | test, device, name, unit, better, values, marks, labels                                             |
| series      | test?, device, name, unit, t [s, mono], values                                                      |
| sampler     | device, via (tool, shell), hz, absent {series: reason}, why? (there is no tool)                     |
| stage       | test?, device, name, began (mono), dur_s, counters {}                                               |
| incident    | test?, device, class, summary, evidence? (bounded text), artifact?, count? (so many more of these)    |
| artifact    | test?, device?, name, path (below the attempt's folder), bytes, sha256, media_type                  |
| fingerprint | device, facts {}, partial? (true: what one test found; the whole follows before the end)             |
| note        | level (info, warning), text                                                                         |
| end         | outcome (Outcome), reason, counts {passed, failed, ...}                                             |

A test id is pytest's node id relative to the suite pack: `smoke/test_smoke.py::test_starts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

VERSION = 1
#: Longest accepted line, bytes; a longer one is refused by the writer and skipped by the reader.
MAX_LINE = 512 * 1024
#: Longest free text (message, detail, evidence) in one record, characters.
MAX_TEXT = 32 * 1024
#: Largest number of a record.
MAX_SEQ = 2**31 - 1


class Kind(StrEnum):
    START = "start"
    COLLECTED = "collected"
    TEST_START = "test_start"
    TEST_END = "test_end"
    MEASUREMENT = "measurement"
    SERIES = "series"
    SAMPLER = "sampler"
    STAGE = "stage"
    INCIDENT = "incident"
    ARTIFACT = "artifact"
    FINGERPRINT = "fingerprint"
    NOTE = "note"
    END = "end"


@dataclass(frozen=True, slots=True)
class Record:
    """One line. `kind` is a plain string: an unknown kind of a newer runner is kept, not dropped."""

    seq: int
    wall: float
    mono: float
    kind: str
    fields: dict[str, Any]

    def line(self) -> str:
        """The line as written, newline included. Raises ValueError above `MAX_LINE` bytes."""
        body = {"v": VERSION, "seq": self.seq, "wall": self.wall, "mono": self.mono, "kind": self.kind, **self.fields}
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
        if len(text.encode("utf-8", "surrogatepass")) > MAX_LINE:
            raise ValueError(f"journal record {self.kind!r} is longer than {MAX_LINE} bytes: bound its text first")
        return text


_ENVELOPE = {"v", "seq", "wall", "mono", "kind"}


def parse_line(line: str | bytes) -> Record | None:
    """The record of one whole line; None for what is not one (torn, empty, foreign)."""
    if len(line) > MAX_LINE:
        return None
    try:
        body = json.loads(line)
        seq = int(body["seq"])
        if not 0 <= seq <= MAX_SEQ:
            return None
        return Record(
            seq=seq,
            wall=float(body["wall"]),
            mono=float(body["mono"]),
            kind=str(body["kind"]),
            fields={k: v for k, v in body.items() if k not in _ENVELOPE},
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def records(lines: Iterable[str | bytes]) -> Iterator[Record]:
    """Every readable record in order; a torn or foreign line is passed over."""
    for line in lines:
        record = parse_line(line)
        if record is not None:
            yield record


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """`text` cut in its middle to `limit` characters, saying how much is gone: the ends tell most."""
    if len(text) <= limit:
        return text
    half = (limit - 60) // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def finished_tests(entries: Iterable[Record]) -> dict[str, str]:
    """test id → outcome of every test that ended; what a resumed attempt must not run again."""
    return {str(r.fields["test"]): str(r.fields["outcome"]) for r in entries if r.kind == Kind.TEST_END}
