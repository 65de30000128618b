"""The documented formats in the variants that no sample shows: versions of Android, vendors, tools."""

from __future__ import annotations

import pytest

from farm.evidence.anr import reasons
from farm.evidence.lines import split
from farm.evidence.model_load import rules
from farm.evidence.registry import parse
from tests.evidence.samples import samples, text_of


@pytest.mark.parametrize(
    ("line", "tag", "pid", "text"),
    [
        ("01-02 09:15:12.217  617  661 I Tag: x: y", "Tag", 617, "x: y"),
        ("2024-01-02 09:15:12.217329 +0100  1000  617  661 E Tag  : x", "Tag", 617, "x"),
        ("1700000000.123   617   661 W Tag: x", "Tag", 617, "x"),
        ("01-02 09:15:12.217 E/Tag(  617): x", "Tag", 617, "x"),
        ("E/Tag(617): x", "Tag", 617, "x"),
        ("E/Tag: x", "Tag", None, "x"),
        ("E Tag     : x", "Tag", None, "x"),
        ("2024-01-02 09:15:12.217  617-661  Tag                     com.example              E  x", "Tag", 617, "x"),
        ("01-02 09:15:12.217 617-661/com.example E/Tag: x", "Tag", 617, "x"),
    ],
)
def test_every_format_of_a_log_line_is_taken_apart(line: str, tag: str, pid: int | None, text: str) -> None:
    found = split(line + "\r\n")
    assert (found.tag, found.pid, found.text) == (tag, pid, text)


@pytest.mark.parametrize(
    "line",
    [
        "[   12.345678] x",
        "<6>[   12.345678] x",
        "<0>[  110.560296] I[6:      swapper/6:    0] x",
        "[60619.156287][T25678] x",
        "[60619.156287][    C1] x",
        "<6>[302600.931727]  (4)[10628:Cam@AuxSensorCo]x",
        "[ +14.888230] x",
        "[    0.089422,0] x",
        "1195.776913@0] x",
    ],
)
def test_every_prefix_of_the_kernel_is_taken_off(line: str) -> None:
    assert (split(line).kernel, split(line).text.strip()) == (True, "x")


@pytest.mark.parametrize(
    ("text", "klass"),
    [
        ("error: device unauthorized.", "device_unauthorized"),
        ("error: device still authorizing", "device_unauthorized"),
        ("adb.exe: device offline", "device_offline"),
        ("adb: device 'emulator-5554' not found", "device_not_found"),
        ("adb: no devices/emulators found", "device_not_found"),
        ("error: insufficient permissions for device: missing udev rules?", "usb_permission"),
        ("error: closed", "connection_lost"),
        ("failed to connect to '192.0.2.5:5555': Connection refused", "connection_lost"),
        ("adb: error: connect failed: closed", "connection_lost"),
        ("adb: error: failed to copy 'm' to '/data/local/tmp/m': couldn't write: No space left on device", "no_space"),
        ("adb: failed to install a.apk: Failure [INSTALL_FAILED_INSUFFICIENT_STORAGE]", "no_space"),
        ("remount failed: Read-only file system", "read_only"),
        ("rm: /system/app/x: Read-only file system", "read_only"),
        ("adb: error: cannot stat 'x': No such file or directory", "push_failed"),
        ("* failed to start daemon *\nerror: cannot connect to daemon", "daemon_start_failed"),
        ("adb server is out of date.  killing...\n* daemon started successfully *", "server_version_mismatch"),
        ("error: protocol fault (no status)", "protocol_fault"),
        ("adb: more than one device/emulator", "ambiguous_device"),
        ("4336 KB/s (24061 bytes in 0.005s)", "ok"),
        ("m.gguf: 1 file pushed, 0 skipped. 30.1 MB/s (4920734272 bytes in 155.9s)", "ok"),
        ("something else", "unknown"),
    ],
)
def test_wordings_of_adb_have_their_class(text: str, klass: str) -> None:
    assert parse("adb_errors", text.split("\n"))["class"] == klass


