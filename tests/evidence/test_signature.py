"""Signatures: the same fault gives the same key whatever address, process, folder or vendor's frame it comes with."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.evidence import normal, signature
from farm.evidence.registry import parse


def tombstone(seed: int, function: str = "ggml_compute_forward_mul_mat") -> str:
    """A crash as debuggerd prints it, with everything drawn that is not the fault."""
    r = random.Random(seed)
    pid, base = r.randrange(1000, 30000), r.randrange(1 << 30)
    folder = f"/data/app/~~{r.getrandbits(64):x}==/com.example.chat-{r.getrandbits(64):x}==/lib/arm64"
    hook = ["#00 pc {:016x}  /system/lib64/libmiuihook.so (hook_raise+20)"] if r.random() < 0.5 else []
    frames = [
        *hook,
        f"#00 pc {{:016x}}  {folder}/libllama.so ({function}+{r.randrange(4096)}) (BuildId: {r.getrandbits(80):x})",
        f"#00 pc {{:016x}}  {folder}/libllama.so (ggml_graph_compute(ggml_cgraph*, int)+{r.randrange(999)})",
        "#00 pc {:016x}  /apex/com.android.runtime/lib64/bionic/libc.so (__pthread_start(void*)+208)",
    ]
    return "\n".join(
        [
            f"pid: {pid}, tid: {pid + 7}, name: worker-{r.randrange(9)}  >>> com.example.chat <<<",
            f"signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x{r.getrandbits(40):x}",
            "backtrace:",
            *(f"      {line.format(base + 4 * i).replace('#00', f'#{i:02d}')}" for i, line in enumerate(frames)),
        ]
    )


def of(text: str) -> signature.Signature:
    (found,) = signature.signed({"kind": "crash", **parse("crash", text.split("\n"))})
    return found


def test_a_crash_keeps_its_key_over_addresses_builds_folders_and_vendor_hooks() -> None:
    assert len({of(tombstone(seed)).key for seed in range(20)}) == 1
    assert of(tombstone(1)).parts == (
        "SEGV_MAPERR",
        "libllama!ggml_compute_forward_mul_mat",
        "libllama!ggml_graph_compute",
    )


def test_another_function_is_another_fault() -> None:
    assert of(tombstone(1)).key != of(tombstone(1, "llama_tokenize")).key


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("mmap of /data/local/tmp/m-1/model.gguf failed: errno=12", "mmap of model.gguf failed: errno=12"),
        ("OpenCL error -61 at 0xffff8812 (131072 bytes)", "OpenCL error -61 at # (#)"),
        ("Waited 5001ms for a1b2c3d com.example/.Main", "Waited # for # com.example/.Main"),
        ("pid 4251 died at 12-03 11:22:33.444", "pid # died at #"),
        ("arm64-v8a, Executorch Error 0x12", "arm64-v8a, Executorch Error 0x12"),
        ("0x12345678", "#"),
        ("", ""),
    ],
)
def test_a_message_keeps_what_names_the_fault(text: str, wanted: str) -> None:
    assert normal.message(text) == wanted


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        ("#01 pc 0000a1  /vendor/lib64/libGLES_mali.so", "libGLES_mali"),
        ("#01 pc 0a  /data/app/x/base.apk!libnn.so (offset 0x1000) (Run<float>(Ctx const&)+8)", "libnn!Run"),
        ("#02 pc 0b  /data/x/libr.so (core::panic::h0123456789abcdef+4)", "libr!core::panic"),
        (
            "#03 pc 0c  /d/libk.so (std::vector<int, std::allocator<int>>::at(unsigned long) const+1)",
            "libk!std::vector::at",
        ),
        ("com.example.Llm$$ExternalSyntheticLambda3.run(D8$$SyntheticClass)", "com.example.Llm$lambda"),
        ("com.example.Llm.lambda$load$2(Llm.kt:41)", "com.example.Llm.lambda$load"),
        ("at com.example.Llm$1.onClick(Llm.java:7)", "com.example.Llm.onClick"),
        ("ggml_vec_dot+120 (/data/local/tmp/libggml.so)", "libggml!ggml_vec_dot"),
    ],
)
def test_a_frame_is_library_and_function(frame: str, wanted: str) -> None:
    assert normal.frames([frame]) == (wanted,)


@pytest.mark.parametrize(
    ("klass", "summary", "evidence", "wanted", "basis"),
    [
        ("engine-crashed", "the engine crashed in stage decode: SIGSEGV", tombstone(3), "native_crash", "stack"),
        (
            "engine-hung",
            "the engine was silent for 30 s",
            '"farm-engine" sysTid=12\n    #00 pc 01  /d/e (spin+4)',
            "hang",
            "stack",
        ),
        (
            "engine-failed",
            "exit code 3",
            "gguf_init_from_file: invalid magic number 12345678",
            "load:bad_magic",
            "message",
        ),
        (
            "engine-killed",
            "the engine was killed",
            "lowmemorykiller: Kill 'farm-engine' (4242), uid 2000, oom_score_adj 900 to free 81288kB rss; reason: low",
            "low_memory_kill",
            "message",
        ),
        ("farm-error", "x", 'Traceback:\n  File "/a/b.py", line 3, in go\nKeyError: 7', "farm-error", "stack"),
        ("warning", "the clock is 6.1 s off", None, "warning", "message"),
        ("engine-crashed", "the engine crashed: SIGBUS", "nothing of use", "engine-crashed", "message"),
    ],
)
def test_every_kind_of_stored_incident_has_one(
    klass: str, summary: str, evidence: str | None, wanted: str, basis: str
) -> None:
    found = signature.of_incident(klass, summary, evidence)
    assert (found.klass, found.basis) == (wanted, basis)
    assert found.parts
    assert found.key == signature.of_incident(klass, summary, evidence).key


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=600))
def test_no_text_makes_it_fail(klass: str, summary: str, evidence: str) -> None:
    for name in (klass, "engine-crashed", "engine-hung", "engine-failed", "anr", "farm-error"):
        found = signature.of_incident(name, summary, evidence)
        assert len(found.key) == 16
        json.dumps([found.title, found.text])
