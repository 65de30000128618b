"""What kind of death: the closed list, by the message, the signal and the process.

Sources of the wordings: AOSP bionic (fortify, fdsan, scudo), the dynamic linker, ART, the Vulkan and OpenCL headers.
"""

from __future__ import annotations

import re

_MESSAGES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, flags))
    for name, pattern, flags in (
        ("heap_corruption_scudo", r"Scudo (?:ERROR|CHECK|OOM)|scudo::", 0),
        (
            "heap_corruption",
            r"heap corruption|HEAP MEMORY CORRUPTION|invalid address or address of corrupt block"
            r"|corrupted (?:size|double)"
            r"|double free or corruption|malloc\(\): |free\(\): invalid|invalid heap address",
            re.I,
        ),
        ("hwasan", r"HWAddressSanitizer|tag-mismatch on address", 0),
        ("asan", r"ERROR: AddressSanitizer", 0),
        ("ubsan", r"^ubsan: |UndefinedBehaviorSanitizer", 0),
        ("fortify", r"FORTIFY: ", 0),
        ("stack_corruption", r"stack corruption detected|stack smashing detected", 0),
        ("fdsan_abort", r"fdsan: ", 0),
        ("cfi_failure", r"CFI: |control flow integrity", 0),
        ("jni_error", r"JNI (?:DETECTED ERROR|FatalError)", 0),
        (
            "gpu_device_lost",
            r"DeviceLost|DEVICE_LOST|device (?:is |was )?lost|GPU (?:device )?(?:hang|lost)|CONTEXT_LOST",
            re.I,
        ),
        (
            "gpu_alloc_failure",
            r"CL_(?:INVALID_BUFFER_SIZE|MEM_OBJECT_ALLOCATION_FAILURE|OUT_OF_RESOURCES|OUT_OF_HOST_MEMORY)"
            r"|(?:OpenCL|clCreateBuffer|clEnqueue\w*|clCreateImage).{0,120}(?:code|error|err)\W{0,3}-(?:4|5|6|61)\b"
            r"|Error_?Out_?Of_?(?:Device|Host|Pool)_?Memory|VK_ERROR_(?:OUT_OF|FRAGMENTED)_\w*|GL_OUT_OF_MEMORY"
            r"|ggml_vulkan: .{0,80}[Mm]emory allocation|Device memory allocation of size",
            re.I,
        ),
        (
            "allocation_failure",
            r"bad_alloc|OutOfMemoryError|out of memory|(?:failed|unable) to allocate"
            r"|allocation (?:of \d+ \w+ )?failed"
            r"|insufficient memory|Cannot allocate memory|not enough memory|std::length_error",
            re.I,
        ),
        (
            "dlopen_failed",
            r"dlopen failed|UnsatisfiedLinkError|cannot locate symbol|has bad ELF magic"
            r"|is 32-bit instead of 64-bit"
            r"|is 64-bit instead of 32-bit",
            0,
        ),
        ("linker_namespace", r"is not accessible for the namespace", 0),
        ("dlopen_failed", r"CANNOT LINK EXECUTABLE|error while loading shared libraries", 0),
        (
            "assertion_abort",
            r"\bassert(?:ion)?\b.{0,300}\bfail|GGML_ASSERT|Assertion|Check failed|CHECK failed|CHECK\(|_CHECK"
            r"|\[FATAL:|DCHECK"
            r"|assert\w* \(|\bASSERT\b|RET_CHECK",
            re.I,
        ),
        ("uncaught_exception", r"terminating (?:due to|with) uncaught|uncaught exception", re.I),
    )
)
_BY_CODE = {
    "SEGV_MTESERR": "mte_tag_check_sync",
    "SEGV_MTEAERR": "mte_tag_check_async",
    "SEGV_ACCADI": "mte_tag_check_async",
    "SYS_SECCOMP": "seccomp",
}
_BY_SIGNAL = {"SIGILL": "illegal_instruction", "SIGSYS": "seccomp", "SIGABRT": "abort"}
_SYSTEM_SERVER = {"system_server", "system_process", "android"}
_VENDOR = re.compile(r"^/(?:vendor|odm|system/vendor)/|^(?:vendor|android\.hardware)\.[\w.\-@]+(?:-service\S*)?$")


def by_message(message: str | None) -> str | None:
    """The class that a message names, or None."""
    if not message:
        return None
    return next((name for name, pattern in _MESSAGES if pattern.search(message)), None)


def of_native(signal: str, code: str | None, message: str | None, process: str | None) -> str:
    """A native crash, by its message first: SIGABRT alone says only that somebody gave up."""
    found = by_message(message) or _BY_CODE.get(code or "") or (_BY_SIGNAL.get(signal) if signal != "SIGABRT" else None)
    if found is not None:
        return found
    if process in _SYSTEM_SERVER:
        return "system_server_crash"
    if process and _VENDOR.search(process):
        return "vendor_crash"
    return _BY_SIGNAL.get(signal, "native_crash")


def of_java(exception: str, process: str | None, system: bool) -> str:
    """A Java crash: a library or memory that was missing says more than that Java ended."""
    found = by_message(exception)
    if found in ("allocation_failure", "dlopen_failed", "linker_namespace", "gpu_device_lost", "gpu_alloc_failure"):
        return found
    return "system_server_crash" if system or process in _SYSTEM_SERVER else "java_crash"
