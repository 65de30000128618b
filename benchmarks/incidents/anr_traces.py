"""ANRs with a known cause, written from the formats' documentation: ART's and Dalvik's thread dumps, the kernel's
binder debug file, binder tracepoints, ActivityManager's log, and the reference engine's event lines.

Nothing is taken from recorded samples. Sources: AOSP `art/runtime/thread.cc` (DumpState, DumpStack), `monitor.cc`,
`runtime/thread_list.cc`; dalvik/vm/Thread.cpp; drivers/android/binder.c; ActivityManagerService.appNotResponding.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

BIONIC = "/apex/com.android.runtime/lib64/bionic/libc.so"
ART = "/apex/com.android.art/lib64/libart.so"
BINDER = "/system/lib64/libbinder.so"


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text with the cause of its first ANR, and the cause at the end of the chain (None: not looked at)."""

    name: str
    text: str
    cause: str
    root: str | None = None


@dataclass(slots=True)
class _Thread:
    name: str
    tid: int
    sys_tid: int
    state: str
    kernel: str
    frames: list[str] = field(default_factory=list)


class _Scene:
    """One device: numbers are drawn once, so that everything that speaks of a thread agrees."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.pid = self.r.randrange(2000, 28000)
        self.server = self.r.randrange(900, 1999)
        self.package = self.r.choice(("com.acme.chat", "org.lab.assistant", "io.notes.voice"))
        drawn = f"{self.r.getrandbits(60):x}"
        self.library = f"/data/app/~~{drawn}==/{self.package}-{drawn[::-1]}==/lib/arm64"
        self.old = self.r.random() < 0.2  # Dalvik's dialect
        self.free = self.r.sample(range(4, 90), 20)  # numbers of threads
        self.lock = f"0x{self.r.getrandbits(28):08x}"

    def thread(self, name: str, state: str, kernel: str, frames: list[str], tid: int | None = None) -> _Thread:
        number = self.free.pop() if tid is None else tid
        return _Thread(
            name, number, self.pid if tid == 1 else self.pid + self.r.randrange(5, 400), state, kernel, frames
        )

    def main(self, state: str, kernel: str, frames: list[str]) -> _Thread:
        java = ["at android.os.Handler.dispatchMessage(Handler.java:106)", "at android.os.Looper.loop(Looper.java:288)"]
        return self.thread(
            "main", state, kernel, [*frames, *java, "at android.app.ActivityThread.main(ActivityThread.java:8000)"], 1
        )

    def idle(self, name: str) -> _Thread:
        return self.thread(
            name, "Waiting", "S", [
                "at java.lang.Object.wait(Native method)",
                f"- waiting on <0x{self.r.getrandbits(28):08x}> (a java.lang.Object)",
                "at java.lang.Daemons$FinalizerDaemon.run(Daemons.java:300)",
            ],
        )  # fmt: skip

    def native(self, symbol: str, library: str, number: int = 0) -> str:
        return (
            f"native: #{number:02d} pc {self.r.getrandbits(24):016x}  {library} ({symbol}+{self.r.randrange(1, 4000)})"
        )

    def dump(self, pid: int, process: str, threads: list[_Thread]) -> str:
        first, *rest = threads
        self.r.shuffle(rest)
        body = "\n\n".join(self._dumped(thread) for thread in (first, *rest))
        head = f"----- pid {pid} at 2026-03-0{self.r.randrange(1, 9)} 10:11:12.345678+0100 -----\nCmd line: {process}"
        return f"{head}\n\n{body}\n\n----- end {pid} -----\n"

    def _dumped(self, t: _Thread) -> str:
        if self.old:
            state = {"Blocked": "MONITOR", "Native": "NATIVE", "Waiting": "WAIT", "Runnable": "RUNNABLE"}.get(
                t.state, t.state.upper()
            )
            head = f'"{t.name}" prio=5 tid={t.tid} {state}'
        else:
            head = f'"{t.name}" {self.r.choice(("", "daemon "))}prio=5 tid={t.tid} {t.state}'
        kernel = self.r.random() < 0.3 and t.kernel == "S" and t.frames and t.frames[0].startswith("native")
        above = ["  kernel: __switch_to+0x90/0xa8"] if kernel else []
        return "\n".join(
            [
                head,
                f'  | group="main" sCount=1 dsCount=0 flags=1 obj=0x{self.r.getrandbits(28):08x} self=0x{t.tid:x}0',
                f"  | sysTid={t.sys_tid} nice=-10 cgrp=default sched=0/0 handle=0x{self.r.getrandbits(32):x}",
                f"  | state={t.kernel} schedstat=( {self.r.getrandbits(40)} 31415926 17 ) utm=1 stm=2 core=3 HZ=100",
                *above,
                *(f"  {frame}" for frame in t.frames),
            ]
        )

    def held_by(self, owner: _Thread) -> str:
        """ART names the owner's number; Dalvik its number and name."""
        return f"held by tid={owner.tid} ({owner.name})" if self.old else f"held by thread {owner.tid}"

    def log(self, reason: str | None = None) -> str:
        what = (
            reason
            or f"Input dispatching timed out ({self.package}/.Main is not responding. "
            f"Waited {self.r.randrange(5000, 9000)}ms for MotionEvent)"
        )
        stamp, writer = "03-04 10:11:12.345", f"{self.server:5d} {self.server + 9:5d} E ActivityManager: "
        lines = [
            f"ANR in {self.package} ({self.package}/.Main)",
            f"PID: {self.pid}",
            f"Reason: {what}",
            "Load: 1.1 / 0.9 / 0.7",
        ]
        return "\n".join(f"{stamp} {writer}{line}" for line in lines) + "\n"

    def sent(self, number: int, pid: int, tid: int) -> str:
        """A call of the main thread, as the kernel's debug file has it."""
        where = f"from {self.pid}:{self.pid} to {pid}:{tid}"
        return f"    outgoing transaction {number}: 0000000000000000 {where} code 3 flags 10 pri 0:120 r1\n"

    def whole(self, *parts: str) -> str:
        return "\n".join(parts)


