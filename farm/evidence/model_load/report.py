"""One load, from its lines: engine, whether it worked, the error that explains most, what is known besides.

`ok` is null where the text says neither. A crash while loading is a failed load: the signal's line is enough.
"""

from __future__ import annotations

import re

from farm.evidence.lines import Facts, Unknown, split
from farm.evidence.model_load.rules import BENIGN, ENGINE_WORDS, ENGINES, ERRORS, EXECUTORCH, SUCCESS, VAGUE, WORDS

NEEDLES = (
    "failed to load model",
    "error loading model",
    "gguf_init",
    "rknn_init",
    "rkllm",
    "RKNN",
    "Failed to initialize engine",
    "Failed to create engine",
    "Load model error",
    "Model load failure",
    "Invalidate buffer",
    "Flatbuffer",
    "Executorch Error",
    "Can't Find type=",
    "mnn",
    "MNN",
    "NN API returned",
    "not exists or registered",
)
MAX_ERRORS = 50

_MAGIC = re.compile(r"magic (?:number |characters:? )?'?(?:0x)?([0-9a-fA-F]{8})\b|magic characters:? '(.{1,8}?)'", re.I)
_BUILD = re.compile(r"\bbuild(?: =|:) (\d{1,8})(?: \(([0-9a-f]{4,40})\))?")
_RUNTIME = re.compile(
    r"(?:rkllm-runtime version|runtime version|librknnrt version|rknn_api.{0,20}version"
    r"|ExecuTorch version)[: ]{1,3}v?(\d[\w.\-]{0,40})"
)
_DRIVER = re.compile(r"(?:npu |rknpu )?driver version[: ]{1,3}v?(\d[\w.\-]{0,40})", re.I)
_PATH = re.compile(
    r"(?:from|open\(\) failed:|file|load|path is" r"|model)[: ']{1,4}((?:[\w.\-~]{0,60}/)[\w./\-~ ]{1,300}?\.\w{2,8})\b"
)
_EXECUTORCH = re.compile(
    r"\[Executorch Error (0x[0-9a-f]{1,4})\]|(?:error|status"
    r"|code)[ :=]{1,3}(0x[0-9a-f]{1,2})\b.{0,40}(?:executorch|pte)",
    re.I,
)
_SIGNAL = re.compile(
    r"Fatal signal (\d{1,3}) \((\w{1,12})\)|\b(segmentation fault|Segmentation fault"
    r"|illegal instruction|Illegal instruction|Aborted|Killed)\b"
)
_STATUS = re.compile(
    r"(?:%s)?\b(INTERNAL|UNKNOWN|INVALID_ARGUMENT|NOT_FOUND|RESOURCE_EXHAUSTED|UNIMPLEMENTED"
    r"|FAILED_PRECONDITION|UNAVAILABLE|PERMISSION_DENIED|DEADLINE_EXCEEDED|OUT_OF_RANGE): "
)
_FALLBACK = re.compile(r"Can't Find type=(\d{1,3}) backend, use (\d{1,3}) instead")


class ModelLoad:
    """Feed it what an engine printed, with or without log prefixes."""

    def __init__(self) -> None:
        self._engines: dict[str, int] = {}
        self._errors: list[tuple[str, str]] = []
        self._ok = False
        self._facts: Facts = {}
        self._unknown = Unknown()

    def feed(self, raw: str) -> None:
        line = split(raw)
        whole = f"{line.tag} {line.package or ''} {line.text}" if line.tag else line.text
        if not whole.strip():
            return
        low = whole.lower()
        if any(word in low for word in ENGINE_WORDS):
            for name, pattern in ENGINES:
                if pattern.search(whole):
                    self._engines[name] = self._engines.get(name, 0) + 1
                    break
        if not any(word in low for word in WORDS):  # most of a log: a look with fifty patterns would be wasted
            self._unknown.add(line.text)
            return
        self._detail(line.text)
        if self._error(line.text):
            return
        if SUCCESS.search(line.text):
            self._ok = True
        else:
            self._unknown.add(line.text)

    def _error(self, text: str) -> bool:
        if match := _FALLBACK.search(text):
            self._facts.update(requested_backend=int(match[1]), actual_backend=int(match[2]), fallback=True)
        if BENIGN.search(text):
            self._ok = self._ok or "use 0 instead" in text
            return True
        name = next((name for name, pattern in ERRORS if pattern.search(text)), None)
        if (match := _EXECUTORCH.search(text)) is not None:
            code = int(match[1] or match[2], 16)
            self._facts["error_code"] = f"0x{code:02x}"
            name = EXECUTORCH.get(code, name or "load_failed")
        if name is None:
            return False
        if len(self._errors) < MAX_ERRORS:
            self._errors.append((name, text.strip()[:500]))
        return True

    def _detail(self, text: str) -> None:
        facts = self._facts
        if match := _MAGIC.search(text):
            facts.setdefault("magic", match[1] or match[2])
        if match := _BUILD.search(text):
            facts.setdefault("build", int(match[1]))
        if match := _RUNTIME.search(text):
            facts.setdefault("runtime_version", match[1])
        if match := _DRIVER.search(text):
            facts.setdefault("driver_version", match[1])
        if match := _PATH.search(text):
            facts.setdefault("path", match[1])
        if match := _STATUS.search(text):
            facts.setdefault("status", match[1])
        if (match := _SIGNAL.search(text)) and "signal_name" not in facts:
            facts["signal_name"] = match[2] or match[3]

    def finish(self) -> Facts:
        exact = [error for error in self._errors if error[0] not in VAGUE]
        name: str | None = None
        message: str | None = None
        if self._errors:
            name, message = (exact or self._errors)[0]
        crashed = "signal_name" in self._facts
        if name is None and crashed:
            name = "crashed_while_loading"
        engine = max(self._engines, key=lambda key: (self._engines[key], key == "litert-lm"), default=None)
        if "mediapipe-llm" in self._engines:  # its messages name the runtime's source files too
            engine = "mediapipe-llm"
        facts: Facts = {
            "engine": engine,
            "ok": False if name is not None else True if self._ok else None,
            "error": name,
            "message": message,
            **self._facts,
        }
        others = list(dict.fromkeys(error for error, _ in self._errors if error != name))
        if others:
            facts["errors"] = others
        return {**facts, **self._unknown.facts()}
