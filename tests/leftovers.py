"""What a test session that was killed left running, and its folders: ended and removed when the next session starts.

Every session notes its folders, each with the process that owns it. Its virtual devices, servers and databases have the
name of one of them among their arguments or in their environment (`FARM_LOCKS`, the HOME of an adb server). Whatever
names a folder of a dead owner is nobody's any more; a living owner's is never touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

from tests.waiting import StillWaiting, eventually

NOTES = Path(tempfile.gettempdir()) / f"farm-tests-{os.getuid()}"
#: An orderly end takes a virtual device or a database so long.
END_S = 10.0


def folder(prefix: str) -> Path:
    """A new folder of this session in the system's own temporary one: its name is short, sockets lie in it."""
    made = Path(tempfile.mkdtemp(prefix=prefix))
    own(made)
    return made


def own(path: Path, *, keep: bool = False) -> None:
    """Note a folder as this process's. `keep`: a sweep ends who uses it and leaves what lies there."""
    NOTES.mkdir(mode=0o700, exist_ok=True)
    note = {"pid": os.getpid(), "start_time": _start_time(os.getpid()), "folder": str(path.resolve()), "keep": keep}
    (NOTES / f"{os.getpid()}-{path.name}.json").write_text(json.dumps(note))


def forget() -> None:
    """This process ends in order: what it noted is gone, or somebody else's to look at."""
    for note in NOTES.glob(f"{os.getpid()}-*.json"):
        note.unlink(missing_ok=True)


def sweep() -> list[str]:
    """End what belongs to dead owners; the command lines that were ended."""
    dead: dict[Path, bool] = {}
    notes = []
    for path in NOTES.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            note = json.loads(path.read_text())
            if _start_time(int(note["pid"])) != note["start_time"]:
                dead[Path(note["folder"])] = bool(note["keep"])
                notes.append(path)
    ended = _end(_users(list(dead))) if dead else []
    for place, keep in dead.items():
        if not keep:
            shutil.rmtree(place, ignore_errors=True)
    for path in notes:
        path.unlink(missing_ok=True)
    return ended


def _users(folders: list[Path]) -> dict[int, str]:
    """pid → command line of every process that names one of the folders, this one and those above it left out."""
    names = [os.fsencode(path) for path in folders]
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) in _ancestors():
            continue
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes()
            words = (line + b"\0" + (process / "environ").read_bytes()).replace(b"=", b"\0").split(b"\0")
            if any(word == name or word.startswith(name + b"/") for word in words for name in names):
                found[int(process.name)] = line.replace(b"\0", b" ").decode(errors="replace")[:120]
    return found


def _end(users: dict[int, str]) -> list[str]:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in users:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        with contextlib.suppress(StillWaiting):
            eventually(lambda: not any(map(_start_time, users)), END_S, what="what a killed session left to end")
            break
    return list(users.values())


def _ancestors() -> set[int]:
    found, pid = set[int](), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        with contextlib.suppress(OSError):
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def _start_time(pid: int) -> str | None:
    """None for a process that has ended, a zombie too."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
