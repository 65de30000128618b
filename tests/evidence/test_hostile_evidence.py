"""No text breaks a parser: any bytes, any truncation, mixed streams, CRLF; memory does not grow with the stream."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.evidence.auto import Auto
from farm.evidence.log import Log
from farm.evidence.registry import KINDS, parse
from tests.evidence.samples import core_of, missing, samples, text_of

ALL = [(kind, text_of(path)) for kind, path in samples()]
relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def survives(kind: str, lines: list[str]) -> None:
    json.dumps(parse(kind, lines), allow_nan=False)


@relaxed
@given(st.binary(max_size=2000))
def test_any_bytes_are_read(data: bytes) -> None:
    lines = data.decode("utf-8", errors="replace").split("\n")
    for kind in KINDS:
        survives(kind, lines)
    auto = Auto()
    for line in lines:
        auto.feed(line)
    json.dumps(auto.finish(), allow_nan=False)


@relaxed
@given(st.sampled_from(ALL), st.floats(0, 1), st.floats(0, 1))
def test_any_piece_of_a_sample_is_read(sample: tuple[str, str], start: float, end: float) -> None:
    kind, text = sample
    survives(kind, text[int(len(text) * min(start, end)) : int(len(text) * max(start, end))].split("\n"))


@relaxed
@given(st.sampled_from(ALL), st.sampled_from(ALL), st.integers(0, 1 << 30))
def test_two_outputs_line_by_line_in_each_other_are_read(
    one: tuple[str, str], other: tuple[str, str], seed: int
) -> None:
    chooser = random.Random(seed)
    rest = [one[1].split("\n"), other[1].split("\n")]
    mixed: list[str] = []
    while any(rest):
        source = rest[chooser.randrange(2)]
        if source:
            mixed.append(source.pop(0))
    survives(one[0], mixed)
    survives(other[0], mixed)


@relaxed
@given(st.sampled_from(ALL), st.integers(0, 20_000), st.text(max_size=40))
def test_a_sample_with_something_put_into_it_is_read(sample: tuple[str, str], at: int, inserted: str) -> None:
    kind, text = sample
    at = min(at, len(text))
    survives(kind, (text[:at] + inserted + text[at:]).split("\n"))


@pytest.mark.parametrize(("kind", "path"), samples(), ids=lambda v: v if isinstance(v, str) else v.stem)
def test_a_sample_with_windows_line_ends_says_the_same(kind: str, path: Path) -> None:
    text = text_of(path).replace("\r\n", "\n")
    wanted = core_of(path)
    found = parse(kind, text.replace("\n", "\r\n").split("\n"))
    assert missing(found, wanted) == []


NOISE = "03-30 19:42:18.{:03d}  {:4d}  {:4d} {} Tag{}: message {} with numbers {} and words"


def noisy(count: int, seed: int) -> list[str]:
    """A live log of other processes."""
    chooser = random.Random(seed)
    return [
        NOISE.format(
            i % 1000,
            chooser.randrange(100, 999),
            chooser.randrange(100, 999),
            chooser.choice("VDIWE"),
            i % 37,
            i,
            i * 7,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("kind", ["anr", "crash"])
def test_what_happened_is_found_in_a_noisy_log(kind: str) -> None:
    """Between the lines of every block that carries log prefixes stand lines of others."""
    prefixed = [
        (path, text_of(path).split("\n"))
        for _, path in samples(kind)
        if text_of(path).lstrip("\t -beginofcrash\n")[2:3] == "-"
    ]
    assert len(prefixed) >= 4
    for path, lines in prefixed:
        if any(line and line[0] in " " for line in lines):
            continue  # the continuation lines of a viewer have no prefix: nothing may stand between them
        noise = noisy(3 * len(lines), 1)
        mixed = [line for i, own in enumerate(lines) for line in [own, *noise[3 * i : 3 * i + 3]]]
        assert missing(parse(kind, mixed), core_of(path)) == [], path.stem


@pytest.mark.parametrize("name", list(KINDS))
def test_memory_is_bounded_by_design(name: str) -> None:
    """A stream of the kind's own most memorable lines, four times as long: no more is kept than of the first part."""
    text = "\n".join(text_of(path) for _, path in samples(name))
    lines = [f"{line}" for line in text.split("\n")]
    parser = KINDS[name].parser()
    rounds = max(1, 10_000 // len(lines))
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for turn in range(5):
            for i in range(rounds // 5 + 1):
                for line in lines:
                    parser.feed(line.replace("4242", str(turn * rounds + i)))
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] < 64 << 20
    assert sizes[-1] - sizes[-2] < 8 << 20


#: What a parser might remember, with a number that never comes again.
GROWING = {
    "anr": [
        "01-04 01:06:43.739  {0} 1 E ActivityManager: ANR in com.p{0} (com.p{0}/.A)",
        "01-04 01:06:43.739  {0} 1 E ActivityManager: PID: {0}",
        "01-04 01:06:43.739  1 1 I am_anr  : [0,{0},com.q{0},1,Broadcast of Intent]",
        "----- Output from /proc/pressure/x{0} -----",
        "some avg10=1.00 avg60=0.00 avg300=0.00 total=1",
        "----- pid {0} at 2024-01-01 10:00:00 -----",
        '"main" prio=5 tid=1 Native',
        '"thread {0}" prio=5 tid={0} Native',
        "  native: #00 pc 0 /system/lib/x.so (symbol{0}+1)",
        "sysTid={0} state=S x{0}",
        "  {0}% {0}/name{0}: 1% user + 2% kernel",
    ],
    "crash": [
        "01-02 10:00:00.000  {0}  {0} F libc    : Fatal signal 11 (SIGSEGV), code 1 in tid {0} (x{0}), pid {0} (y{0})",
        "01-02 10:00:00.000  1  1 F DEBUG   : pid: {0}, tid: {0}, name: n{0}  >>> p{0} <<<",
        "01-02 10:00:00.000  {0}  {0} E AndroidRuntime: FATAL EXCEPTION: t{0}",
        "01-02 10:00:00.000  {0}  {0} E AndroidRuntime: java.lang.E{0}Exception: m",
        "01-02 10:00:00.000  1  1 I lowmemorykiller: Kill 'p{0}' ({0}), uid 1, oom_score_adj 0 to free 1kB",
        "01-02 10:00:00.000  {0}  {0} E libc++abi: terminating due to uncaught exception of type std::bad_alloc {0}",
        "[ 1.0] kgsl kgsl-3d0: p[{0}]: gpu fault ctx {0}",
    ],
    "tracing": ["  {0}  counter-{0}  # 1 (50%)", "simpleperf E x{0}.cpp:1] failed {0}"],
    "model_load": ["error loading model {0}: magic {0} build = {0}", "unknown {0}"],
    "adb_errors": ["error: device 'x{0}' not found", "unknown {0}"],
    "dumpsys_misc": [
        "** Graphics info for pid {0} [p{0}] **",
        "Number thing {0}: {0}",
        "mCurrentFocus=Window{{a u0 Application Error: p{0}}}",
        "  1% {0}/name{0}: 1% user + 2% kernel",
    ],
}


@pytest.mark.parametrize("name", list(GROWING))
def test_what_never_repeats_is_not_remembered_forever(name: str) -> None:
    parser = KINDS[name].parser()
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for turn in range(4):
            for i in range(500):
                for line in GROWING[name]:
                    parser.feed(line.format(turn * 500 + i + 1))
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] < 64 << 20
    assert sizes[-1] - sizes[1] < 1 << 20


@pytest.mark.slow
def test_a_log_of_a_gigabyte_needs_no_more_memory_than_one_of_a_tenth() -> None:
    piece = "\n".join(noisy(20_000, 2)) + "\n"
    crash = "\n".join(text for kind, text in ALL if kind in ("crash", "anr")) + "\n"
    log = Log()
    tracemalloc.start()
    try:
        peaks: list[int] = []
        fed = turn = 0
        while fed < 1 << 30:
            block = piece if turn % 40 else piece + crash
            log.feed_text(block)
            fed += len(block)
            turn += 1
            if fed >= (len(peaks) + 1) * (1 << 30) // 10:
                peaks.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    found = log.finish()
    assert {"anr", "crash"} <= set(found)
    assert max(peaks) < 128 << 20
    assert peaks[-1] < peaks[2] + (16 << 20)