@pytest.mark.parametrize(
    ("reason", "trigger", "waited_ms"),
    [
        ("executing service com.example/.EngineService, waited 20002ms", "executing_service", 20002),
        ("Broadcast of Intent { act=a flg=0x10 cmp=a/.B }, waited 10001ms", "broadcast", 10001),
        ("keyDispatchingTimedOut", "input_dispatch", None),
        ("Input dispatching timed out (Application does not have a focused window).", "input_dispatch", None),
        (
            "Input dispatching timed out (a/b (server) is not responding. Waited 5001.5ms for KeyEvent)",
            "input_dispatch",
            5001.5,
        ),
        ("ContentProvider not responding", "content_provider", None),
        ("No response to onStartJob", "job", None),
        (
            "Context.startForegroundService() did not then call Service.startForeground(): x",
            "start_foreground_service",
            None,
        ),
        ("Test ANR reason 1", "unknown", None),
        (None, "unknown", None),
    ],
)
def test_a_reason_names_the_deadline(reason: str | None, trigger: str, waited_ms: float | None) -> None:
    assert (reasons.trigger(reason), reasons.waited_ms(reason)) == (trigger, waited_ms)


BIONIC, ART = "/apex/com.android.runtime/lib64/bionic/libc.so", "/apex/com.android.art/lib64/libart.so"
APP = "/data/app/~~x==/com.e-y==/lib/arm64"
STACKS = {
    "lock": [
        (
            "MONITOR",
            "S",
            ["at a.B.c(B.java:1)", "- waiting to lock <0x01> (a java.lang.Object) held by tid=12 (Thread-3)"],
        ),
        ("Blocked", "S", ["at a.B.c(B.java:1)", "- waiting to lock <0x0a1b> (a a.B) held by thread 14"]),
        ("Waiting", "S", ["at java.lang.Object.wait(Native method)", "- waiting on <0x01> (a java.lang.Object)"]),
        (
            "Waiting",
            "S",
            [
                "at jdk.internal.misc.Unsafe.park(Native method)",
                "at java.util.concurrent.locks.LockSupport.park(L.java:1)",
            ],
        ),
        (
            "Native",
            "S",
            [
                f"native: #00 pc 0 {BIONIC} (syscall+28)",
                f"native: #01 pc 0 {BIONIC} (__futex_wait_ex(void volatile*)+144)",
            ],
        ),
    ],
    "binder": [
        (
            "Native",
            "S",
            ["native: #00 pc 0 /system/lib64/libbinder.so (android::IPCThreadState::talkWithDriver(bool)+256)"],
        ),
        ("NATIVE", "S", ["at android.os.BinderProxy.transact(Native Method)", "at a.IFoo$Stub$Proxy.get(IFoo.java:1)"]),
    ],
    "inference_on_main": [
        (
            "Native",
            "R",
            [f"native: #00 pc 0 {APP}/libggml-cpu.so (ggml_vec_dot_q4_0_q8_0+120)", "at a.Llm.decode(Native method)"],
        ),
        (
            "Native",
            "R",
            [
                f"native: #00 pc 0 {APP}/libx.so (f+1)",
                "at org.tensorflow.lite.NativeInterpreterWrapper.run(Native method)",
            ],
        ),
        (
            "Native",
            "S",
            [f"native: #00 pc 0 {BIONIC} (syscall+28)", f"native: #01 pc 0 {APP}/libonnxruntime.so (Ort::Run+1)"],
        ),
    ],
    "native_compute_on_main": [
        (
            "Native",
            "R",
            [f"native: #00 pc 0 {APP}/../base.apk!libfilters.so (offset 0x10) (blur(char*)+12) (BuildId: ab)"],
        ),
    ],
    "java_cpu_on_main": [
        ("Runnable", "R", ["at java.util.regex.Matcher.find(Matcher.java:1)", "at a.B.onClick(B.kt:1)"])
    ],
    "disk_io": [
        ("Native", "D", [f"native: #00 pc 0 {BIONIC} (fsync+4)", "at java.io.FileDescriptor.sync(Native method)"]),
        (
            "Native",
            "D",
            ["kernel: __switch_to+0x90/0xc4", "kernel: io_schedule+0x1/0x2", f"native: #00 pc 0 {BIONIC} (read+4)"],
        ),
        (
            "Native",
            "R",
            ["at android.database.sqlite.SQLiteConnection.nativeExecute(Native method)", "at a.B.c(B.java:1)"],
        ),
        (
            "Waiting",
            "S",
            [
                "at java.lang.Object.wait(Native method)",
                "at android.app.SharedPreferencesImpl.awaitLoadedLocked(S.java:1)",
            ],
        ),
    ],
    "memory_pressure": [
        ("WaitingForGcToComplete", "S", [f"native: #00 pc 0 {ART} (art::gc::Heap::WaitForGcToCompleteLocked()+1)"])
    ],
    "idle_main": [
        (
            "Native",
            "S",
            [
                f"native: #00 pc 0 {BIONIC} (__epoll_pwait+8)",
                "at android.os.MessageQueue.nativePollOnce(Native method)",
            ],
        ),
    ],
    "debugger": [("Native", "S", ["native: #00 pc 0 /apex/com.android.art/lib64/libjdwp.so (debugMonitorWait+56)"])],
}
CASES = [(cause, *stack) for cause, stacks in STACKS.items() for stack in stacks]


