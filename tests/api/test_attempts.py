"""Logs are read piece by piece while they grow and after they moved; artifacts are attachments, never pages."""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import pytest
import zstandard

from farm.store import series
from farm.store import tables as t
from tests.api.rows import an_attempt
from tests.served import Served


def folder(served: Served, attempt: int) -> Path:
    path = served.settings.state / "attempts" / str(attempt)
    path.mkdir(parents=True)
    return path


def collect(served: Served, attempt: int, name: str, data: bytes) -> int:
    """Put a file into the store as the work does when it collects."""
    sha256, size = served.farm.app.state.farm.artifacts.put(io.BytesIO(data))
    now = served.farm.db.now()
    with served.farm.db.session() as session:
        row = t.Artifact(attempt_id=attempt, name=name, media_type="text/html", bytes=size, sha256=sha256, at=now)
        session.add(row)
        session.flush()
        return row.id


def log(served: Served, attempt: int, **query: object) -> httpx.Response:
    answer = served.ask("GET", f"/api/attempts/{attempt}/log", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def test_series_come_downsampled_with_what_the_device_does_not_show(served: Served) -> None:
    _, attempt = an_attempt(served)
    with served.farm.db.session() as session:
        device = session.get_one(t.Attempt, attempt).device_id
        times = [1_900_000_000.0 + n for n in range(100)]
        row = series.row(attempt, 9001, device, "cpu_busy", "%", times, [float(n) for n in range(100)])
        session.add(t.SeriesChunk(**row))
        session.add(t.SeriesAbsence(attempt_id=attempt, name="gpu_busy", reason="no such file on this device"))
    answer = served.ask("GET", f"/api/attempts/{attempt}/series", params={"name": "cpu_busy", "buckets": 4}).json()
    [found] = answer["series"]
    assert (found["name"], found["unit"]) == ("cpu_busy", "%")
    assert [(b["low"], b["mean"], b["high"], b["count"]) for b in found["buckets"]] == [
        (0.0, 12.0, 24.0, 25),
        (25.0, 37.0, 49.0, 25),
        (50.0, 62.0, 74.0, 25),
        (75.0, 87.0, 99.0, 25),
    ]
    assert answer["absent"] == {"gpu_busy": "no such file on this device"}
    part = served.ask("GET", f"/api/attempts/{attempt}/series", params={"since": "2030-03-17T17:46:50Z"}).json()
    assert sum(b["count"] for b in part["series"][0]["buckets"]) == 90
    assert served.ask("GET", "/api/attempts/999999/series").status_code == 404
    assert served.ask("GET", f"/api/attempts/{attempt}/series", params={"buckets": 0}).status_code == 422


def test_a_live_log_is_read_on_from_where_the_last_piece_ended(served: Served) -> None:
    _, attempt = an_attempt(served)
    file = folder(served, attempt) / "runner.log"
    file.write_bytes(b"one\n")
    first = log(served, attempt)
    assert (first.text, first.headers["x-log-next"], first.headers["x-log-live"]) == ("one\n", "4", "true")
    with file.open("ab") as more:
        more.write(b"two\n")
    assert log(served, attempt, offset=4).text == "two\n"
    assert log(served, attempt, offset=8).text == ""
    assert log(served, attempt, offset=4000).text == ""
    assert log(served, attempt, limit=3).text == "one"


def test_the_end_of_a_log_can_be_asked_for(served: Served) -> None:
    _, attempt = an_attempt(served)
    (folder(served, attempt) / "runner.log").write_bytes(b"x" * 600_000 + b"the end")
    tail = log(served, attempt, offset=-7)
    assert (tail.text, tail.headers["x-log-offset"]) == ("the end", "600000")
    assert log(served, attempt, offset=-7, limit=3).text == "the"


def test_a_compressed_log_is_read_while_its_last_frame_is_open(served: Served) -> None:
    _, attempt = an_attempt(served)
    compressor = zstandard.ZstdCompressor().compressobj()
    done = zstandard.compress(b"first frame\n")
    open_frame = compressor.compress(b"second frame\n") + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    (folder(served, attempt) / "logcat.zst").write_bytes(done + open_frame)
    piece = log(served, attempt, which="logcat")
    assert piece.text == "first frame\nsecond frame\n"
    assert log(served, attempt, which="logcat", offset=6, limit=5).text == "frame"
    assert log(served, attempt, which="logcat", offset=-6).text == "frame\n"


def test_a_broken_compressed_log_is_no_fault(served: Served) -> None:
    _, attempt = an_attempt(served)
    (folder(served, attempt) / "logcat.zst").write_bytes(zstandard.compress(b"good") + b"\0\1\2 garbage")
    assert log(served, attempt, which="logcat").text.startswith("good")


def test_a_log_goes_on_at_the_same_offset_when_it_has_moved_to_the_store(served: Served) -> None:
    _, attempt = an_attempt(served, ended=True)
    collect(served, attempt, "runner.log", b"one\ntwo\n")
    piece = log(served, attempt, offset=4)
    assert (piece.text, piece.headers["x-log-live"]) == ("two\n", "false")


def test_a_log_that_is_not_there_yet_is_empty_and_live(served: Served) -> None:
    _, attempt = an_attempt(served)
    piece = log(served, attempt)
    assert (piece.text, piece.headers["x-log-live"]) == ("", "true")


def test_a_log_that_never_was_is_not_waited_for(served: Served) -> None:
    _, attempt = an_attempt(served, ended=True)
    assert log(served, attempt, which="logcat").headers["x-log-live"] == "false"


def test_hostile_bytes_stay_text(served: Served) -> None:
    _, attempt = an_attempt(served)
    (folder(served, attempt) / "runner.log").write_bytes(b"<script>\xff\x1b[2J")
    piece = log(served, attempt)
    assert piece.headers["content-type"] == "text/plain; charset=utf-8"
    assert piece.headers["x-content-type-options"] == "nosniff"


def test_an_artifact_is_an_attachment_whatever_it_says_it_is(served: Served) -> None:
    _, attempt = an_attempt(served, ended=True)
    ident = collect(served, attempt, 'a/ev"il\r\nname.html', b"<script>alert(1)</script>")
    answer = served.ask("GET", f"/api/artifacts/{ident}")
    assert answer.content == b"<script>alert(1)</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith('attachment; filename="ev_il__name.html"')
    assert answer.headers["content-security-policy"].startswith("sandbox")
    listed = served.ask("GET", f"/api/attempts/{attempt}/artifacts").json()["artifacts"]
    assert [entry["id"] for entry in listed] == [ident]


def test_an_artifact_whose_bytes_are_gone_says_so(served: Served) -> None:
    _, attempt = an_attempt(served, ended=True)
    ident = collect(served, attempt, "gone.txt", b"soon gone")
    served.farm.app.state.farm.artifacts.local_path(
        served.ask("GET", f"/api/attempts/{attempt}/artifacts").json()["artifacts"][0]["sha256"]
    ).unlink()
    assert served.ask("GET", f"/api/artifacts/{ident}").json()["error"]["code"] == "gone"


@pytest.mark.parametrize("ended", [False, True])
def test_a_run_and_its_attempt_are_shown(served: Served, ended: bool) -> None:
    run, attempt = an_attempt(served, ended=ended)
    shown = served.ask("GET", f"/api/runs/{run}").json()
    assert shown["run"]["state"] == ("ended" if ended else "running")
    assert shown["jobs"][0]["attempts"][0]["id"] == attempt
    assert served.ask("GET", f"/api/runs/{run}/measurements").json() == {"measurements": []}
    assert served.ask("GET", f"/api/attempts/{attempt}").json()["run"]["id"] == run
