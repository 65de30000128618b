"""Did the bundle get onto the device and its model into memory? One word of a closed list for every attempt.

An attempt says nothing of its deployment (None) when it never came so far for a reason that is not the bundle's: it was
cancelled, its device or its host went away. What counts as loaded is an engine that computed; a failure before that is
told by what the incident is (`farm.evidence.signature`) and by the stage that the engine was in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from farm.domain.causes import Cause
from farm.domain.outcomes import Outcome


class Deployment(StrEnum):
    """Values are stored and stand in APIs: never rename one."""

    OK = "ok"
    OUT_OF_MEMORY = "out-of-memory"
    LOAD_TIMEOUT = "load-timeout"
    TOKENIZER = "tokenizer"
    MISSING_LIBRARY = "missing-library"
    WRONG_ABI = "wrong-abi"
    UNSUPPORTED_OPERATOR = "unsupported-operator"
    MODEL = "model"  # a part of the model is corrupt or missing
    DRIVER = "driver"
    STORAGE = "storage"
    PERMISSION = "permission"
    OTHER = "other"


#: What each means, for people.
WORDS: Mapping[Deployment, str] = {
    Deployment.OK: "on the device and loaded",
    Deployment.OUT_OF_MEMORY: "out of memory",
    Deployment.LOAD_TIMEOUT: "loading took too long",
    Deployment.TOKENIZER: "the tokenizer could not be used",
    Deployment.MISSING_LIBRARY: "a library is missing",
    Deployment.WRONG_ABI: "built for another ABI or processor",
    Deployment.UNSUPPORTED_OPERATOR: "an operator or model is not supported",
    Deployment.MODEL: "a part of the model is corrupt or missing",
    Deployment.DRIVER: "the driver of GPU or NPU failed",
    Deployment.STORAGE: "no space on its storage",
    Deployment.PERMISSION: "permission was denied",
    Deployment.OTHER: "something else",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """An engine's failure as it was stored. `klass`: of its signature; `words`: its summary, which names the stage."""

    klass: str
    words: str


_BY_CAUSE = {
    Cause.STORAGE_FULL: Deployment.STORAGE,
    Cause.WRONG_ABI: Deployment.WRONG_ABI,
    Cause.MISSING_FILE: Deployment.MODEL,
    Cause.WRONG_CONTENT: Deployment.MODEL,
    Cause.NO_MEMORY: Deployment.OUT_OF_MEMORY,
    Cause.NOT_PERMITTED: Deployment.PERMISSION,
    Cause.DEVICE_LACKS: Deployment.DRIVER,
}
#: Causes of a failed deploy that are the farm's or the cable's, not the bundle's on this device.
_NOT_THE_BUNDLE = frozenset({Cause.HOST_DISK, Cause.TRANSFER_BROKE, Cause.DEVICE_SLOW})
#: Class of a signature -> cause; the first that fits. `load:…` are the errors of `farm evidence model_load`.
_BY_CLASS: tuple[tuple[re.Pattern[str], Deployment], ...] = tuple(
    (re.compile(pattern), found)
    for pattern, found in (
        (r"load:tokenizer", Deployment.TOKENIZER),
        (
            r"load:(?:mmap_enomem|\w*alloc\w*|out_of_resources)$|allocation_failure|low_memory_kill",
            Deployment.OUT_OF_MEMORY,
        ),
        (r"load:missing_library|dlopen_failed|linker_namespace", Deployment.MISSING_LIBRARY),
        (r"load:target_platform_mismatch|illegal_instruction", Deployment.WRONG_ABI),
        (r"load:permission_denied", Deployment.PERMISSION),
        (
            r"load:(?:bad_magic|truncated_model|model_file_not_found|bundle_corrupt\w*|invalid_model_file|model_format"
            r"|missing_tensor|version_mismatch|access_failed|invalid_external_data)$",
            Deployment.MODEL,
        ),
        (
            r"load:(?:op_not_supported\w*|unsupported_architecture|not_supported|kernel_reg\w*)$",
            Deployment.UNSUPPORTED_OPERATOR,
        ),
        (r"load:npu_job_timeout", Deployment.LOAD_TIMEOUT),
        (r"load:(?:npu|platform|backend|nnapi)|gpu_|kgsl", Deployment.DRIVER),
    )
)  # fmt: skip
#: What the words of a failure while loading say, where its class says nothing.
_BY_WORDS: tuple[tuple[re.Pattern[str], Deployment], ...] = tuple(
    (re.compile(pattern, re.I), found)
    for pattern, found in (
        (r"No space left|storage is full", Deployment.STORAGE),
        (r"Permission denied|Operation not permitted|read-only file system", Deployment.PERMISSION),
        (r"tokenizer|vocabular|\bmerges\b|sentencepiece", Deployment.TOKENIZER),
        (r"CANNOT LINK|cannot open shared object|library .{0,80}not found|exit code 127", Deployment.MISSING_LIBRARY),
        (
            r"Exec format error|not executable: \S+ ELF|exit code 126|wrong ELF|illegal instruction",
            Deployment.WRONG_ABI,
        ),
        (
            r"out of memory|killed by the system|cannot allocate|allocation .{0,40}refused|bad_alloc",
            Deployment.OUT_OF_MEMORY,
        ),
        (r"not supported|unsupported|cannot run", Deployment.UNSUPPORTED_OPERATOR),
        (r"model file|model metadata|\.gguf|truncat|No such file", Deployment.MODEL),
        (r"Vulkan|OpenCL|\bGPU\b|\bNPU\b|driver", Deployment.DRIVER),
    )
)
_LOADING = re.compile(r"\bin stage load\b")
#: Whoever fails in a later stage has loaded.
_COMPUTING = re.compile(r"\bin stage (?!load\b)\w")
#: A program that ended before it said anything did not even begin to load.
_NOT_STARTED = re.compile(r"exit code 12[67]\b|CANNOT LINK|Exec format|cannot open shared object|not executable")
_NEVER = frozenset({Outcome.CANCELLED, Outcome.DEVICE_LOST, Outcome.INFRA_ERROR})