def _disk(s: _Scene) -> list[str]:
    return [
        s.native("fdatasync", BIONIC), s.native("unixSync", "/system/lib64/libsqlite.so", 1),
        "at android.database.sqlite.SQLiteConnection.nativeExecute(Native method)",
        "at android.database.sqlite.SQLiteSession.endTransaction(SQLiteSession.java:400)",
    ]  # fmt: skip


def _inference(s: _Scene, how: int) -> list[str]:
    native, java = (
        (("ggml_compute_forward_mul_mat", "libggml-cpu.so"), f"at {s.package}.Llama.decode(Native method)"),
        (
            ("tflite::Subgraph::Invoke()", "libtensorflowlite_jni.so"),
            "at org.tensorflow.lite.NativeInterpreterWrapper.run(Native method)",
        ),
        (("MNN::CPUConvolution::onExecute", "libMNN.so"), f"at {s.package}.Mnn.run(Native method)"),
        (
            ("onnxruntime::InferenceSession::Run", "libonnxruntime.so"),
            "at ai.onnxruntime.OrtSession.run(Native method)",
        ),
    )[how % 4]
    return [s.native(native[0], f"{s.library}/{native[1]}"), java, f"at {s.package}.Main.onClick(Main.kt:41)"]


def _blocked(s: _Scene, lock: str, owner: _Thread, method: str = "Store.get") -> list[str]:
    return [
        f"at {s.package}.{method}(Store.java:12)",
        f"- waiting to lock <{lock}> (a {s.package}.Store) {s.held_by(owner)}",
        f"at {s.package}.Main.onClick(Main.kt:41)",
    ]  # fmt: skip


def _called(s: _Scene, interface: str, method: str) -> list[str]:
    return [
        s.native("__ioctl", BIONIC), s.native("android::IPCThreadState::talkWithDriver(bool)", BINDER, 1),
        s.native("android::IPCThreadState::waitForResponse(android::Parcel*, int*)", BINDER, 2),
        "at android.os.BinderProxy.transactNative(Native method)",
        "at android.os.BinderProxy.transact(BinderProxy.java:550)",
        f"at {interface}$Stub$Proxy.{method}(I.java:90)", f"at {s.package}.Main.onClick(Main.kt:41)",
    ]  # fmt: skip


def by_lock(s: _Scene, work: str) -> Labelled:
    """The main thread waits for a monitor; its owner works."""
    frames = {
        "disk_io": _disk(s),
        "inference": _inference(s, s.r.randrange(4)),
        "java_cpu": ["at java.util.regex.Matcher.find(Matcher.java:1)", f"at {s.package}.Index.build(Index.java:7)"],
    }[work]
    owner = s.thread(
        "worker-3",
        "Runnable" if work == "java_cpu" else "Native",
        "D" if work == "disk_io" else "R",
        [*frames, f"- locked <{s.lock}> (a {s.package}.Store)"],
    )
    main = s.main("Blocked", "S", _blocked(s, s.lock, owner))
    return Labelled(
        f"lock held by {work}",
        s.whole(s.log(), s.dump(s.pid, s.package, [main, owner, s.idle("Finalizer")])),
        "lock",
        work,
    )


