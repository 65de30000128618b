"""Logs for benchmarks: what a phone says all day, with what goes wrong now and then, in logcat's threadtime format.

Written from the formats' documentation (AOSP logprint.cpp, EventLogTags.logtags, ActivityManager's own lines, the
tombstones of debuggerd), with numbers that change from line to line; no sample of the parsers is used.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

#: What a healthy system prints, over and over.
CHATTER = (
    "D WifiNl80211Manager: Scan result ready event, {n} results in {m} ms",
    "I ActivityManager: Start proc {n}:com.example.app{m}/u0a{m} for service {{com.example.app{m}/.SyncService}}",
    "D ConnectivityService: NetReassign [no changes] [c {n}] [a {m}] [i {n}]",
    "V AlarmManager: Triggered alarm #{m} on type 2, when {n}",
    "D SurfaceFlinger: setPowerMode: mode={m} display={n}, vsync offset {n} ns",
    "W ProcessStats: Tracking association SourceState pid={n} process=com.android.systemui",
    "I chatty  : uid=10{m}(com.example.app{m}) RenderThread identical {m} lines",
    "D NotificationService: enqueue 0|com.example.app{m}|{n}|null|10{m} in {m} ms",
    "I farm-engine: decode token {n} in {m}.{m} ms, cache {n} of 4096 positions",
    "D BatteryService: Processing new values: level={m}, temperature={n}, voltage={n}",
    "W BpBinder: Slow Binder: BpBinder transact took {m} ms, interface=android.app.IActivityManager, code={m}",
    "E chromium: [ERROR:gl_surface.cc({n})] not supported on this display, continuing with {m}",
)
#: What it prints several times a minute, and which reads like trouble until one looks.
EVERYDAY = (
    "I ActivityManager: Killing {n}:com.example.app{m}/u0a{m} (adj 905): empty for {n}s",
    "I am_kill : [0,{n},com.example.app{m},905,empty for {n}s,{n}]",
    "I am_proc_died: [0,{n},com.example.app{m},905,19]",
    "W System.err: java.net.SocketTimeoutException: timeout after {n} ms",
)
#: Rare and real: a native crash, an ANR, a low-memory kill.
TROUBLE = (
    (
        "F libc    : Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x{n:x} in tid {n} (worker), pid {m}",
        "F DEBUG   : *** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***",
        "F DEBUG   : pid: {m}, tid: {n}, name: worker  >>> /data/local/tmp/engine <<<",
        "F DEBUG   : signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x{n:x}",
        "F DEBUG   : backtrace:",
        "F DEBUG   :       #00 pc 00000000000{n:x}  /data/local/tmp/engine (Session::decode+{m})",
        "F DEBUG   :       #01 pc 00000000000{n:x}  /data/local/tmp/engine (main+{m})",
    ),
    (
        "I am_anr  : [0,{n},com.example.app{m},{n},Input dispatching timed out (Waited {n}ms for MotionEvent)]",
        "E ActivityManager: ANR in com.example.app{m} (com.example.app{m}/.Main)",
        "E ActivityManager: PID: {n}",
        "E ActivityManager: Reason: Input dispatching timed out (Waited {n}ms for MotionEvent)",
        "E ActivityManager: Load: 1.{m} / 0.9 / 0.8",
    ),
    ("I lowmemorykiller: Kill 'com.example.app{m}' ({n}), uid 10{m}, oom_score_adj 905 to free {n}kB rss, 0kB swap",),
)


def lines(count: int, seed: int = 1, everyday: int = 500, trouble: int = 20_000) -> Iterator[str]:
    """So many lines; one of `everyday` and one block in `trouble`, on average."""
    chance = random.Random(seed)
    for number in range(count):
        seconds, n, m = number / 40, chance.randrange(1000, 30000), chance.randrange(10, 99)
        roll = chance.random()
        if roll < 1 / trouble:
            said = TROUBLE[chance.randrange(len(TROUBLE))]
        elif roll < 1 / trouble + 1 / everyday:
            said = (EVERYDAY[n % len(EVERYDAY)],)
        else:
            said = (CHATTER[n % len(CHATTER)],)
        clock = f"11-30 {int(seconds) // 3600 % 24:02d}:{int(seconds) // 60 % 60:02d}:{seconds % 60:06.3f}"
        for text in said:
            yield f"{clock} {n:>5} {m + 1000:>5} {text.format(n=n, m=m)}"


def text(megabytes: float, **options: int) -> str:
    """About so many megabytes (1e6 bytes) of it."""
    made = list(lines(int(megabytes * 1e6 / 105), **options))
    return "\n".join([*made, ""])