def trace(state: str, kernel_state: str, frames: list[str], indent: str) -> list[str]:
    """A trace file with this main thread, as ART writes it; `indent`: what consoles make of the leading blanks."""
    return [
        "----- pid 10 at 2024-05-01 10:00:00.123456789+0200 -----",
        "Cmd line: com.e",
        "",
        "DALVIK THREADS (2):",
        f'"main" prio=5 tid=1 {state}',
        f'{indent}| group="main" sCount=1 ucsCount=0 flags=1 obj=0x72 self=0xb4',
        f"{indent}| sysTid=10 nice=-10 cgrp=top-app sched=0/0 handle=0x7",
        f"{indent}| state={kernel_state} schedstat=( 1 2 3 ) utm=1 stm=1 core=1 HZ=100",
        *(indent + frame for frame in frames),
        "",
        '"Worker" prio=5 tid=14 Native',
        f"{indent}at android.os.MessageQueue.nativePollOnce(Native method)",
        "",
        "----- end 10 -----",
    ]


@pytest.mark.parametrize("indent", ["  ", "", "\t"])
@pytest.mark.parametrize(("cause", "state", "kernel_state", "frames"), CASES)
def test_the_main_threads_stack_names_the_cause(
    cause: str, state: str, kernel_state: str, frames: list[str], indent: str
) -> None:
    found = parse("anr", trace(state, kernel_state, frames, indent))
    assert (found["cause"], [anr["pid"] for anr in found["anrs"]]) == (cause, [10])


def test_a_lock_is_followed_to_who_holds_it_and_what_that_one_does() -> None:
    lines = trace("Blocked", "S", ["at a.B.c(B.java:1)", "- waiting to lock <0x0a1b> (a a.B) held by thread 14"], "  ")
    (anr,) = parse("anr", lines)["anrs"]
    assert [link["thread"] for link in anr["wait_chain"]] == ["main", "Worker"]


def test_a_deadlock_is_a_chain_that_comes_back() -> None:
    lines = trace(
        "Blocked",
        "S",
        ["at a.B.c(B.java:1)", "- waiting to lock <0x1> (a a.B) held by thread 14", "- locked <0x2> (a a.C)"],
        "  ",
    )
    lines[-3:] = [
        "  - waiting to lock <0x2> (a a.C) held by thread 1",
        "  - locked <0x1> (a a.B)",
        "----- end 10 -----",
    ]
    (anr,) = parse("anr", lines)["anrs"]
    assert [link["thread"] for link in anr["wait_chain"]] == ["main", "Worker", "main"]