def by_lock_chain(s: _Scene) -> Labelled:
    """Two monitors deep, the last owner in a forward pass that only the engine's event lines tell."""
    other = f"0x{s.r.getrandbits(28):08x}"
    last = s.thread(
        "decoder",
        "Native",
        "R",
        [s.native("run", f"{s.library}/libcore.so"), f"- locked <{other}> (a {s.package}.Model)"],
    )
    middle = s.thread(
        "loader",
        "Blocked",
        "S",
        [*_blocked(s, other, last, "Model.load"), f"- locked <{s.lock}> (a {s.package}.Store)"],
    )
    main = s.main("Blocked", "S", _blocked(s, s.lock, middle))
    event = '{"v":1,"seq":12,"t_us":4367,"ev":"stage_begin","stage":"decode","iteration":0}'
    mark = f"03-04 10:11:05.001 {s.pid:5d} {last.sys_tid:5d} I engine  : {event}\n"
    text = s.whole(mark, s.log(), s.dump(s.pid, s.package, [main, middle, last]))
    return Labelled("two locks, forward mark at the end", text, "lock", "inference")


def by_deadlock(s: _Scene) -> Labelled:
    other = f"0x{s.r.getrandbits(28):08x}"
    worker = s.thread("sync", "Blocked", "S", [])
    main = s.main("Blocked", "S", [*_blocked(s, s.lock, worker), f"- locked <{other}> (a java.lang.Object)"])
    worker.frames = [*_blocked(s, other, main, "Sync.run"), f"- locked <{s.lock}> (a {s.package}.Store)"]
    return Labelled("deadlock", s.whole(s.log(), s.dump(s.pid, s.package, [main, worker])), "lock", "lock")


def by_binder(s: _Scene, told: str) -> Labelled:
    """A call into the system server, whose thread waits for a lock; told by the debug file, a trace, or stacks."""
    interface = "android.net.wifi.IWifiManager"
    main = s.main("Native", "S", _called(s, interface, "getConfiguredNetworks"))
    owner = _Thread(
        "wifi", 40, s.server + 40, "Native", "D", [*_disk(s), "- locked <0x0abc> (a com.android.server.Wifi)"]
    )
    serving = _Thread("Binder:1_5", 77, s.server + 77, "Blocked", "S", [
        "at com.android.server.WifiService.list(WifiService.java:9)",
        f"- waiting to lock <0x0abc> (a com.android.server.Wifi) {s.held_by(owner)}",
        f"at {interface}$Stub.onTransact(IWifiManager.java:100)", "at android.os.Binder.execTransact(Binder.java:1100)",
    ])  # fmt: skip
    first = _Thread(
        "main",
        1,
        s.server,
        "Native",
        "S",
        [s.native("__epoll_pwait", BIONIC), "at android.os.MessageQueue.nativePollOnce(Native method)"],
    )
    number, line = s.r.randrange(10**6), ""
    if told == "debug file":
        line = s.sent(number, s.server, serving.sys_tid)
    elif told == "tracepoints":
        line = (
            f"            main-{s.pid}   ({s.pid}) [003] ....   51.20: binder_transaction: transaction={number} "
            f"dest_node=5 dest_proc={s.server} dest_thread=0 reply=0 flags=0x10 code=0x3\n"
            f"    Binder:1_5-{serving.sys_tid}   ({s.server}) [001] ....   51.21: "
            f"binder_transaction_received: transaction={number}\n"
        )
    text = s.whole(
        s.log(),
        s.dump(s.pid, s.package, [main, s.idle("Finalizer")]),
        s.dump(s.server, "system_server", [first, serving, owner]),
        line,
    )
    return Labelled(f"binder by {told}, lock, disk", text, "binder", "disk_io")


def by_busy_server(s: _Scene) -> Labelled:
    """No thread of the other process takes the call."""
    main = s.main("Native", "S", _called(s, "com.acme.ISearch", "query"))
    line = s.sent(77, s.server, 0)
    return Labelled(
        "binder, no free thread", s.whole(s.log(), s.dump(s.pid, s.package, [main]), line), "binder", "binder"
    )


def by_inference(s: _Scene, how: int) -> Labelled:
    main = s.main("Native", "R", _inference(s, how))
    return Labelled(
        "inference on main",
        s.whole(s.log(), s.dump(s.pid, s.package, [main, s.idle("Finalizer")])),
        "inference_on_main",
        "inference_on_main",
    )


def by_marked_inference(s: _Scene) -> Labelled:
    """The library says nothing; a trace mark is open on the main thread."""
    main = s.main(
        "Native", "R", [s.native("sub_4a10", f"{s.library}/libcore.so"), f"at {s.package}.Core.step(Native method)"]
    )
    mark = f"            main-{s.pid}   ({s.pid}) [003] ....   51.20: tracing_mark_write: B|{s.pid}|prefill\n"
    return Labelled(
        "inference by a trace mark",
        s.whole(mark, s.log(), s.dump(s.pid, s.package, [main])),
        "inference_on_main",
        "inference_on_main",
    )


