"""What a lease may not leave changed on a device: read, and compared. Pure but for the script's text.

Looked at: processes of the shell's user, files below /data/local/tmp, the settings and properties that change what is
measured, the packages that are not the system's, and the forwards that lead to the device and back. A phone changes
many more settings by itself all day; those are neither compared nor put back.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farm.evidence import props

TMP = "/data/local/tmp"
#: Settings that decide how fast, bright and awake a device is, or whether it can be reached.
WATCHED_SETTINGS = (
    *("global/airplane_mode_on", "global/low_power*", "global/stay_on_while_plugged_in", "global/*_animation_scale"),
    *("global/adb_enabled", "global/wifi_on", "global/bluetooth_on", "global/always_finish_activities"),
    *("global/cached_apps_freezer", "global/zram_enabled", "global/hidden_api_policy*", "global/verifier_verify_adb*"),
    *(
        "system/screen_brightness*",
        "system/screen_off_timeout",
        "system/accelerometer_rotation",
        "system/user_rotation",
    ),
    *("system/font_scale", "system/peak_refresh_rate", "system/min_refresh_rate", "global/farm_*", "system/farm_*"),
)
#: Properties that the shell may set.
WATCHED_PROPERTIES = ("debug.*", "log.*", "persist.log.tag*")
_SETTING = re.compile(r"([\w.\-:/]+)=(.*)")
_SIZED = re.compile(rf"(\d+) ({re.escape(TMP)}/.*)")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`processes`: pid → command line, of the shell's user. `files`: path → size; a folder's path ends with a slash.

    `settings`: "global/key" → value. Kept between lease and cleaning as `to_json`.
    """

    boot_id: str
    processes: Mapping[int, str]
    files: Mapping[str, int]
    settings: Mapping[str, str]
    packages: tuple[str, ...]
    properties: Mapping[str, str]
    forwards: Mapping[str, str] = field(default_factory=dict)  # "forward tcp:1" → "tcp:2", "reverse tcp:3" → "tcp:4"

    def to_json(self) -> dict[str, object]:
        return {
            "boot_id": self.boot_id,
            "processes": {str(pid): line for pid, line in self.processes.items()},
            "files": dict(self.files),
            "settings": dict(self.settings),
            "packages": list(self.packages),
            "properties": dict(self.properties),
            "forwards": dict(self.forwards),
        }

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Snapshot:
        """The snapshot that `to_json` gave; ValueError when it is none."""
        return Snapshot(
            boot_id=str(data.get("boot_id", "")),
            processes={int(pid): line for pid, line in _mapping(data, "processes").items()},
            files={path: int(size) for path, size in _mapping(data, "files").items()},
            settings=_mapping(data, "settings"),
            packages=tuple(_sequence(data, "packages")),
            properties=_mapping(data, "properties"),
            forwards=_mapping(data, "forwards") if "forwards" in data else {},  # of a farm before it looked at them
        )


def _mapping(data: Mapping[str, object], key: str) -> dict[str, str]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise ValueError(f"a snapshot without {key!r}")
    return {str(k): str(v) for k, v in value.items()}


def _sequence(data: Mapping[str, object], key: str) -> list[str]:
    value = data.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"a snapshot without {key!r}")
    return [str(item) for item in value]


def script(nonce: str) -> str:
    """A script for `sh`; each answer stands behind a heading that nothing on the device can guess."""
    parts = {
        "boot": "cat /proc/sys/kernel/random/boot_id",
        "uid": "id -u",
        "self": "echo $$",
        "ps": "ps -A -o PID,PPID,UID,ARGS",
        "names": f"find {TMP} ! -type d -print0",
        "folders": f"find {TMP} -type d -print0",
        "sizes": f"find {TMP} ! -type d -exec stat -c '%s %n' {{}} +",
        **{table: f"settings list {table}" for table in ("global", "secure", "system")},
        "packages": "pm list packages -3",
        "props": "getprop",
    }
    body = "".join(f"echo; echo {nonce} {name}\n{{ {command}; }} 2>/dev/null\n" for name, command in parts.items())
    return f"{body}echo; echo {nonce} end\n"


def parse(output: bytes, nonce: str, spare: Sequence[int] = ()) -> Snapshot | None:
    """The snapshot that `script(nonce)` printed; None when its end is missing. `spare`: pids not to be counted."""
    parts = re.split(rb"\n%s (\w+)\n" % nonce.encode(), output)
    found = {name.decode(): text for name, text in zip(parts[1::2], parts[2::2], strict=False)}
    if "end" not in found:
        return None
    text = {name: value.decode("utf-8", "surrogateescape") for name, value in found.items()}
    properties = props.parse(text["props"])
    return Snapshot(
        boot_id=text["boot"].strip(),
        processes=_processes(text["ps"], _number(text["uid"]), _number(text["self"]), spare),
        files=_files(text["names"], text["folders"], text["sizes"]),
        settings=_settings(text),
        packages=tuple(
            sorted(line[8:].strip() for line in text["packages"].splitlines() if line.startswith("package:"))
        ),
        properties={key: value for key, value in properties.items() if _watched(key, WATCHED_PROPERTIES)},
    )


@dataclass(frozen=True, slots=True)
class _Row:
    parent: int
    uid: int
    line: str