def test_log_event_log_window_manager_and_trace_of_one_anr_are_one() -> None:
    reason = (
        "Input dispatching timed out (f659b5a com.ex/com.ex.Act (server) is not responding. Waited 5004ms"
        " for MotionEvent)"
    )
    lines = [
        "07-15 10:00:00.000  1500  1600 I WindowManager: ANR in Window{f659b5a u0 com.ex/com.ex.Act}. Rea"
        "son: f659b5a com.ex/com.ex.Act (server)",
        f"07-15 10:00:00.100  1500  1700 I am_anr  : [0,77,com.ex,948485,{reason}]",
        "07-15 10:00:03.000  1500  1601 E ActivityManager: ANR in com.ex (com.ex/.Act)",
        "07-15 10:00:03.000  1500  1601 E ActivityManager: PID: 77",
        f"07-15 10:00:03.000  1500  1601 E ActivityManager: Reason: {reason}",
        "----- pid 77 at 2024-07-15 10:00:01 -----",
        "Cmd line: com.ex",
        '"main" prio=5 tid=1 Native',
        "  at android.os.BinderProxy.transactNative(Native method)",
        "----- end 77 -----",
        "----- pid 1500 at 2024-07-15 10:00:01 -----",
        "Cmd line: system_server",
        '"main" prio=5 tid=1 Native',
        "  at android.os.MessageQueue.nativePollOnce(Native method)",
    ]
    found = parse("anr", lines)
    assert [(anr["process"], anr["pid"], anr["waited_ms"], anr["cause"]) for anr in found["anrs"]] == [
        ("com.ex", 77, 5004, "binder")
    ]


def test_an_exit_record_tells_of_an_anr_too() -> None:
    lines = [
        "timestamp=2024-01-01 10:00:00.000 pid=321 realUid=10123 packageUid=10123 definingUid=10123 user=0",
        "process=com.example.app reason=6 (ANR) subreason=0 (UNKNOWN) status=0",
        "importance=100 pss=1MB rss=2MB description=user request after error: executing service com.examp"
        "le.app/.S state=empty trace=null",
    ]
    found = parse("anr", lines)
    assert [(anr["process"], anr["pid"]) for anr in found["anrs"]] == [("com.example.app", 321)]
    assert found["trigger"] == "executing_service"


