"""How often is the cause of an ANR named rightly? Accuracy and confusion on labelled ANRs.

    python benchmarks/anr.py [--each 10] [--seed 1] [--samples FOLDER]

Two sets: the samples whose cause a person read from the text, and generated ones (`benchmarks/incidents/anr_traces.py`,
written from the formats' documentation) with the cause of the main thread and the one at the end of its wait chain.
The generator and the parser have one author: it shows what is followed, the samples show what real texts are like.
Prints tables and writes benchmarks/results/anr.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from benchmarks.incidents.anr_traces import variants  # noqa: E402
from farm.evidence.registry import parse  # noqa: E402

SAMPLES = ROOT / "tests" / "data" / "samples" / "device" / "anr"
#: (what it is, the label, what was found)
Case = tuple[str, str, str]


def samples(folder: Path) -> list[Case]:
    """Those of which a person named the cause, of the text or of its first ANR."""
    found = []
    for path in sorted(folder.glob("*.txt")):
        core = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")).get("core", {})
        first: dict[str, Any] = next(iter(core.get("anrs") or ()), {})
        label = core.get("cause") or first.get("cause")
        if label:
            facts = parse("anr", path.read_bytes().decode("utf-8", "replace").split("\n"))
            named = next((anr["cause"] for anr in facts["anrs"]), facts["cause"])
            found.append((path.stem, str(label), str(named)))
    return found


def generated(each: int, seed: int) -> tuple[list[Case], list[Case]]:
    """By the main thread, and by the end of the chain."""
    causes, roots = [], []
    for one in variants(each, seed):
        anrs = parse("anr", one.text.split("\n"))["anrs"]
        first: dict[str, Any] = anrs[0] if anrs else {}
        causes.append((one.name, one.cause, str(first.get("cause"))))
        if one.root is not None:
            roots.append((one.name, one.root, str(first.get("root_cause"))))
    return causes, roots


def judged(cases: Iterable[Case]) -> dict[str, Any]:
    cases = list(cases)
    right = sum(label == found for _, label, found in cases)
    confusion: dict[str, dict[str, int]] = {}
    for (label, found), many in sorted(Counter((label, found) for _, label, found in cases).items()):
        confusion.setdefault(label, {})[found] = many
    return {
        "cases": len(cases),
        "right": right,
        "accuracy": right / len(cases) if cases else None,
        "confusion": confusion,
        "wrong": [case for case in cases if case[1] != case[2]],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    options = parser.parse_args()
    causes, roots = generated(options.each, options.seed)
    sets = {
        "samples": samples(options.samples),
        "generated, main thread": causes,
        "generated, end of the chain": roots,
    }
    result = {"each": options.each, "seed": options.seed, **{name: judged(cases) for name, cases in sets.items()}}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "anr.json").write_text(json.dumps(result, indent=2) + "\n")
    for name in sets:
        one: dict[str, Any] = result[name]
        share = "not measured" if one["accuracy"] is None else f"{one['accuracy']:.3f}"
        print(f"{name}: {one['right']} of {one['cases']} right, accuracy {share}")
        for label, row in one["confusion"].items():
            print(f"  {label:<24}" + ", ".join(f"{found} {many}" for found, many in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
