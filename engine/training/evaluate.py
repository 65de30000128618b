"""How many fields of unseen receipts the engine gets right with a model.

    python -m engine.training.evaluate --engine build/engine/…/farm-engine --model receipt-f16.gguf [--json]

Each receipt is one run of the engine, greedy, as a device would run it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from engine.training.receipts import SPLITS, Example, example
from engine.training.scoring import Score, added, score, wilson

MOST_TOKENS = 640
CONTEXT = 2048
TIMEOUT_S = 300


class EngineFailed(RuntimeError):
    """The engine did not answer; the message says how it ended."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One receipt and what came back."""

    index: int
    example: Example
    text: str
    score: Score


def ask(engine: Path, model: Path, prompt: str) -> str:
    """The engine's answer to a prompt. Raises EngineFailed when it ends with an error, TimeoutExpired when never."""
    done = subprocess.run(
        [engine, "--model", model, "--prompt", prompt, "--n-predict", str(MOST_TOKENS), "--ctx", str(CONTEXT),
         "--events", "-"],
        capture_output=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise EngineFailed(f"{engine} ended with {done.returncode}: {done.stderr.decode('utf-8', 'replace').strip()}")
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event["ev"] == "result":
            return str(event["text"])
    raise EngineFailed(f"{engine} ended with 0 and no result")


def run(engine: Path, model: Path, split: str, indexes: Sequence[int], jobs: int) -> list[Answered]:
    """Asks for each receipt, `jobs` at a time."""

    def one(index: int) -> Answered:
        shown = example(split, index)
        text = ask(engine, model, shown.prompt)
        return Answered(index, shown, text, score(shown.receipt, text))

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, indexes))


@dataclass(frozen=True, slots=True)
class Share:
    """Right ones of one kind of field, with the 95 % interval of their share."""

    right: int
    of: int
    low: float
    high: float

    @classmethod
    def measured(cls, right: int, of: int) -> Share:
        """From counts."""
        return cls(right, of, *wilson(right, of))

    def to_json(self) -> dict[str, float]:
        """For `--json`."""
        return {"right": self.right, "of": self.of, "share": self.right / self.of, "low": self.low, "high": self.high}


def by_kind(answers: Sequence[Answered]) -> dict[str, Share]:
    """Per kind of field, all of them together (`fields`), and whole answers (`exact`)."""
    return {kind: Share.measured(*counts) for kind, counts in added([a.score for a in answers]).items()}


def by_noise(answers: Sequence[Answered]) -> dict[str, str]:
    """Per noise level of the scan (misreadings per character): exact answers of all."""
    levels = sorted({a.example.noise for a in answers})
    of_level = {level: [a.score.exact for a in answers if a.example.noise == level] for level in levels}
    return {f"{level:g}": f"{sum(hits)}/{len(hits)}" for level, hits in of_level.items()}


def table(answers: Sequence[Answered]) -> str:
    """The report for people."""
    rows = [f"{'':10}  right    of   share   95 % interval"]
    for kind, s in by_kind(answers).items():
        rows.append(f"{kind:10}  {s.right:5}  {s.of:4}  {s.right / s.of:.4f}  {s.low:.4f}-{s.high:.4f}")
    noise = "  ".join(f"{level}: {hits}" for level, hits in by_noise(answers).items())
    return "\n".join([*rows, f"exact by noise (misreadings per character)  {noise}"])


def main() -> int:
    """Command line. Exit status 1 when the engine failed."""
    parser = argparse.ArgumentParser(description="Field accuracy of a receipt model in the engine.")
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--split", choices=SPLITS, default="unseen")
    parser.add_argument("--receipts", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--wrong", action="store_true", help="show the answers that are not exact, on standard error")
    arguments = parser.parse_args()
    try:
        answers = run(arguments.engine, arguments.model, arguments.split, range(arguments.receipts), arguments.jobs)
    except (EngineFailed, subprocess.TimeoutExpired, OSError) as error:
        print(f"engine.training.evaluate: {error}", file=sys.stderr)
        return 1
    for answered in answers if arguments.wrong else ():
        if not answered.score.exact:
            print(f"{answered.index}\n- {answered.example.answer}\n+ {answered.text}", file=sys.stderr)
    if arguments.json:
        kinds = {kind: share.to_json() for kind, share in by_kind(answers).items()}
        print(json.dumps({**kinds, "exact by noise": by_noise(answers)}, indent=1))
    else:
        print(table(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
