"""What a log says happened, as incidents: class, one line for people, evidence, signature.

`found` takes what `farm.evidence.auto.Log.finish()` gives. A kill for memory is told once for all that were killed: the
bystanders are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from farm.evidence import signature
from farm.evidence.anr import AnrParser
from farm.evidence.lines import Facts, feed_all
from farm.evidence.signature import Signature

#: Most incidents that one log gives, and characters of an incident's evidence.
MAX_FOUND, MAX_EVIDENCE = 40, 8_000
KILL = "low_memory_kill"


@dataclass(frozen=True, slots=True)
class Found:
    """One incident. `count`: so many alike. `pid`: of the process that it happened to, where it is told."""

    klass: str
    summary: str
    evidence: str
    signature: Signature
    count: int = 1
    pid: int | None = None


def found(logs: Mapping[str, Facts]) -> list[Found]:
    """Everything of a log that went wrong, ANRs and deaths first; bounded."""
    made = [
        *(_anr(facts) for facts in logs.get("anr", {}).get("anrs") or ()),
        *_deaths(logs.get("crash", {}).get("incidents") or ()),
    ]
    return made[:MAX_FOUND]


def explained(klass: str, evidence: str | None) -> str | None:
    """The evidence of an incident that was told from elsewhere, with what it means before it: an ANR's wait chain."""
    if klass != "anr" or not evidence:
        return evidence
    anrs = feed_all(AnrParser(), evidence[: signature.MAX_EVIDENCE].splitlines())["anrs"]
    return f"{_chain(anrs[0])}\n\n{evidence}" if anrs else evidence


def _chain(facts: Facts) -> str:
    """Why it did not respond and what its main thread waits for, to the end."""
    lines = [f"reason: {facts.get('reason')}", f"cause: {facts.get('cause')} ({facts.get('cause_basis')})"]
    if facts.get("wait_chain"):
        lines.append(f"wait chain, {facts.get('wait_end')}: {facts.get('root_cause')} ({facts.get('root_basis')})")
    return "\n".join([*lines, *(_link(link) for link in facts.get("wait_chain") or ())])


def _anr(facts: Facts) -> Found:
    who = facts.get("process") or "an application"
    cause, root = facts.get("cause"), facts.get("root_cause")
    words = f"{who} did not respond: {cause}" + (
        f", at the end of its wait chain {root}" if root not in (None, cause) else ""
    )
    lines = [_chain(facts)]
    lines += [f"  {frame}" for frame in (facts.get("main_thread") or {}).get("frames") or ()]
    return Found("anr", words[:500], "\n".join(lines)[:MAX_EVIDENCE], signature.of_anr(facts), pid=facts.get("pid"))


def _link(link: Mapping[str, Any]) -> str:
    where = f"{link.get('process') or link.get('pid') or ''} {link.get('thread') or ''}".strip()
    waits = ""
    if link.get("waits"):
        why = str(link.get("why") or "no line says who has it").removeprefix("- ")
        waits = f" waits ({link['waits']}) for {link.get('waits_for')}: {why}"
    forward = f" in forward pass {link['forward']}" if link.get("forward") else ""
    return f"- {where}{waits}{forward}; at {link.get('at')}"


def _deaths(incidents: Iterable[Facts]) -> Iterator[Found]:
    kills: list[Facts] = []
    for facts in incidents:
        if facts.get("class") == KILL:
            kills.append(facts)
        else:
            yield _death(facts)
    by_process: dict[str, list[Facts]] = {}
    for facts in kills:
        by_process.setdefault(_who(facts), []).append(facts)
    for who, alike in by_process.items():
        words = f"{who} was killed to get its memory back: {alike[0].get('reason') or 'no reason is told'}"
        lines = [", ".join(f"{key} {value}" for key, value in facts.items() if key != "class") for facts in alike]
        yield Found(
            "low-memory-kill",
            words[:500],
            "\n".join(lines)[:MAX_EVIDENCE],
            signature.of_crash(alike[0]),
            len(alike),
            alike[0].get("pid"),
        )


def _death(facts: Facts) -> Found:
    said = (
        facts.get("abort_message") or facts.get("root_cause") or facts.get("message") or facts.get("signal_name") or ""
    )
    klass = str(facts.get("class") or "crash").replace("_", "-")
    words = f"{_who(facts)}: {klass.replace('-', ' ')}" + (f": {said}" if said else "")
    lines = [f"{key}: {value}" for key, value in facts.items() if key not in ("class", "backtrace")]
    lines += [str(frame) for frame in facts.get("backtrace") or ()]
    text = "\n".join(lines)[:MAX_EVIDENCE]
    return Found(klass[:60], " ".join(words.split())[:500], text, signature.of_crash(facts), pid=facts.get("pid"))


def _who(facts: Facts) -> str:
    return str(
        facts.get("process")
        or facts.get("victim_comm")
        or (f"pid {facts['pid']}" if facts.get("pid") else "the device")
    )
