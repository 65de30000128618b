"""What stands around the process that did not respond: other processes' threads, binder transactions, forward passes.

Binder, from the kernel's debug file (`/sys/kernel/debug/binder/transactions`, in bugreports; drivers/android/binder.c,
`print_binder_transaction_ilocked`) and from tracepoints (include/trace/events/binder.h):

    outgoing transaction 51: 0000000000000000 from 4251:4251 to 1093:1120 code 3 flags 10 pri 0:120 r1
    main-4251 (4251) [003] .... 51.2: binder_transaction: transaction=51 dest_node=5 dest_proc=1093 dest_thread=0
        reply=0 flags=0x10 code=0x3
    Binder:1093_5-1120 (1093) [001] .... 51.3: binder_transaction_received: transaction=51

Forward passes, from an engine's event lines in the log (engine/EVENTS.md: `stage_begin`, `stage_end`), from marks in a
trace (`tracing_mark_write: B|4251|prefill`, `E|4251`), or from lines that say `forward begin`, `forward end`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from farm.evidence.anr.stacks import Stacks
from farm.evidence.lines import Line

MAX_TRANSACTIONS, MAX_MARKS, MAX_PROCESSES = 2_000, 2_000, 64
#: Flag of a transaction that nobody waits for (TF_ONE_WAY).
ONE_WAY = 0x01

_DEBUG = re.compile(
    r"\b(?:outgoing|pending) transaction (\d{1,12}): \S{1,20} from (\d{1,10}):(\d{1,10}) to (\d{1,10}):(\d{1,10})"
    r"(?: context \S{1,40})? code ([0-9a-f]{1,8}) flags ([0-9a-f]{1,8})"
)
_SENT = re.compile(
    r"-(\d{1,10})\s+(?:\(\s*(\d{1,10}|-+)\)\s+)?\[\d{1,4}\].{0,60}binder_transaction: transaction=(\d{1,12}) "
    r"dest_node=\d{1,12} dest_proc=(\d{1,10}) dest_thread=(\d{1,10}) reply=(\d) flags=0x([0-9a-f]{1,8}) "
    r"code=0x([0-9a-f]{1,8})"
)
_RECEIVED = re.compile(r"-(\d{1,10})\s.{0,100}binder_transaction_received: transaction=(\d{1,12})")
_MARK = re.compile(r"-(\d{1,10})\s.{0,100}tracing_mark_write: ([BE])(?:\|(\d{1,10}))?(?:\|(.{0,200}))?")
_SAID = re.compile(r"\bforward(?:[ _-]?pass)?\W{1,3}(begin|start|enter|end|done|leave)", re.I)
_FORWARD = re.compile(r"forward|prefill|decode|infer|graph_compute|interpreter.{0,20}invoke", re.I)
_CLOCK = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A call that its sender waits for. `to_tid` 0: no thread of the other process has taken it."""

    number: int
    from_pid: int | None
    from_tid: int
    to_pid: int
    to_tid: int
    code: int
    line: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A forward pass on one thread. Times are the log's, None where the text has none; `end` None: it goes on."""

    tid: int
    name: str
    line: str
    begin: str | None = None
    end: str | None = None
    open: bool = True


