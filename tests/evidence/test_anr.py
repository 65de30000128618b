"""ANRs: the deadline that was missed, the cause by the main thread's stack, one ANR out of many accounts of it."""

from __future__ import annotations

import pytest

from farm.evidence.anr import reasons
from farm.evidence.registry import parse


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


def test_a_report_on_one_line_and_a_crash_services_stacks_are_read() -> None:
    (anr,) = parse(
        "anr", ["E/ActivityManager( 900): ANR in com.ex (com.ex/.Act), PID: 77, Reason: keyDispatchingTimedOut"]
    )["anrs"]
    assert (anr["process"], anr["pid"], anr["trigger"]) == ("com.ex", 77, "input_dispatch")
    stacks = [
        "main (native):tid=1 systid=4242",
        "#00 pc 0x4c35c libc.so (__ioctl + 28) (BuildId: ba48)",
        "#01 pc 0x5829c libbinder.so (android::IPCThreadState::talkWithDriver(bool) + 256)",
        "       at android.os.BinderProxy.transactNative(BinderProxy.java)",
    ]
    assert parse("anr", stacks)["cause"] == "binder"
