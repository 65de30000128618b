"""The documented formats in the variants that no sample shows: versions of Android, vendors, tools."""

from __future__ import annotations

import pytest

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
