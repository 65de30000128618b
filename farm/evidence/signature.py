"""What an incident is, told so that the next one of the same kind gives the same words.

A signature is a class and the parts that make the fault this fault: the innermost own frames of the stack, or the
message where the program said itself what is wrong (assertions) or nothing else is known. Its key is the same on every
device, for every build and every time; `text` is what is compared when signatures differ.

Incidents come as the stored row (class, words, evidence text) or as one of the facts that the parsers give.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farm.evidence import normal, refused
from farm.evidence.anr import AnrParser, Stacks
from farm.evidence.crash import CrashParser
from farm.evidence.lines import feed_all, split
from farm.evidence.model_load import ModelLoad

#: Characters of an incident's evidence that are looked at.
MAX_EVIDENCE = 64_000
MAX_LINES = 2_000
#: A device's name that is shorter may be any word.
MIN_NAME = 4
#: Classes whose own message names the fault better than the place in which it was noticed.
_SAID = frozenset(
    {
        "assertion_abort",
        "allocation_failure",
        "dlopen_failed",
        "linker_namespace",
        "fdsan_abort",
        "gpu_alloc_failure",
        "gpu_device_lost",
        "jni_error",
        "uncaught_exception",
    }
)
_PYTHON = re.compile(r'^\s*File "(.{1,300})", line \d+, in (\S{1,100})')


@dataclass(frozen=True, slots=True)
class Signature:
    """`basis`: stack, message or class: what `parts` are. `title`: for people, one line."""

    klass: str
    parts: tuple[str, ...]
    basis: str
    text: str

    @property
    def key(self) -> str:
        """16 hexadecimal digits."""
        whole = "\x1f".join((self.klass, *self.parts))
        return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def title(self) -> str:
        words = " < ".join(self.parts[:2]) if self.basis == "stack" else " ".join(self.parts)
        return (f"{self.klass}: {words}" if words else self.klass)[:300]


def of_incident(klass: str, summary: str, evidence: str | None, names: Collection[str] = ()) -> Signature:
    """Of a stored incident. Its evidence decides; where that tells nothing, its words do. Never fails.

    `names`: those of the device that it happened on; the same fault has the same words on another one.
    """
    if tried := refused.kind(klass, summary):
        return _of_parts(klass, (tried,), "class", "")
    lines = (evidence or "")[:MAX_EVIDENCE].splitlines()[:MAX_LINES]
    for look in _LOOKS.get(klass, ()):
        found = look(lines)
        if found is not None:
            return found
    for name in sorted((name for name in names if len(name) >= MIN_NAME), key=len, reverse=True):
        summary = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "the device", summary)
    return _of_message(klass, summary)


def of_facts(facts: Mapping[str, Any]) -> Signature:
    """Of one entry of `incidents` (`farm evidence crash`), of `anrs`, or of the facts of a failed model load."""
    if "wait_chain" in facts or "trigger" in facts:
        return of_anr(facts)
    if "error" in facts and "engine" in facts:
        return of_load(facts)
    return of_crash(facts)


def of_crash(facts: Mapping[str, Any]) -> Signature:
    """Of a death, a kill, a fault of the kernel or the GPU."""
    klass = str(facts.get("class") or "crash")
    said = str(facts.get("abort_message") or facts.get("root_cause") or facts.get("message") or "")
    said = said or str(facts.get("cause") or facts.get("reason") or "")
    if klass == "low_memory_kill":
        return _of_parts(klass, (_short(facts.get("process") or facts.get("victim_comm")),), "message", said)
    named = facts.get("exception") or facts.get("code_name") or facts.get("signal_name")
    if facts.get("root_cause"):
        named = str(facts["root_cause"]).split(":")[0]
    stack = normal.frames([str(line) for line in facts.get("backtrace") or ()])
    if stack and not (klass in _SAID and said):
        return _of_parts(klass, (str(named or ""), *stack), "stack", said)
    if said:
        return _of_parts(klass, (_sentence(said),), "message", " ".join(stack))
    return _of_parts(klass, (str(named or ""), _short(facts.get("process"))), "class", "")


def of_anr(facts: Mapping[str, Any]) -> Signature:
    """Of an application that did not respond: its cause and where its main thread stood; without a stack, why."""
    klass = f"anr:{facts.get('cause') or 'unknown'}"
    stack = normal.frames([str(frame) for frame in (facts.get("main_thread") or {}).get("frames") or ()])
    reason = str(facts.get("reason") or facts.get("trigger") or "")
    if stack:
        links = [str(link.get("at") or "") for link in facts.get("wait_chain") or ()]
        return _of_parts(klass, (*stack[:3], *normal.frames(links[-1:] if len(links) > 1 else ())[:1]), "stack", reason)
    parts = (str(facts.get("trigger") or ""), _short(facts.get("process")), _sentence(reason))
    return _of_parts(klass, parts, "message", str(facts.get("activity") or ""))


def of_load(facts: Mapping[str, Any]) -> Signature:
    """Of a model that did not load."""
    klass = f"load:{facts.get('error') or 'load_failed'}"
    parts = (str(facts.get("engine") or ""), normal.message(str(facts.get("message") or "")))
    return _of_parts(klass, parts, "message", "")


def _of_message(klass: str, summary: str) -> Signature:
    return _of_parts(klass, (normal.message(summary),), "message", "")


def _of_parts(klass: str, parts: Sequence[str], basis: str, beside: str) -> Signature:
    kept = tuple(part for part in parts if part)
    return Signature(klass, kept, basis, " ".join((klass, *kept, normal.message(beside))).strip())


def _sentence(text: str) -> str:
    """The first lines of a message that say something; what follows is often a dump of figures."""
    lines = [
        line for line in (normal.message(part) for part in text.splitlines()[:8]) if re.search(r"[A-Za-z]{3}", line)
    ]
    return " ".join(lines[:2])[: normal.MAX_TEXT]


def _short(process: object) -> str:
    """A process without its folder and the number of its copy; the kernel knows 15 characters of it."""
    name = str(process or "").rsplit("/", 1)[-1]
    return re.sub(r"\d+$", "#", name)[-15:]


# ---- what a stored incident's evidence may hold


def _crash(lines: Sequence[str]) -> Signature | None:
    found = feed_all(CrashParser(), lines)["incidents"]
    return of_crash(found[0]) if found else None


def _hang(lines: Sequence[str]) -> Signature | None:
    """The stacks that were taken before the kill: the main thread's, where it is told."""
    stacks = Stacks()
    for line in lines:
        stacks.feed(split(line).text)
    thread = stacks.main(None) or next((thread for thread in stacks.threads if thread.frames), None)
    parts = normal.frames([frame.words() for frame in thread.frames]) if thread is not None else ()
    return _of_parts("hang", parts, "stack", "") if parts else None