D = "01-02 10:00:00.000  1300  1300 F DEBUG   : "
E = "01-02 10:00:00.000  4242  4250 E "


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (
            [
                D + "pid: 1234, tid: 1250  >>> com.foo <<<",
                D + "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr deadbaad",
            ],
            {"class": "native_crash", "pid": 1234, "tid": 1250, "process": "com.foo", "fault_addr": "deadbaad"},
        ),
        (
            ["F/libc    ( 1234): Fatal signal 11 (SIGSEGV) at 0x00000000 (code=1), thread 1250 (Thread-12)"],
            {"signal": 11, "pid": 1234, "tid": 1250, "thread": "Thread-12"},
        ),
        (
            [
                D + "pid: 1, tid: 2, name: a (b) c  >>> com.e <<<",
                D + "signal 6 (SIGABRT), code -6 (SI_TKILL), fault addr --------",
                D + "Abort message: 'terminating with uncaught exception of type std::bad_alloc: std::bad_alloc'",
            ],
            {"class": "allocation_failure", "thread": "a (b) c", "code_name": "SI_TKILL"},
        ),
        (
            [
                D + "pid: 1, tid: 2, name: x  >>> com.e <<<",
                D + "signal 35 (<debuggerd signal>), code -1 (SI_QUEUE from pid 1, uid 10), fault addr --------",
                D + "Abort message: 'fdsan: attempted to close file descriptor 92'",
            ],
            {"class": "fdsan_abort", "signal": 35},
        ),
        (
            [
                D + "pid: 800, tid: 812, name: Binder  >>> /vendor/bin/hw/android.hardware.neuralnetworks@1.3-service"
                "-qti <<<",
                D + "signal 11 (SIGSEGV), code 2 (SEGV_ACCERR), fault addr 0x7b (write)",
            ],
            {"class": "vendor_crash", "fault_addr": "0x7b"},
        ),
        (
            [
                D + "pid: 1500, tid: 1620, name: android.fg  >>> system_server <<<",
                D + "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x10",
            ],
            {"class": "system_server_crash"},
        ),
        (
            [
                D + "pid: 1, tid: 2, name: x  >>> com.e <<<",
                D + "signal 11 (SIGSEGV), code 8 (SEGV_MTEAERR), fault addr --------",
            ],
            {"class": "mte_tag_check_async"},
        ),
        (
            [
                E + "AndroidRuntime: *** FATAL EXCEPTION IN SYSTEM PROCESS: android.display",
                E + "AndroidRuntime: java.lang.NullPointerException: x",
            ],
            {"class": "system_server_crash", "thread": "android.display"},
        ),
        ([E + "Watchdog: *** WATCHDOG KILLING SYSTEM PROCESS: Blocked in monitor x"], {"class": "system_server_crash"}),
        (
            [
                E + "AndroidRuntime: FATAL EXCEPTION: Thread-5",
                E + "AndroidRuntime: Process: com.e, PID: 4242",
                E + "AndroidRuntime: java.lang.OutOfMemoryError: Failed to allocate a 536870928 byte allocation",
            ],
            {"class": "allocation_failure", "pid": 4242, "process": "com.e", "thread": "Thread-5"},
        ),
        (
            [
                E + "libc    : ggml.c:12: GGML_ASSERT(x) failed",
                E + "libc    : Fatal signal 6 (SIGABRT), code -1 (SI_QUEUE) in tid 4250 (x), pid 4242 (com.e)",
            ],
            {"class": "assertion_abort", "signal": 6, "pid": 4242, "tid": 4250},
        ),
        (["ggml_vulkan: Device memory allocation of size 1073741824 failed."], {"class": "gpu_alloc_failure"}),
        (['CANNOT LINK EXECUTABLE "./llama-cli": library "libllama.so" not found'], {"class": "dlopen_failed"}),
        (
            [
                "[12345.6] Out of memory: Killed process 4242 (farm-engine) total-vm:12kB, anon-rss:8000000kB, fi"
                "le-rss:0kB, oom_score_adj:0"
            ],
            {"class": "low_memory_kill", "pid": 4242, "victim_comm": "farm-engine", "rss_kB": 8000000},
        ),
        (
            [
                E.replace(" E ", " I ") + "killinfo: [24017,10123,900,800,123456,6,1,2]",
                E.replace(" E ", " I ") + "am_proc_died: [0,24017,com.example.app,900,18]",
            ],
            {"class": "low_memory_kill", "pid": 24017, "process": "com.example.app", "rss_kB": 123456},
        ),
        (
            ["[  100.1] kgsl kgsl-3d0: example.llm[4242]: gpu fault ctx 12 ctx_type ANY ts 34"],
            {"gpu_fault": True, "pid": 4242},
        ),
        (
            ["[ 1234.5] [drm:hangcheck_handler] *ERROR* 5000000.gpu: hangcheck detected gpu lockup rb 0!"],
            {"gpu_fault": True},
        ),
        (
            ["[   10.1] Kernel panic - not syncing: Oops: Fatal exception"],
            {"kernel_panic": True, "class": "kernel_panic"},
        ),
        (["Boot info:", "Last boot reason: reboot,watchdog"], {"class": "watchdog_reset", "kernel_panic": False}),
        (["[ro.boot.bootreason]: [reboot,shell]"], {"boot_reason": "reboot,shell", "kernel_panic": False}),
        (["W lowmemorykiller: Killing low memory processes"], {"count": 0}),
    ],
)
def test_deaths_of_every_kind_are_named(lines: list[str], wanted: dict[str, object]) -> None:
    found = parse("crash", lines)
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "engine", "error"),
    [
        ("gguf_init_from_file_impl: invalid magic characters: 'vers', expected 'GGUF'", "llama.cpp", "bad_magic"),
        (
            "llama_model_load: error loading model: tensor 'a' data is not within the file bounds, model is c"
            "orrupted or incomplete",
            "llama.cpp",
            "truncated_model",
        ),
        ("llama_model_load: error loading model: read error: Success", "llama.cpp", "truncated_model"),
        (
            "error loading model: this format is no longer supported\nllama_init_from_file: failed to load model",
            "llama.cpp",
            "version_mismatch",
        ),
        (
            "gguf_init_from_file: failed to open GGUF file 'x.gguf' (No such file or directory)",
            "llama.cpp",
            "model_file_not_found",
        ),
        ("llama_model_load: error loading model: mmap failed: Cannot allocate memory", "llama.cpp", "mmap_enomem"),
        (
            "llama_model_load: error loading model: unknown model architecture: 'gemma3'",
            "llama.cpp",
            "unsupported_architecture",
        ),
        ("ERROR: Could not open 'model.tflite'.", "tflite", "model_file_not_found"),
        ("ERROR: Model provided has model identifier '<!DO', should be 'TFL3'", "tflite", "bad_magic"),
        ("ERROR: Encountered unresolved custom op: TFLite_Detection_PostProcess.", "tflite", "op_not_supported"),
        (
            "NNAPI: Operation TOPK_V2 is only supported since HAL version 1.2 (validating using HAL version 1.0)",
            "tflite",
            "op_not_supported_for_hal",
        ),
        ("fopen squeezenet.param failed", "ncnn", "model_file_not_found"),
        ("layer Foo not exists or registered", "ncnn", "op_not_supported"),
        ("ModelBin read weight_data failed\nlayer load_model 3 conv1 failed", "ncnn", "truncated_model"),
        (
            "Load model from m.onnx failed:Load model m.onnx failed. File doesn't exist",
            "onnxruntime",
            "model_file_not_found",
        ),
        (
            "onnxruntime: Unsupported model IR version: 10, max supported IR version: 9",
            "onnxruntime",
            "version_mismatch",
        ),
        ("E executorch: Missing operator: [3] llama::sdpa_with_kv_cache.out", "executorch", "op_not_supported"),
        ("E RKNN: Invalid RKNN model version 6\nE RKNN: rknn_init, load model failed!", "rknn", "version_mismatch"),
        ("TVMError: Cannot open file /data/local/tmp/x/mlc-chat-config.json", "mlc-llm", "model_file_not_found"),
    ],
)
def test_engines_say_why_a_model_did_not_load(text: str, engine: str, error: str) -> None:
    found = parse("model_load", text.split("\n"))
    assert (found["engine"], found["ok"], found["error"]) == (engine, False, error)