def by_waiting_for_inference(s: _Scene) -> Labelled:
    """A future has no owner; one thread alone is in a forward pass."""
    main = s.main(
        "Waiting",
        "S",
        [
            "at jdk.internal.misc.Unsafe.park(Native method)",
            f"- waiting on <{s.lock}> (a java.util.concurrent.FutureTask)",
            "at java.util.concurrent.locks.LockSupport.park(LockSupport.java:190)",
            "at java.util.concurrent.FutureTask.get(FutureTask.java:190)",
            f"at {s.package}.Main.onClick(Main.kt:41)",
        ],
    )
    worker = s.thread("llm", "Native", "R", _inference(s, s.r.randrange(4)))
    return Labelled(
        "future of an inference",
        s.whole(s.log(), s.dump(s.pid, s.package, [main, worker, s.idle("Finalizer")])),
        "lock",
        "inference",
    )


def by_work(s: _Scene, cause: str) -> Labelled:
    state, kernel, frames = {
        "disk_io": ("Native", "D", _disk(s)),
        "native_compute_on_main": ("Native", "R", [
            s.native("resize(unsigned char*, int)", f"{s.library}/libimage.so"),
            f"at {s.package}.Image.resize(Native method)",
        ]),
        "java_cpu_on_main": ("Runnable", "R", [
            "at java.util.HashMap.putVal(HashMap.java:1)", f"at {s.package}.Index.build(Index.java:7)",
        ]),
        "idle_main": ("Native", "S", [
            s.native("__epoll_pwait", BIONIC),
            s.native("android::Looper::pollInner(int)", "/system/lib64/libutils.so", 1),
            "at android.os.MessageQueue.nativePollOnce(Native method)",
            "at android.os.MessageQueue.next(MessageQueue.java:335)",
        ]),
        "debugger": ("Native", "S", [
            s.native("syscall", BIONIC),
            s.native("jdwp::JdwpState::Suspend", "/apex/com.android.art/lib64/libjdwp.so", 1),
            f"at {s.package}.Main.onClick(Main.kt:41)",
        ]),
        "memory_pressure": ("WaitingForGcToComplete", "S", [
            s.native("art::gc::Heap::WaitForGcToComplete(art::gc::GcCause, art::Thread*)", ART),
            f"at {s.package}.Main.onClick(Main.kt:41)",
        ]),
    }[cause]  # fmt: skip
    return Labelled(
        cause,
        s.whole(s.log(), s.dump(s.pid, s.package, [s.main(state, kernel, frames), s.idle("Finalizer")])),
        cause,
        cause,
    )


def by_starvation(s: _Scene) -> Labelled:
    """An idle main thread on a machine where others use every core."""
    writer = f"03-04 10:11:12.345 {s.server:5d} {s.server + 9:5d} E ActivityManager: "
    table = [
        "CPU usage from 12000ms to 0ms ago (2026-03-04 10:11:00.000 to 2026-03-04 10:11:12.000):",
        f"  380% {s.pid + 700}/com.other.miner: 370% user + 10% kernel",
        f"  2.1% {s.pid}/{s.package}: 1% user + 1.1% kernel",
        "99% TOTAL: 92% user + 7% kernel",
    ]  # fmt: skip
    cpu = "\n".join(writer + row for row in table) + "\n"
    idle = by_work(s, "idle_main").text
    return Labelled(
        "cpu starvation",
        s.whole(idle.partition("----- pid")[0] + cpu, "----- pid" + idle.partition("----- pid")[2]),
        "cpu_starvation",
    )


_MAKERS: tuple[Callable[[_Scene], Labelled], ...] = (
    *(lambda s, w=work: by_lock(s, w) for work in ("disk_io", "inference", "java_cpu")),
    by_lock_chain,
    by_deadlock,
    *(lambda s, t=told: by_binder(s, t) for told in ("debug file", "tracepoints", "stacks")),
    by_busy_server,
    *(lambda s, h=how: by_inference(s, h) for how in range(4)),
    by_marked_inference,
    by_waiting_for_inference,
    *(
        lambda s, c=cause: by_work(s, c)
        for cause in (
            "disk_io", "native_compute_on_main", "java_cpu_on_main", "idle_main", "debugger", "memory_pressure",
        )
    ),
    by_starvation,
)  # fmt: skip


def variants(each: int = 2, seed: int = 1) -> list[Labelled]:
    """`each` of every kind; the same seed gives the same ones."""
    return [make(_Scene(seed * 1000 + n * 97 + index)) for n in range(each) for index, make in enumerate(_MAKERS)]
