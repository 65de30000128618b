"""What engines print when they fail, by cause. The words are those of the engines, their drivers and the shell.

A *hard* failure ends the run whatever was measured before; any other is one only if nothing was measured: engines
warn of an accelerator that refuses, and go on without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A cause, and the line that says so."""

    kind: str
    line: str
    hard: bool


#: In this order: the first that matches a line names its cause.
_CAUSES: tuple[tuple[str, bool, str], ...] = (
    ("gpu_fault", True, r"CUDA Exception|CUDA_EXCEPTION|illegal memory access|GPU fault|kgsl.{0,40}fault"),
    ("gpu_device_lost", True, r"ErrorDeviceLost|VK_ERROR_DEVICE_LOST|device lost"),
    (
        "gpu_oom",
        False,
        r"ErrorOutOfDeviceMemory|VK_ERROR_OUT_OF_(?:DEVICE|HOST)_MEMORY|CL_MEM_OBJECT_ALLOCATION_FAILURE"
        r"|CL_OUT_OF_(?:RESOURCES|HOST_MEMORY)|Device memory allocation of size|CUDA error: out of memory"
        r"|cudaMalloc failed: out of memory|(?:opencl|vulkan|cuda|metal|hip|sycl)\w*\b.{0,80}failed to allocate"
        r"|failed to allocate (?:Vulkan|CUDA|OpenCL|Metal|HIP|SYCL)\w* buffer|vkAllocateMemory failed",
    ),
    (
        "gpu_runtime_error",
        False,
        r"clEnqueueNDRangeKernel|Invalid command queue|clFinish failed|clBuildProgram|vk(?:QueueSubmit|WaitForFences|"
        r"CreateDevice|CreateComputePipelines) failed|Failed to (?:build|compile) (?:program|kernel)",
    ),
    ("unsupported_platform", True, r"Platform error: must be|platform (?:is )?not supported"),
    ("driver_too_old", False, r"driver version is too low"),
    ("platform_query", True, r"Query platform error"),
    ("npu_error", True, r"matmul\([^)]*\) run failed|rknn_run (?:fail|error)|failed to submit!|npu job time ?out"),
    ("npu_oom", False, r"failed to (?:malloc|allocate) npu memory|failed to allocate (?:handle|fd)"),
    (
        "out_of_memory",
        True,
        r"std::bad_alloc|Cannot allocate memory|OutOfMemoryError|^Killed\b|oom-kill|Failed to allocate memory",
    ),
    ("decode_error", True, r"failed to decode|failed to run (?:prompt|gen|depth)|llama_decode\W.{0,40}fail"),
    ("timeout", True, r"^(?:timeout: |Timed out\b)|timed out after \d|monitored command dumped core"),
    ("tokenizer", True, r"(?:failed to|cannot|could not|unable to) (?:load|open|find|init\w*) (?:the )?tokenizer"),
    (
        "missing_library",
        True,
        r"CANNOT LINK EXECUTABLE|dlopen failed|library \"[^\"]+\" not found|cannot open shared object file",
    ),
    ("permission", True, r"Permission denied"),
    ("too_many_files", True, r"Too many open files"),
    ("no_space", True, r"No space left on device"),
    (
        "unsupported_operator",
        False,
        r"(?:unsupported|unimplemented|unregistered) (?:op|operator|layer|data type)\b|op(?:eration)? \S+ (?:is )?not"
        r" supported|Missing operator|Didn't find op for builtin opcode|layer \S+ not exists or registered",
    ),
    (
        "model_load",
        True,
        r"failed to load (?:the )?model|unable to load (?:the )?model|error loading model|invalid magic|bad magic"
        r"|invalid rknn llm model magic|load model file error|gguf_init_from_file(?:_impl)?: .{0,40}magic"
        r"|(?:could ?n.t|can.t|cannot|failed to) (?:open|read|mmap|find) (?:the )?(?:model|file"
        r" .{0,120}\.(?:gguf|tflite|pte|onnx|rkllm|rknn|mnn|param|bin|litertlm|task))"
        r"|Load model .{0,200} failed|model file .{0,120}not found"
        r"|rkllm init failed|rkllm_init failed|rknn_init (?:fail|error)|init model failed|Error for load|Create session"
        r" failed|Failed to (?:initialize|create|build) (?:the )?(?:interpreter|engine|session|dialog|executor)",
    ),
    (
        "invoke_error",
        True,
        r"failed to invoke|Benchmarking failed|Execution of method \S+ failed|Inference Error|Non-zero status code"
        r" returned|Model (?:execution )?failed|benchmark failed",
    ),
    (
        "native_abort",
        True,
        r"GGML_ASSERT|ggml_abort|ggml_uncaught_exception|terminate called|^Aborted\b|Aborted \(core dumped\)|SIGABRT"
        r"|Segmentation fault|SIGSEGV|SIGILL|Illegal instruction|Bus error|Fatal signal \d+|\bfatal: |signal SIG"
        r"|received signal|assertion failed|Check failed:",
    ),
)
_PATTERNS = tuple((kind, hard, re.compile(pattern, re.IGNORECASE)) for kind, hard, pattern in _CAUSES)
#: Every failure has one of these in its words, in small letters: most lines have none.
_SIGNS = (
    "fail", "error", "abort", "fatal", "kill", "sig", "cannot", "can't", "unable", "could", "not ", "too many",
    "unsupported", "unimplemented", "unregistered", "missing", "denied", "no space", "memory", "lost", "time", "check",
    "assert", "invalid", "bad ", "bad_", "magic", "segmentation", "illegal", "exception", "terminate", "fault",
    "out_of", "resources", "platform", "too low", "core dumped", "clfinish", "clbuild", "clenqueue", "allocation",
    "didn't", "find",
)  # fmt: skip


def suspicious(lower: str) -> bool:
    """Whether a line, in small letters, has any of the words of failures."""
    for sign in _SIGNS:  # noqa: SIM110 - a generator costs twice as much, and every line comes here
        if sign in lower:
            return True
    return False


def classify(line: str) -> Failure | None:
    """The failure that `line` speaks of, or None. Ask `suspicious` first: it costs less."""
    for kind, hard, pattern in _PATTERNS:
        if pattern.search(line):
            return Failure(kind, line.strip()[:300], hard)
    return None