def _anr(lines: Sequence[str]) -> Signature | None:
    found = feed_all(AnrParser(), lines)["anrs"]
    return of_anr(found[0]) if found else None


def _linker(lines: Sequence[str]) -> Signature | None:
    """A program that the linker refused said nothing of a model."""
    found = feed_all(CrashParser(), lines)["incidents"]
    return next((of_crash(one) for one in found if one["class"] in ("dlopen_failed", "linker_namespace")), None)


def _load(lines: Sequence[str]) -> Signature | None:
    facts = feed_all(ModelLoad(), lines)
    return of_load(facts) if facts["error"] else None


def _python(lines: Sequence[str]) -> Signature | None:
    frames = [f"{match[1].rsplit('/', 1)[-1]}:{match[2]}" for line in lines if (match := _PYTHON.match(line))]
    said = next((line for line in reversed(lines) if line.strip()), "")
    return _of_parts("farm-error", (said.split(":")[0], *frames[:-4:-1]), "stack", said) if frames else None


_LOOKS = {
    "engine-crashed": (_crash,),
    "engine-killed": (_crash,),
    "engine-failed": (_linker, _load, _crash),
    "engine-hung": (_hang,),
    "anr": (_anr,),
    "farm-error": (_python,),
}


def signed(facts: Mapping[str, Any]) -> Iterator[Signature]:
    """A signature for each incident that `farm evidence auto` found."""
    for kind, found in ((facts.get("kind"), facts), *(facts.get("also") or {}).items()):
        if kind == "crash":
            yield from (of_crash(entry) for entry in found.get("incidents") or ())
        elif kind == "anr":
            yield from (of_anr(entry) for entry in found.get("anrs") or ())
        elif kind == "model_load" and found.get("error"):
            yield of_load(found)