@pytest.mark.parametrize(
    "text",
    [
        "llama_model_loader: loaded meta data with 33 key-value pairs\nllama_new_context_with_model: n_ctx = 2048",
        "I rkllm: rkllm init success",
        "load tokenizer\nload tokenizer Done\nload /x/llm.mnn ... Load Module Done!",
    ],
)
def test_a_load_that_worked_is_ok(text: str) -> None:
    found = parse("model_load", text.split("\n"))
    assert (found["ok"], found["error"]) == (True, None)


def test_no_line_that_a_rule_of_model_loads_knows_is_passed_over() -> None:
    """Fixed words stand before the patterns; whatever a pattern fits must hold one of them."""
    texts = [text for mark in test_engines_say_why_a_model_did_not_load.pytestmark for text, _, _ in mark.args[1]]  # type: ignore[attr-defined]
    lines = [line for text in [*texts, *map(text_of, (path for _, path in samples()))] for line in text.split("\n")]
    known = [pattern for _, pattern in rules.ERRORS] + [rules.SUCCESS]
    for line in lines:
        if any(pattern.search(line) for pattern in known):
            assert any(word in line.lower() for word in rules.WORDS), line
        if any(pattern.search(line) for _, pattern in rules.ENGINES):
            assert any(word in line.lower() for word in rules.ENGINE_WORDS), line
