"""What came of the faults that were struck last, as a table of fault × step.

    python -m tests.chaos.report                  # prints it
    python -m tests.chaos.report docs/chaos.md    # and writes it there

Every test of `tests/chaos` keeps its rows (CHAOS_RESULTS, else .cache/chaos.jsonl); of each pair the last one counts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.chaos.faults import FAULTS, blames
from tests.chaos.gates import STEPS
from tests.chaos.waves import FARM, Row

#: Of what is wrong with the whole farm so many characters are told.
_WORDS = 300

_HEAD = """# Chaos

What the farm makes of each fault in each step of an attempt: {done} of the {pairs} pairs of {faults} faults and {steps}
steps, as `pytest --slow tests/chaos` saw them last; seed {seeds}.
Written by `python -m tests.chaos.report docs/chaos.md`. One fault alone: `pytest --slow tests/chaos -k unplugged`; what
came of it takes the place of what was seen before.

One fault meets several attempts at once, on virtual devices of one host, each held in another step; another host goes
on beside it and must not notice. Then: every run has one outcome, who is blamed is who did it, no two leases of a
device overlap, each of the suite's tests has passed exactly once, and journal, logs and artifacts of every attempt that
ran are kept: a host that was lost sends them when it is back.

Each cell: the ends of the run's attempts, in order, with cause and who is blamed where one did not pass. ✓ is *passed*
at the first try: the fault cost time and nothing else. ✗: not as it must be.

"""


def results() -> Path:
    return Path(os.environ.get("CHAOS_RESULTS") or Path(__file__).parents[2] / ".cache" / "chaos.jsonl")


def keep(rows: Sequence[Row]) -> None:
    """Append what came of a wave."""
    results().parent.mkdir(parents=True, exist_ok=True)
    with results().open("a") as file:
        file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)


def read() -> dict[tuple[str, str], Row]:
    """(fault, step) → the last row."""
    if not results().exists():
        return {}
    rows = [json.loads(line) for line in results().read_text().splitlines()]
    found = [
        Row(**{**row, "attempts": tuple(map(tuple, row["attempts"])), "wrong": tuple(row["wrong"])}) for row in rows
    ]
    return {(row.fault, row.step): row for row in found}


def cell(row: Row | None) -> str:
    if row is None:
        return "not run"
    ends = [
        "✓" if outcome == "passed" else f"{outcome} ({cause or 'no cause'}; {blame})"
        for outcome, cause, blame in row.attempts
    ]
    return ("✗ " if row.wrong else "") + " → ".join(ends)


def text(rows: dict[tuple[str, str], Row]) -> str:
    """The whole document."""
    seeds = ", ".join(sorted({row.seed for row in rows.values()})) or "none"
    done = sum((fault.name, step.value) in rows for fault in FAULTS for step in STEPS)
    head = _HEAD.format(done=done, pairs=len(FAULTS) * len(STEPS), faults=len(FAULTS), steps=len(STEPS), seeds=seeds)
    lines = ["| fault | may be blamed | " + " | ".join(step.value for step in STEPS) + " |"]
    lines.append("|---" * (len(STEPS) + 2) + "|")
    for fault in FAULTS:
        cells = [cell(rows.get((fault.name, step.value))) for step in STEPS]
        whose = ", ".join(sorted(blame.value for blame in blames(fault))) or "nobody: no attempt ends by it"
        lines.append(f"| `{fault.name}`: {fault.words} | {whose} | " + " | ".join(cells) + " |")
    return head + "\n".join([*lines, *_farm_wide(rows)]) + "\n"


def _farm_wide(rows: dict[tuple[str, str], Row]) -> list[str]:
    """What is wrong with the farm as a whole belongs to no step."""
    found = [(row.fault, words) for row in rows.values() if row.step == FARM for words in row.wrong]
    return ["", *(f"✗ `{fault}`: {words[:_WORDS]}" for fault, words in found)] if found else []


def main(arguments: list[str]) -> int:
    rows = read()
    if not rows:
        print("no fault was struck yet: pytest --slow tests/chaos", file=sys.stderr)
        return 1
    document = text(rows)
    print(document)
    if arguments:
        Path(arguments[0]).write_text(document)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
