"""`auto`: what is in a text that nobody named, in a log, in a bugreport; and the command that prints it."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from farm.cli.main import main
from farm.evidence import engines
from farm.evidence.auto import Auto
from farm.evidence.lines import Facts
from farm.evidence.log import PIECE, Log
from tests.evidence.samples import FOLDER, core_of, missing, one, samples, text_of

#: adb's own words without a list are its errors; boot messages that tell nothing are nobody's.
_OTHERS = {("adb_devices", "12"): "adb_errors", ("adb_devices", "15"): "adb_errors", ("crash", "42"): None}


def auto(lines: list[str]) -> Facts:
    reader = Auto()
    for line in lines:
        reader.feed(line)
    return reader.finish()


@pytest.mark.parametrize(("kind", "path"), samples(), ids=lambda v: v if isinstance(v, str) else v.stem)
def test_a_sample_is_recognised_and_gives_its_uniform_keys(kind: str, path: Path) -> None:
    found = auto(text_of(path).split("\n"))
    assert found["kind"] == _OTHERS.get((kind, path.stem[:2]), kind)
    if found["kind"] == kind:
        assert missing(found, core_of(path)) == []


def bugreport() -> str:
    """The parts of a dumpstate text that matter, in its order, with the stacks of a healthy process."""
    return "\n".join(
        [
            "========================================================",
            "== dumpstate: 2024-05-16 20:10:00",
            "========================================================",
            "------ MEMORY INFO (/proc/meminfo) ------",
            one("memory", "01"),
            "------ 0.003s was the duration of 'MEMORY INFO' ------",
            "------ SYSTEM LOG (logcat -v threadtime -v printable -d *:v) ------",
            one("anr", "07"),
            "------ 0.5s was the duration of 'SYSTEM LOG' ------",
            "------ EVENT LOG (logcat -b events -v threadtime -d *:v) ------",
            "01-04 01:06:40.000  1594 20589 I am_anr  : [0,17646,com.example.manager,948485,Input dispatching"
            " timed out (x)]",
            "------ VM TRACES JUST NOW (/data/anr/dumptrace_1: 2024-05-16 20:10:00) ------",
            "----- pid 1594 at 2024-05-16 20:10:00 -----",
            "Cmd line: system_server",
            '"main" prio=5 tid=1 Native',
            "  at android.os.MessageQueue.nativePollOnce(Native method)",
            "----- end 1594 -----",
            "------ SYSTEM PROPERTIES (getprop) ------",
            "[ro.product.model]: [Pixel 8]",
            "[ro.build.version.sdk]: [34]",
            "------ 0.01s was the duration of 'SYSTEM PROPERTIES' ------",
            "-------------------------------------------------------------------------------",
            "DUMP OF SERVICE battery:",
            one("dumpsys_battery", "09"),
            "--------- 0.003s was the duration of dumpsys battery, ending at: 2024-05-16 20:10:01",
            "-------------------------------------------------------------------------------",
            "DUMP OF SERVICE thermalservice:",
            one("thermalservice", "07"),
            "",
        ]
    )


def test_a_bugreport_is_read_by_its_sections() -> None:
    found = auto(bugreport().split("\n"))
    kinds = {str(found["kind"]), *found["also"]}
    assert found["container"] == "bugreport"
    assert {"anr", "memory", "getprop", "dumpsys_battery", "thermalservice"} <= kinds
    facts = {**found["also"], found["kind"]: found}
    assert [(anr["process"], anr["pid"]) for anr in facts["anr"]["anrs"]] == [("com.example.manager", 17646)]
    assert facts["getprop"]["ro.product.model"] == "Pixel 8"
    assert facts["thermalservice"]["skin_C"] == pytest.approx(30.147001)


def archive(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("main_entry.txt", "bugreport-x.txt")
        packed.writestr("bugreport-x.txt", bugreport())
        packed.writestr("FS/data/anr/anr_2024-05-16-20-09-00-000", one("anr", "35"))
        packed.writestr("FS/data/tombstones/tombstone_00", one("crash", "01"))
        packed.writestr("FS/data/tombstones/tombstone_00.pb", b"\x08\x01\xff\xfe" * 100)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Facts:
    assert main(["evidence", *arguments]) == 0
    printed: Facts = json.loads(capsys.readouterr().out)
    return printed


def test_a_bugreports_archive_is_taken_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(archive(tmp_path / "bugreport.zip"))
    found = run(capsys, "auto", path)
    assert (found["container"], found["kind"], found["class"]) == ("bugreport", "crash", "mte_tag_check_sync")
    anrs = run(capsys, "anr", path)["anrs"]
    assert {anr["pid"] for anr in anrs} == {17646, 9955}


@pytest.mark.parametrize(
    ("kind", "path"), samples("crash", "dumpsys_battery"), ids=lambda v: v if isinstance(v, str) else v.stem
)
def test_the_command_prints_what_the_text_says(kind: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert missing(run(capsys, kind, str(path)), core_of(path)) == []


def test_compressed_and_windows_text_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = one("dumpsys_battery", "09")
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.txt").write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    (tmp_path / "c.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    for name in ("a.gz", "b.txt", "c.txt"):
        assert run(capsys, "dumpsys_battery", str(tmp_path / name))["voltage_mV"] == 4356, name


def test_zstd_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import zstandard

    (tmp_path / "log.zst").write_bytes(zstandard.compress(one("crash", "12").encode()))
    assert run(capsys, "crash", str(tmp_path / "log.zst"))["pid"] == 8117


def test_an_endless_line_is_cut_and_the_next_one_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"x" * 3_000_000 + b"\n" + one("dumpsys_battery", "09").encode())
    assert run(capsys, "dumpsys_battery", str(path))["level_pct"] == 100


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["crsh", "x"], "did you mean crash"),
        (["engine:nonsense", "x"], "nonsense"),
        (["crash", "/nonexistent"], "is no file"),
        (["crash"], "standard input"),
    ],
)
def test_what_is_typed_wrongly_is_refused_with_a_hint(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evidence", *arguments]) == 3
    assert says in capsys.readouterr().err


def test_a_damaged_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = archive(tmp_path / "bugreport.zip")
    path.write_bytes(path.read_bytes()[:-200])
    assert main(["evidence", "auto", str(path)]) == 3
    assert "zip" in capsys.readouterr().err


def test_without_arguments_the_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence"]) == 0
    assert {path.name for path in FOLDER.iterdir()} <= {
        line.split(" ")[0] for line in capsys.readouterr().out.splitlines()
    }


@pytest.mark.parametrize("size", [997, 4096, PIECE, 3 * PIECE, 1 << 30])
def test_a_log_in_pieces_says_what_its_lines_say(size: int) -> None:
    noise = "".join(f"03-30 19:42:18.{i % 1000:03d}  100  100 I Tag: message {i}\n" for i in range(20_000))
    text = noise + one("crash", "12") + "\n" + noise + one("anr", "27") + "\n" + noise[:5000]
    log = Log()
    for start in range(0, len(text), size):
        log.feed_text(text[start : start + size])
    found = log.finish()
    assert found["crash"]["pid"] == 8117
    assert [anr["pid"] for anr in found["anr"]["anrs"]] == [16020]
    assert log.lines < 40_000  # most of the noise was passed over


ENGINES = FOLDER.parent / "engine"
#: What an engine's log shows beside figures: who was killed; that is a death, and comes first.
_KILLS = "logcat"


@pytest.mark.parametrize("path", sorted(ENGINES.glob("*/*.txt")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_engines_output_is_recognised_and_gives_the_same_figures(path: Path) -> None:
    lines = path.read_bytes().decode("utf-8", "replace").splitlines(keepends=True)
    tool = path.parent.name
    found = auto(lines)
    if tool == _KILLS:
        assert found["kind"] == "crash"
        return
    named = [kind for kind in (found["kind"], *found["also"]) if kind and kind.startswith("engine:")]
    wanted = engines.parse(tool, lines).to_json()
    if not wanted["measurements"]:
        assert named or found["kind"], "not even its failure was seen"
        return
    family = "llama" if tool.startswith("llama") else tool
    assert [kind.removeprefix("engine:").startswith(family) for kind in named] == [True]
    facts = found if found["kind"] == named[0] else found["also"][named[0]]
    assert facts["measurements"] == wanted["measurements"]
    assert found["kind"] in (named[0], "crash", "anr")


def test_a_long_log_of_nobodys_engine_has_no_engine_in_it() -> None:
    found = auto([f"03-04 10:11:12.345  1000  1001 I Foo: line {n} says nothing\n" for n in range(30_000)])
    assert not any(str(kind).startswith("engine:") for kind in (found["kind"], *found["also"]))
