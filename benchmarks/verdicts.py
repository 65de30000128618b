"""How often a verdict is wrong: false alarms on clean changes, and real regressions that are found.

    python benchmarks/verdicts.py [--prs 300] [--seed 1]

A simulated change has 30 series of noisy runs (benchmarks/gates/noise.py). Ten pairs a round are added to every series
that is not decided yet, up to 80, just as `farm run --vs` does. In a changed one a single series of the 30 got worse.
Beside it: gates that others use, on ten separate runs a side (all of A, an hour, all of B) and on ten interleaved ones.
Prints a table and writes benchmarks/results/verdicts.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from benchmarks.gates import noise, peers  # noqa: E402
from farm.domain.verdicts import LOOK_EVERY, MOST_PAIRS, Judgement, PrVerdict, Run, Series, Verdict, judge  # noqa: E402

SERIES = 30


@dataclass(slots=True)
class Tally:
    """Of many simulated changes with the same truth."""

    prs: int = 0
    red: int = 0
    found: int = 0  # the one series that got worse
    pairs_unchanged: list[int] = field(default_factory=list)
    pairs_found: list[int] = field(default_factory=list)
    swapped_alike: int = 0


def simulate(effect: float, rng: np.random.Generator) -> list[Series]:
    """30 series with 80 pairs each; the first one's candidate is slower by `effect`."""
    made = []
    for index in range(SERIES):
        slow = noise.slowness(noise.draw(rng), 2 * MOST_PAIRS, rng)
        is_b = noise.interleaved(MOST_PAIRS, rng)
        truth = rng.uniform(5, 500)
        figures = truth * np.exp(slow + is_b * (np.log1p(effect) if index == 0 else 0.0))
        runs = tuple(Run("B" if b else "A", float(x)) for b, x in zip(is_b, figures, strict=True))
        made.append(Series(id=str(index), runs=runs, unit="ms"))
    return made


def in_rounds(series: list[Series]) -> Judgement:
    """As a run does it: ten more pairs for whoever is not decided."""
    taken = [0] * len(series)
    undecided = set(range(len(series)))
    while True:
        for index in undecided:
            taken[index] += LOOK_EVERY
        judged = judge(replace(s, runs=s.runs[: 2 * n]) for s, n in zip(series, taken, strict=True))
        undecided = {
            i for i, one in enumerate(judged.series) if one.verdict is Verdict.INCONCLUSIVE and taken[i] < MOST_PAIRS
        }
        if not undecided:
            return judged


def swapped(series: list[Series]) -> list[Series]:
    """The same figures for the same arms, each pair in the other order."""
    return [
        replace(s, runs=tuple(r for i in range(0, len(s.runs), 2) for r in (s.runs[i + 1], s.runs[i]))) for s in series
    ]


def ours(effect: float, prs: int, rng: np.random.Generator) -> Tally:
    tally = Tally()
    for _ in range(prs):
        series = simulate(effect, rng)
        judged = in_rounds(series)
        tally.prs += 1
        tally.red += judged.pr is PrVerdict.REGRESSED
        tally.found += judged.series[0].verdict is Verdict.REGRESSED
        tally.pairs_unchanged += [s.pairs for s in judged.series if s.verdict is Verdict.UNCHANGED]
        if judged.series[0].verdict is Verdict.REGRESSED:
            tally.pairs_found.append(judged.series[0].pairs)
        again = in_rounds(swapped(series))
        tally.swapped_alike += [s.verdict for s in again.series] == [s.verdict for s in judged.series]
    return tally


def theirs(prs: int, rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """False alarms per clean change and +5 % found, for each gate, on separate and on interleaved runs."""
    out: dict[str, dict[str, float]] = {}
    for name, gate in peers.GATES.items():
        counts = {"alarm, separate": 0, "alarm, interleaved": 0, "+5 %, separate": 0, "+5 %, interleaved": 0}
        for _ in range(prs):
            for apart, words in ((True, "separate"), (False, "interleaved")):
                counts[f"alarm, {words}"] += any(gate(*_sides(0.0, apart, rng)) for _ in range(SERIES))
                counts[f"+5 %, {words}"] += gate(*_sides(0.05, apart, rng))
        out[name] = {key: count / prs for key, count in counts.items()}
    return out


def _sides(effect: float, apart: bool, rng: np.random.Generator) -> tuple[Any, Any]:
    nature = noise.draw(rng)
    if apart:  # the second lot is measured later: the whole drift lies between, and another heat state
        slow = noise.slowness(nature, 160, rng)
        base, candidate = slow[: peers.RUNS], slow[-peers.RUNS :]
    else:
        slow = noise.slowness(nature, 2 * peers.RUNS, rng)
        is_b = noise.interleaved(peers.RUNS, rng)
        base, candidate = slow[~is_b], slow[is_b]
    return np.exp(base), np.exp(candidate) * (1 + effect)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    tallies = {effect: ours(effect, options.prs, rng) for effect in (0.0, 0.05, 0.10)}
    clean = tallies[0.0]
    result: dict[str, Any] = {
        "series": SERIES,
        "prs": options.prs,
        "seed": options.seed,
        "false_alarms_per_clean_pr": clean.red / clean.prs,
        "power": {f"+{effect:.0%}": tallies[effect].found / tallies[effect].prs for effect in (0.05, 0.10)},
        "median_pairs_unchanged": median(clean.pairs_unchanged),
        "median_pairs_found": {f"+{e:.0%}": median(tallies[e].pairs_found or [0]) for e in (0.05, 0.10)},
        "order_swap_alike": sum(t.swapped_alike for t in tallies.values()) / sum(t.prs for t in tallies.values()),
        "aims": {"false_alarms": 0.05, "power +5%": 0.95, "power +10%": 0.99, "median_pairs_unchanged": 20},
        "peers": theirs(options.prs, rng),
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "verdicts.json").write_text(json.dumps(result, indent=2) + "\n")
    _print(result)
    return 0


def _print(result: dict[str, Any]) -> None:
    print(f"{result['prs']} simulated changes of {result['series']} series for each line; aims in brackets")
    print(f"false alarms per clean change    {result['false_alarms_per_clean_pr']:.3f}  (at most 0.05)")
    for name, aim in (("+5%", 0.95), ("+10%", 0.99)):
        pairs = result["median_pairs_found"][name]
        print(
            f"found at {name:>5}                   {result['power'][name]:.3f}  (at least {aim}; median {pairs} pairs)"
        )
    print(f"median pairs, unchanged series   {result['median_pairs_unchanged']}     (at most 20)")
    print(f"same verdicts with pairs swapped {result['order_swap_alike']:.3f}  (1)")
    print("\nothers' gates, 10 runs a side           alarm/clean change         +5 % found")
    print("                                    separate  interleaved   separate  interleaved")
    for name, rates in result["peers"].items():
        print(f"  {name:32}" + "".join(f"{rates[key]:10.2f}" for key in (
            "alarm, separate", "alarm, interleaved", "+5 %, separate", "+5 %, interleaved"
        )))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