def judge(
    outcome: Outcome, cause: Cause | None, *, computed: bool, failures: Sequence[Failure], words: str = ""
) -> Deployment | None:
    """`computed`: an engine of this attempt came past its load stages. `failures` in their order; `words`: the reason.

    The first failure while loading decides, even where a later start of the engine went well.
    """
    if cause is Cause.STORAGE_FULL:
        return Deployment.STORAGE
    if outcome in (Outcome.DEPLOY_FAILED, Outcome.REFUSED):
        return _of_cause(outcome, cause, words)
    for failure in failures:
        if (found := _of_failure(failure)) is not None:
            return found
    computed = computed or any(_COMPUTING.search(failure.words) for failure in failures)
    if computed or outcome is Outcome.PASSED:
        return Deployment.OK
    if outcome in _NEVER or not failures:
        return None
    return Deployment.OTHER


def _of_cause(outcome: Outcome, cause: Cause | None, words: str) -> Deployment | None:
    """Of an attempt that ended before anything was started."""
    if cause in _NOT_THE_BUNDLE or (cause is None and outcome is Outcome.REFUSED):
        return None
    said = _by_words(words)
    if cause is None or (cause is Cause.MISSING_FILE and said is Deployment.TOKENIZER):
        return said
    return _BY_CAUSE.get(cause, Deployment.OTHER)


def _of_failure(failure: Failure) -> Deployment | None:
    """None: it did not happen while loading."""
    if _NOT_STARTED.search(failure.words):
        return _by_words(failure.words)
    by_class = next((found for pattern, found in _BY_CLASS if pattern.match(failure.klass)), None)
    if failure.klass.startswith("load:"):
        return by_class or Deployment.OTHER
    if by_class is Deployment.MISSING_LIBRARY:
        return by_class
    if not _LOADING.search(failure.words):
        return None
    if failure.klass == "hang" or re.search(r"silent for|not done after", failure.words):
        return Deployment.LOAD_TIMEOUT
    return by_class or _by_words(failure.words)


def _by_words(words: str) -> Deployment:
    return next((found for pattern, found in _BY_WORDS if pattern.search(words)), Deployment.OTHER)
