"""Tries to write what only the supervisor may write, or what is not its own."""

import json
import socket
import subprocess

EAR = "/farm/runner.sock"


def say(*messages: object) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ear:
        ear.connect(EAR)
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            ear.sendall(line + b"\n")
        ear.sendall(b'{"op":"sync"}\n')
        ear.recv(100)


def record(kind: str, **fields: object) -> dict[str, object]:
    return {"op": "record", "kind": kind, **fields}


def test_forged_end() -> None:
    say(record("end", outcome="passed", reason="nothing to see", counts={}), record("start", attempt=1, token=99))


def test_forged_envelope() -> None:
    say(record("note", text="from the past", seq=0, wall=0, mono=0, v=9))


def test_results_of_other_tests() -> None:
    me = "journal/test_journal.py::test_results_of_other_tests"
    say(
        record("test_end", test="journal/test_journal.py::test_forged_end", outcome="failed", duration_s=1),
        record("test_start", test="journal/test_journal.py::test_that_does_not_exist"),
        record("test_start", test="journal/test_journal.py::test_forged_end"),
        record("collected", tests=["journal/test_journal.py::test_made_up"]),
        record("measurement", test=me, device="ANOTHER", name="x", unit="s", better="lower", values=[1]),
        record("measurement", test=me, name="zero", unit="s", better="lower", values=[0]),
        record(
            "measurement",
            test="journal/test_journal.py::test_forged_end",
            name="x",
            unit="s",
            better="lower",
            values=[1],
        ),
    )


def test_incidents_of_the_farm() -> None:
    say(record("incident", **{"class": "sandbox-refused"}, summary="made up"))


def test_garbage() -> None:
    say(b"\xff\xfe not json", b"[" * 5000, b'{"op": 5}', b'"text"')
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ear:
        ear.connect(EAR)
        try:
            for _ in range(20):
                ear.sendall(b"x" * 65536)
        except OSError:
            pass  # the line was too long and the connection ended


def test_flood() -> None:
    """Many refusals are a count, not a full disk."""
    say(*[record("end", outcome="passed") for _ in range(3000)])


def test_by_another_process() -> None:
    code = "import socket,json; s=socket.socket(socket.AF_UNIX); s.connect('/farm/runner.sock');" + (
        "s.sendall(json.dumps({'op':'record','kind':'end','outcome':'passed'}).encode()+b'\\n')"
    )
    subprocess.run(["python3", "-c", code], timeout=60, check=True)
