"""Do clusters find the faults? Adjusted Rand index of clusters against the labels of known crashes and ANRs.

    python benchmarks/clusters.py [--copies 20] [--seed 1] [--samples FOLDER]

Every labelled sample (a crash, an ANR, a failed model load) is one fault; `benchmarks/incidents/vary.py` makes copies
of it as other devices, builds and vendors would print them. All copies go through the parsers, and are grouped: by the
exact message, by the exact top frame, by the top frame without addresses, by signature, and by cluster. Against each
grouping stand two labels: the sample (the very fault) and its class (crash) or cause (ANR), where a person named one.
Prints a table and writes benchmarks/results/clusters.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from benchmarks.incidents.vary import vary  # noqa: E402
from farm.evidence import clusters, normal, signature  # noqa: E402
from farm.evidence.registry import parse  # noqa: E402

SAMPLES = ROOT / "tests" / "data" / "samples" / "device"
KINDS = ("crash", "anr", "model_load")


@dataclass(frozen=True, slots=True)
class Incident:
    """One copy. `fault`: the sample that it is a copy of; `label`: its class or cause, as a person read it."""

    fault: str
    label: str | None
    message: str
    frame: str
    signature: signature.Signature


def incidents(folder: Path, copies: int, seed: int) -> tuple[list[Incident], list[str]]:
    """Every copy of every sample with an incident in it, and the samples of which a copy told nothing."""
    made: list[Incident] = []
    silent: list[str] = []
    for kind in KINDS:
        for path in sorted((folder / kind).glob("*.txt")):
            text = path.read_bytes().decode("utf-8", "replace")
            label = _label(path)
            if _first(kind, text) is None:
                continue
            for copy in range(copies):
                found = _first(kind, vary(text, hash_of(path.stem, seed, copy)))
                if found is None:
                    silent.append(f"{kind}/{path.stem}")
                    continue
                facts, sign = found
                frames = _frames(facts)
                made.append(Incident(path.stem, label, _message(facts), frames[0] if frames else _message(facts), sign))
    return made, silent


def hash_of(name: str, seed: int, copy: int) -> int:
    """The same number for the same copy in every process."""
    return seed * 1_000_003 + copy * 7919 + sum(ord(char) * (i + 1) for i, char in enumerate(name))


def _first(kind: str, text: str) -> tuple[Mapping[str, Any], signature.Signature] | None:
    facts = {"kind": kind, **parse(kind, text.split("\n"))}
    for entry, sign in zip(_entries(kind, facts), signature.signed(facts), strict=True):
        return entry, sign
    return None


def _entries(kind: str, facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if kind == "model_load":
        return [facts] if facts.get("error") else []
    return list(facts.get("incidents" if kind == "crash" else "anrs") or ())


def _message(facts: Mapping[str, Any]) -> str:
    keys = ("abort_message", "root_cause", "message", "reason", "signal_name", "trigger", "class")
    return next((str(facts[key]) for key in keys if facts.get(key)), "")


def _label(path: Path) -> str | None:
    """What a person read from the text: class, cause or error. None: that sample has no such label."""
    core = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")).get("core", {})
    first: Mapping[str, Any] = next(iter(core.get("anrs") or ()), {})
    named = core.get("class") or core.get("error") or core.get("cause") or first.get("cause") or first.get("trigger")
    return f"{path.parent.name}:{named}" if named else None


def _frames(facts: Mapping[str, Any]) -> list[str]:
    return [str(f) for f in facts.get("backtrace") or (facts.get("main_thread") or {}).get("frames") or ()]


def groupings(made: list[Incident]) -> dict[str, list[str]]:
    """Name -> a word per incident; equal words are one group."""
    distinct = list({incident.signature.key: incident.signature for incident in made}.values())
    labels = clusters.group([sign.text for sign in distinct])
    cluster = {s.key: s.key if label < 0 else f"#{label}" for s, label in zip(distinct, labels, strict=True)}
    return {
        "exact message": [incident.message for incident in made],
        "exact top frame": [incident.frame for incident in made],
        "top frame, normalised": [(normal.frames([i.frame], 1) or ("",))[0] for i in made],
        "signature": [incident.signature.key for incident in made],
        "cluster": [cluster[incident.signature.key] for incident in made],
    }


def main() -> int:
    from sklearn.metrics import adjusted_rand_score

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    options = parser.parse_args()
    began = time.perf_counter()
    made, silent = incidents(options.samples, options.copies, options.seed)
    parsed = time.perf_counter()
    found = groupings(made)
    result: dict[str, Any] = {
        "incidents": len(made),
        "faults": len({incident.fault for incident in made}),
        "labels": len({incident.label for incident in made if incident.label}),
        "copies": options.copies,
        "seed": options.seed,
        "silent_copies": len(silent),
        "silent_samples": sorted(set(silent)),
        "seconds": {"read": round(parsed - began, 2), "group": round(time.perf_counter() - parsed, 2)},
        "adjusted_rand_index": {
            name: {
                "fault": adjusted_rand_score([incident.fault for incident in made], words),
                "class": adjusted_rand_score(*_labelled(made, words)),
                "groups": len(set(words)),
            }
            for name, words in found.items()
        },
        "split": _split(made, found["cluster"]),
        "mixed": _mixed(made, found["cluster"]),
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "clusters.json").write_text(json.dumps(result, indent=2) + "\n")
    _print(result)
    return 0


def _labelled(made: list[Incident], words: list[str]) -> tuple[list[str], list[str]]:
    """Labels and groups of the incidents that have a label."""
    pairs = [(incident.label, word) for incident, word in zip(made, words, strict=True) if incident.label]
    return [label for label, _ in pairs if label], [word for _, word in pairs]


def _split(made: list[Incident], words: list[str]) -> dict[str, int]:
    """Faults that lie in more than one cluster, with how many."""
    where: dict[str, set[str]] = {}
    for incident, word in zip(made, words, strict=True):
        where.setdefault(incident.fault, set()).add(word)
    return {fault: len(found) for fault, found in where.items() if len(found) > 1}


def _mixed(made: list[Incident], words: list[str]) -> list[tuple[str, ...]]:
    """Faults that share a cluster."""
    inside: dict[str, set[str]] = {}
    for incident, word in zip(made, words, strict=True):
        inside.setdefault(word, set()).add(incident.fault)
    return sorted({tuple(sorted(found)) for found in inside.values() if len(found) > 1})


def _print(result: dict[str, Any]) -> None:
    print(f"{result['incidents']} incidents of {result['faults']} faults, {result['labels']} classes and causes")
    print(f"{'grouped by':<24}{'ARI, fault':>12}{'ARI, class':>12}{'groups':>8}")
    for name, row in result["adjusted_rand_index"].items():
        print(f"{name:<24}{row['fault']:>12.3f}{row['class']:>12.3f}{row['groups']:>8}")
    print(f"copies that told nothing: {result['silent_copies']} {result['silent_samples']}")
    print(f"faults in more than one cluster: {result['split']}")
    print(f"faults that share a cluster: {result['mixed']}")


if __name__ == "__main__":
    sys.exit(main())
