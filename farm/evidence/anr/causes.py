"""Why the main thread did not respond: one of a closed list, with what it is concluded from.

binder, lock, disk_io, native_compute_on_main, inference_on_main, java_cpu_on_main, memory_pressure, cpu_starvation,
idle_main, debugger, unknown. The stack of the main thread decides; where there is none, or it is idle while the system
was starved, the figures beside it (pressure, CPU table) may. Order matters: what is nearest to the top of the stack is
what the thread was doing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from farm.evidence.anr.stacks import Frame, Stacks, Thread
from farm.evidence.cpu_usage import Table

_DEBUGGER = re.compile(
    r"libjdwp|jdwp::|\bcbBreakpoint|debugMonitorWait|android\.os\.Debug\.waitForDebugger|DebuggerWait", re.I
)
#: Frames that an engine's forward pass has, whoever calls it.
INFERENCE = re.compile(
    r"libllama|libggml|libwhisper|llama_(?:decode|encode|eval)|ggml_(?:graph_compute|backend)"
    r"|lib(?:tensorflowlite|tflite|LiteRt|litert)"
    r"|tflite::|org\.tensorflow\.lite\.\w*Interpreter|litertlm|litert_lm|libllm_inference"
    r"|libmediapipe_tasks|LlmInference"
    r"|tasks\.genai|libMNN|\bMNN::|libncnn|\bncnn::|libonnxruntime|onnxruntime|ai\.onnxruntime"
    r"|libexecutorch|executorch"
    r"|libtorch|org\.pytorch|librkllm|librknn|rkllm_|rknn_run|libmlc_llm|libtvm|tvm::runtime"
    r"|mlc\.mlcllm|libQnn|libGenie"
    r"|libSNPE|libpaddle|libneuronusdk|libneuron_adapter|ANeuralNetworks|libneuralnetworks|libopenvino"
    r"|farm-engine",
    re.I,
)
_BINDER = re.compile(
    r"IPCThreadState|BpBinder|BinderProxy\.transact|BinderProxy_transact|binder_thread_read"
    r"|binder_wait_for_work"
    r"|android\.os\.HwRemoteBinder|BpHwBinder|AServiceManager_waitForService"
)
_IDLE = re.compile(
    r"nativePollOnce|MessageQueue\.next\b|MessageQueue_nativePollOnce|Looper::pollInner" r"|Looper\.loopOnce$"
)
_LOCK = re.compile(
    r"Monitor::Lock|Monitor_Enter|art::Mutex|pthread_mutex_lock|NonPI::MutexLock|__pthread_cond"
    r"|pthread_cond_(?:timed)?wait"
    r"|pthread_rwlock|sem_wait|std::__1::mutex::lock|__futex_wait|futex_wait|LockSupport\.park"
    r"|Unsafe\.park|Object\.wait\b"
    r"|ReentrantLock|CountDownLatch|FutureTask\.(?:get|awaitDone)|Semaphore\.acquire|Thread\.join"
    r"|ReentrantReadWriteLock"
    r"|condition_variable::wait|AbstractQueuedSynchronizer"
)
_DISK = re.compile(
    r"\bf(?:data)?sync(?:_range)?\b|\b(?:__)?(?:p?read|p?write|open(?:at)?|fstat(?:at)?|fsync"
    r"|rename(?:at)?|unlink(?:at)?|ftruncate|getdents)"
    r"(?:v?(?:64)?)\+|\b(?:SyS|sys|__arm64_sys|do_sys)_(?:p?read|p?write|openat?|f(?:data)?sync"
    r"|fsync)\w*|(?:f2fs|ext4|fuse|sdcardfs|jbd2)_"
    r"|io_schedule|wait_on_page|lock_page|filemap_fault|submit_bio|blk_mq|request_wait_answer"
    r"|libsqlite|SQLite(?:Connection|Session|Database|Program)"
    r"|sqlite3|SharedPreferencesImpl\.(?:awaitLoaded|write|enforce)|QueuedWork\.waitToFinish"
    r"|EditorImpl\.commit|libcore\.io\.(?:Linux|BlockGuardOs|IoBridge)"
    r"|java\.io\.(?:File(?:In|Out)putStream|RandomAccessFile|UnixFileSystem|FileDescriptor\.sync)"
    r"|FileChannelImpl|FileDispatcherImpl"
    r"|java\.nio\.file\.Files|AtomicFile|BlockGuard|androidx\.room"
)
_MEMORY = re.compile(
    r"WaitForGcToComplete|try_to_free_pages|do_try_to_free|__alloc_pages_slowpath|direct_reclaim"
    r"|shrink_(?:node|lruvec|slab)"
    r"|mem_cgroup_handle_over_high|swapin_readahead|do_swap_page|zram_"
)
_SYSTEM_LIBRARY = re.compile(
    r"^/(?:system|apex|vendor|odm|product|system_ext)/|^\[|libart|libc\.so|libhwui|boot-?\w*\.oat"
    r"|memfd:jit-cache|dalvik-jit"
)
_APP_LIBRARY = re.compile(r"^/data/|^/mnt/(?:asec|expand)|base\.apk|\.apk!|split_config|/data/local/tmp|^[\w.\-]+\.so$")
_WAITING_STATES = {"MONITOR", "BLOCKED"}
#: Share of stalled time (10 s average, per cent) and CPU use from which the system itself is the cause.
_PRESSURE_PCT = 20.0
_STARVED_TOTAL_PCT = 90.0
_TOP = 6


def of(
    stacks: Stacks, pid: int | None, process: str | None, cpu: Table, pressure: Mapping[str, float]
) -> tuple[str, str]:
    """(cause, what says so: a frame or a figure)."""
    main = stacks.main(pid)
    if main is not None and main.frames:
        cause, basis = of_thread(main)
        if cause == "idle_main" or cause == "unknown":
            system = _of_figures(pid, process, cpu, pressure)
            return system if system[0] != "unknown" else (cause, basis)
        return cause, basis
    return _of_figures(pid, process, cpu, pressure)


def of_thread(main: Thread) -> tuple[str, str]:
    """What a thread was doing, in the same words, by its stack alone; it need not be a main thread."""
    frames = main.frames
    if found := main.first(lambda frame: bool(_DEBUGGER.search(_text(frame)))):
        return "debugger", found.words()
    if main.waits_how == "waiting to lock" or (main.state or "").upper() in _WAITING_STATES:
        return "lock", f"waits for <{main.waits_for}>" if main.waits_for else f"state {main.state}"
    top = _top(frames)
    if (main.state or "").startswith("WaitingForGc") or any(_MEMORY.search(_text(frame)) for frame in top):
        return "memory_pressure", _words(top, _MEMORY) or f"state {main.state}"
    if _is_idle(main):
        return "idle_main", "nativePollOnce"
    for pattern, cause in ((_BINDER, "binder"), (INFERENCE, "inference_on_main")):
        if words := _words(frames if pattern is INFERENCE else top, pattern):
            return cause, words
    if (words := _words(top, _DISK)) or (words := _words(main.java()[:3], _DISK)):
        return "disk_io", words
    if main.waits_how is not None and main.waits_how != "sleeping on":
        return "lock", f"{main.waits_how} <{main.waits_for}>"
    if words := _words(top, _LOCK) or _words(main.java()[:2], _LOCK):
        return "lock", words
    return _computing(main)


def _computing(main: Thread) -> tuple[str, str]:
    """No wait is known: native code of the app, or Java that runs."""
    native = main.native()
    if native and is_own(native[0].where):
        return "native_compute_on_main", native[0].words()
    if native and main.kernel_state == "R":
        own = next((f for f in native if is_own(f.where)), None)
        if own is not None:
            return "native_compute_on_main", own.words()
    java = main.java()
    runs = (main.state or "").upper() in ("RUNNABLE", "SUSPENDED") or main.kernel_state == "R"
    sleeps = any("Thread.sleep" in frame.symbol for frame in java[:3])
    deep = any("nativePollOnce" not in frame.symbol for frame in java[:1])
    if runs and java and deep and not sleeps and main.kernel_state not in ("S", "D"):
        return "java_cpu_on_main", java[0].words()
    if main.kernel_state == "D":
        return "disk_io", "the kernel's state is D: it waits for a device"
    return "unknown", main.frames[0].words() if main.frames else ""


def is_own(library: str) -> bool:
    """Whether it belongs to the application and not to the system."""
    return bool(_APP_LIBRARY.search(library)) and not _SYSTEM_LIBRARY.search(library)


def _is_idle(main: Thread) -> bool:
    """It waits for its next message: the poll is the first Java frame, or the stack has none but the poll."""
    java = main.java()
    if java:
        return bool(_IDLE.search(java[0].symbol))
    return any(_IDLE.search(_text(frame)) for frame in main.frames[:5])


def _of_figures(pid: int | None, process: str | None, cpu: Table, pressure: Mapping[str, float]) -> tuple[str, str]:
    row = cpu.of(pid, process)
    own = row.cpu_pct if row is not None else 0.0
    if pressure.get("memory_full_avg10_pct", 0.0) >= _PRESSURE_PCT:
        return "memory_pressure", f"memory pressure full avg10={pressure['memory_full_avg10_pct']}"
    swapper = next((r for r in cpu.rows if r.name.startswith("kswapd") and r.cpu_pct >= 2 * _PRESSURE_PCT), None)
    if swapper is not None:
        return "memory_pressure", f"{swapper.name} used {swapper.cpu_pct} % of a core"
    if pressure.get("io_full_avg10_pct", 0.0) >= _PRESSURE_PCT and own < 50:
        return "disk_io", f"I/O pressure full avg10={pressure['io_full_avg10_pct']}"
    starved = pressure.get("cpu_some_avg10_pct", 0.0) >= 2 * _PRESSURE_PCT
    if own < 50 and (starved or (cpu.total_pct or 0.0) >= _STARVED_TOTAL_PCT):
        return "cpu_starvation", f"CPU total {cpu.total_pct} %, the process {own} %"
    return "unknown", ""


def _top(frames: list[Frame]) -> list[Frame]:
    """The innermost frames of each kind: kernel and native ones stand before the Java frame that called them."""
    return [
        *[f for f in frames if f.kind == "kernel"][:_TOP],
        *[f for f in frames if f.kind == "native"][:_TOP],
        *[f for f in frames if f.kind == "java"][:2],
    ]


def _words(frames: list[Frame], pattern: re.Pattern[str]) -> str:
    return next((frame.words() for frame in frames if pattern.search(_text(frame))), "")


def _text(frame: Frame) -> str:
    return f"{frame.where} {frame.symbol}" if frame.kind == "native" else frame.symbol