@dataclass(slots=True)
class World:
    """Filled line by line; every part is bounded."""

    peers: dict[int, Stacks] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    transactions: dict[int, Transaction] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    def peer(self, pid: int) -> Stacks | None:
        """The threads of another process; None when there are too many processes already."""
        if pid not in self.peers and len(self.peers) >= MAX_PROCESSES:
            return None
        return self.peers.setdefault(pid, Stacks())

    def feed(self, line: Line) -> bool:
        """Whether the line speaks of a transaction or a forward pass."""
        text = line.text
        if "transaction" in text:
            return self._transaction(text)
        if "tracing_mark_write" in text and (match := _MARK.search(text)):
            self._traced(match, text)
            return True
        if line.tid is not None and ('"ev"' in text or "orward" in text):
            return self._said(line, line.tid)
        return False

    def _transaction(self, text: str) -> bool:
        if match := _DEBUG.search(text):
            number, from_pid, from_tid, to_pid, to_tid = (int(part) for part in match.groups()[:5])
            self._put(
                Transaction(number, from_pid, from_tid, to_pid, to_tid, int(match[6], 16), _short(text)), match[7]
            )
            return True
        if match := _SENT.search(text):
            if match[6] == "0":
                pid = int(match[2]) if match[2] and match[2].isdigit() else None
                sent = Transaction(
                    int(match[3]), pid, int(match[1]), int(match[4]), int(match[5]), int(match[8], 16), _short(text)
                )
                self._put(sent, match[7])
            return True
        if match := _RECEIVED.search(text):
            known = self.transactions.get(int(match[2]))
            if known is not None:
                self.transactions[known.number] = Transaction(
                    known.number, known.from_pid, known.from_tid, known.to_pid, int(match[1]), known.code, known.line
                )
            return True
        return False

    def _put(self, sent: Transaction, flags: str) -> None:
        if not int(flags, 16) & ONE_WAY and len(self.transactions) < MAX_TRANSACTIONS:
            self.transactions[sent.number] = sent

    def waiting(self, tid: int) -> Transaction | None:
        """The newest call that this thread waits for."""
        sent = [call for call in self.transactions.values() if call.from_tid == tid]
        return max(sent, key=lambda call: call.number, default=None)

    def _traced(self, match: re.Match[str], text: str) -> None:
        tid = int(match[1])
        if match[2] == "E":
            self._end(tid, None)
        else:
            self._begin(Mark(tid, (match[4] or "").strip()[:100], _short(text)))

    def _said(self, line: Line, tid: int) -> bool:
        time = _CLOCK.search(line.time or "")
        at = time[0] if time else None
        if match := _SAID.search(line.text):
            if match[1].lower() in ("begin", "start", "enter"):
                self._begin(Mark(tid, "forward", _short(line.text), at))
            else:
                self._end(tid, at)
            return True
        kind, stage = _event(line.text)
        if kind == "stage_begin" and stage:
            self._begin(Mark(tid, stage, _short(line.text), at))
        elif kind == "stage_end":
            self._end(tid, at)
        return kind is not None

    def _begin(self, mark: Mark) -> None:
        if len(self.marks) >= MAX_MARKS:
            del self.marks[: MAX_MARKS // 2]
        self.marks.append(mark)

    def _end(self, tid: int, at: str | None) -> None:
        """The innermost one of the thread that is open."""
        for index in range(len(self.marks) - 1, -1, -1):
            mark = self.marks[index]
            if mark.tid == tid and mark.open:
                self.marks[index] = Mark(tid, mark.name, mark.line, mark.begin, at, open=False)
                return

    def forward(self, tid: int | None, at: str | None) -> Mark | None:
        """The forward pass that thread `tid` was in at time `at`; where times are not told, one that has no end."""
        for mark in reversed(self.marks):
            if mark.tid != tid or not _FORWARD.search(mark.name):
                continue
            if at is not None and mark.begin is not None:
                if mark.begin <= at and (mark.open or (mark.end is not None and mark.end >= at)):
                    return mark
            elif mark.open:
                return mark
        return None


def clock(time: str | None) -> str | None:
    """`MM-DD hh:mm:ss.mmm` of a log line's time, which can be compared as text; None: it has another form."""
    found = _CLOCK.search(time or "")
    return found[0] if found else None


def _event(text: str) -> tuple[str | None, str | None]:
    begin = text.find("{")
    if begin < 0 or len(text) > 4000:
        return None, None
    try:
        event = json.loads(text[begin:])
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(event, dict) or not isinstance(event.get("ev"), str):
        return None, None
    stage = event.get("stage")
    return event["ev"], stage[:100] if isinstance(stage, str) else None


def _short(text: str) -> str:
    return text.strip()[:300]