def _processes(text: str, uid: int, myself: int, spare: Sequence[int]) -> dict[int, str]:
    """Those of the shell's user, without the way that we came in, kernel threads, and children of the zygote."""
    rows: dict[int, _Row] = {}
    for line in text.splitlines():
        words = line.split(None, 3)
        if len(words) >= 3 and all(word.isdigit() for word in words[:3]):
            rows[int(words[0])] = _Row(int(words[1]), int(words[2]), words[3].strip() if len(words) > 3 else "")
    door = set(_ancestors(rows, myself))
    kept = {}
    for pid, row in rows.items():
        if row.uid != uid or pid in door or row.line.startswith("[") or not row.line:
            continue
        above = _ancestors(rows, pid)
        if myself in above or any(pid_ in spare for pid_ in above):
            continue
        if row.parent in rows and rows[row.parent].line.startswith("zygote"):
            continue
        kept[pid] = row.line
    return kept


def _ancestors(rows: Mapping[int, _Row], pid: int) -> list[int]:
    """`pid` and what started it, up to the first process."""
    line: list[int] = []
    while pid in rows and pid not in line:
        line.append(pid)
        pid = rows[pid].parent
    return line


def _files(names: str, folders: str, sizes: str) -> dict[str, int]:
    known = {match[2]: int(match[1]) for line in sizes.splitlines() if (match := _SIZED.match(line))}
    found = {name: known.get(name, -1) for name in names.split("\0") if name.startswith(f"{TMP}/")}
    return found | {f"{name}/": 0 for name in folders.split("\0") if name.startswith(f"{TMP}/")}


def _settings(text: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for table in ("global", "secure", "system"):
        for line in text[table].splitlines():
            match = _SETTING.fullmatch(line)
            if match and _watched(f"{table}/{match[1]}", WATCHED_SETTINGS):
                found[f"{table}/{match[1]}"] = match[2]
    return found


def _watched(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _number(text: str) -> int:
    return int(text) if text.strip().isdigit() else -1


@dataclass(frozen=True, slots=True)
class Changes:
    """What has to be undone, and `lost`: what cannot be."""

    processes: dict[int, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    settings: dict[str, str | None] = field(default_factory=dict)  # key → what it was
    packages: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)  # key → what it was ("" : it was not there)
    forwards: dict[str, str | None] = field(default_factory=dict)  # name → where it led
    lost: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.processes or self.files or self.settings or self.packages or self.properties or self.forwards)

    def words(self) -> list[str]:
        """One line per thing that is still to be undone."""
        return [
            *(f"process {pid} still runs: {line[:100]}" for pid, line in self.processes.items()),
            *(f"{path} is still there" for path in self.files),
            *(f"setting {key} is not {value!r}" for key, value in self.settings.items()),
            *(f"package {name} is still installed" for name in self.packages),
            *(f"property {key} is not {value!r}" for key, value in self.properties.items()),
            *(f"{name} does not lead to {target}" for name, target in self.forwards.items() if target is not None),
            *(f"{name} is still there" for name, target in self.forwards.items() if target is None),
        ]


def compare(before: Snapshot, now: Snapshot, keep: Sequence[str]) -> Changes:
    """What differs. Below the folders of `keep` everything may; after a restart of the device no process is known."""
    rebooted = before.boot_id != now.boot_id
    known = {} if rebooted else dict(before.processes)
    files = [path for path in now.files if path not in before.files and not _kept(path, keep)]
    # What is in a new folder goes with it.
    folders = [path for path in files if path.endswith("/")]
    files = [path for path in files if not any(path != top and path.startswith(top) for top in folders)]
    settings = _differing(before.settings, now.settings)
    properties = {
        key: before.properties.get(key, "")
        for key in sorted(before.properties.keys() | now.properties.keys())
        if before.properties.get(key, "") != now.properties.get(key, "")
        and not (rebooted and key not in now.properties)
    }
    return Changes(
        processes={pid: line for pid, line in now.processes.items() if known.get(pid) != line},
        files=sorted(files),
        settings=settings,
        packages=sorted(set(now.packages) - set(before.packages)),
        properties=properties,
        # A reverse forward lives in the device and ends with a restart: nobody can want it back then.
        forwards={
            name: target
            for name, target in _differing(before.forwards, now.forwards).items()
            if not (rebooted and target is not None and name.startswith("reverse"))
        },
        lost=_lost(before, now, keep),
    )


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str | None]:
    """What each key was that is not so any more; None: it was not there."""
    keys = sorted(before.keys() | now.keys())
    return {key: before.get(key) for key in keys if before.get(key) != now.get(key)}


def _lost(before: Snapshot, now: Snapshot, keep: Sequence[str]) -> list[str]:
    lost = [f"package {name} is gone" for name in before.packages if name not in now.packages]
    for path, size in before.files.items():
        if _kept(path, keep):
            continue
        if path not in now.files:
            lost.append(f"{path} is gone")
        elif now.files[path] != size:
            lost.append(f"{path} had {size} bytes and has {now.files[path]}")
    return lost


def _kept(path: str, keep: Sequence[str]) -> bool:
    """In a kept folder, or a folder on the way to one."""
    bare = path.rstrip("/")
    return any(bare == top or bare.startswith(f"{top}/") or top.startswith(f"{bare}/") for top in keep)
