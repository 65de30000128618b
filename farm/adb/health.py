"""Is this device fit for work? One shell round trip with a nonce, and what it says about the system.

That adb lists a device says nothing: a frozen phone is listed, and its shell answers while the system server is stuck.
So the shell must return a nonce, and the system server must answer a question (`dumpsys battery`) in time. Asked
`deep`, the package manager and the shared storage must answer too: what a boot finishes last.

What is wrong comes in two kinds. A device that does not answer as it should is `ill`; one that is booting, empty, or
full is well and not ready (`farm.domain.readiness`). When the adb server is away the look says nothing of the device.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field, replace

from farm.adb.device import Device
from farm.adb.errors import AdbError, AdbServerGone
from farm.domain import readiness
from farm.evidence import battery, thermal

#: What the system server may take over one answer.
_SYSTEM_SERVER_S = 5


@dataclass(frozen=True, slots=True)
class HealthReport:
    """None is "not measured" or "there is none"; `problems` says in words what makes `ok` False.

    `notes`: worth knowing, and no reason to refuse work.
    """

    ok: bool
    boot_id: str | None = None
    boot_completed: bool | None = None
    system_server_ok: bool | None = None
    temperature_c: float | None = None
    temperature_source: str | None = None  # "battery" or the zone's type
    battery_pct: int | None = None
    has_battery: bool | None = None
    clock_skew_s: float | None = None  # device minus host
    free_bytes: int | None = None  # of /data/local/tmp
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ill: bool = False  # it does not answer as it should
    server_gone: bool = False  # the adb server was away: nothing is known of the device
    apps_ok: bool | None = None  # its package manager answers; asked for by `deep`
    storage_ok: bool | None = None  # its shared storage is there; asked for by `deep`
    error: AdbError | None = None  # what kept the look from its answer


def check(device: Device, timeout_s: float = 20.0, *, deep: bool = False) -> HealthReport:
    """Look at the device. Never raises for what the device does: that is a problem in the report."""
    nonce = secrets.token_hex(8)
    began = time.time()
    try:
        result = device.shell("sh", timeout_s, script(nonce, deep=deep).encode(), max_output=1 << 20)
    except AdbError as error:
        gone = isinstance(error, AdbServerGone)
        words = f"{error} ({error.remedy})"
        return HealthReport(ok=False, problems=[words], ill=not gone, server_gone=gone, error=error)
    return judge(result.stdout, nonce, host_time=(began + time.time()) / 2)


def script(nonce: str, *, deep: bool = False) -> str:
    """Each answer behind a heading that nothing on the device can guess. Questions to the system server come last."""
    questions = {
        "boot_id": "cat /proc/sys/kernel/random/boot_id",
        "clock": "date +%s.%N",
        "free": "stat -f -c '%a %S' /data/local/tmp",
        "zones": 'for z in /sys/class/thermal/thermal_zone*; do echo "$(cat $z/type) $(cat $z/temp)"; done',
        "boot_completed": "getprop sys.boot_completed",
        "getprop_exit": "getprop ro.build.version.sdk >/dev/null; echo $?",
        "battery": f'dumpsys -t {_SYSTEM_SERVER_S} battery; echo "exit $?"',
    }
    if deep:
        questions["apps"] = f'timeout {_SYSTEM_SERVER_S} pm path android >/dev/null; echo "exit $?"'
        questions["storage"] = 'ls /sdcard/ >/dev/null; echo "exit $?"'
    return "".join(f"echo {nonce} {name}\n{{ {command}; }} 2>/dev/null\n" for name, command in questions.items()) + (
        f"echo {nonce} end\n"
    )


def judge(output: str, nonce: str, host_time: float) -> HealthReport:
    """The report for what `script(nonce)` printed (pure)."""
    answers = _sections(output, nonce)
    if "end" not in answers:
        return HealthReport(ok=False, problems=["its shell did not return what it was asked to"], ill=True)
    android = answers.get("getprop_exit", "").strip() == "0"
    cell = battery.parse(answers.get("battery", ""))
    where = _temperature(cell, answers.get("zones", ""))
    report = HealthReport(
        ok=False,
        boot_id=answers.get("boot_id", "").strip() or None,
        boot_completed=(answers.get("boot_completed", "").strip() == "1") if android else None,
        system_server_ok=_system_server(answers.get("battery", "")) if android else None,
        temperature_c=where[0] if where else None,
        temperature_source=where[1] if where else None,
        battery_pct=cell.level_pct if cell.has_battery else None,
        has_battery=cell.has_battery if android else None,
        clock_skew_s=_skew(answers.get("clock", ""), host_time),
        free_bytes=_product(answers.get("free", "")),
        apps_ok=_succeeded(answers.get("apps", "")) if android else None,
        storage_ok=_succeeded(answers.get("storage", "")) if android else None,
    )
    illness, unready, notes = _illness(report), _unready(report), _notes(report, cell)
    problems = [*illness, *unready]
    return replace(report, ok=not problems, problems=problems, notes=notes, ill=bool(illness))


def _sections(output: str, nonce: str) -> dict[str, str]:
    parts = re.split(rf"^{nonce} (\w+)\n", output, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=False))


def _temperature(cell: battery.Battery, zones: str) -> tuple[float, str] | None:
    """The battery where there is one to believe: it is what the thermal rules of a phone go by. Else the best zone."""
    if cell.believable_temperature_C is not None:
        return cell.believable_temperature_C, "battery"
    return thermal.device_temperature(thermal.zones(zones))


def _system_server(answer: str) -> bool | None:
    """True: it answered; None: there is no dumpsys to ask it with."""
    body, _, code = answer.rpartition("exit ")
    if code.strip() in ("126", "127"):
        return None
    return code.strip() == "0" and "Battery Service state" in body


def _succeeded(answer: str) -> bool | None:
    """True: the command ended with 0; None: it was not asked, or the device does not know it."""
    code = answer.rpartition("exit ")[2].strip()
    return None if code in ("", "126", "127") else code == "0"


def _skew(clock: str, host_time: float) -> float | None:
    try:
        return round(float(clock.strip()) - host_time, 3)
    except ValueError:
        return None


def _product(text: str) -> int | None:
    words = text.split()
    return int(words[0]) * int(words[1]) if len(words) == 2 and all(word.isdigit() for word in words) else None


def _illness(report: HealthReport) -> list[str]:
    """What only a recovery mends."""
    problems = []
    if report.boot_id is None:
        problems.append("its boot id cannot be read")
    if report.boot_completed is False:
        return problems  # what is not up yet cannot answer yet
    if report.system_server_ok is False:
        problems.append(f"its system server does not answer within {_SYSTEM_SERVER_S} s; restart the device")
    if report.apps_ok is False:
        problems.append("its package manager does not answer; restart the device")
    if report.storage_ok is False:
        problems.append("its shared storage cannot be read; restart the device")
    return problems


def _unready(report: HealthReport) -> list[str]:
    """What passes by itself, or with a charger or a broom."""
    problems = []
    if report.boot_completed is False:
        problems.append("it has not finished booting")
    if report.battery_pct is not None and report.battery_pct < readiness.MIN_BATTERY_PCT:
        words = f"its battery is at {report.battery_pct} %, below {readiness.MIN_BATTERY_PCT} %; charge it"
        problems.append(words)
    if report.free_bytes is not None and readiness.is_full(report.free_bytes):
        floor = readiness.MIN_FREE_BYTES
        problems.append(f"only {report.free_bytes} bytes are free in /data/local/tmp, below {floor}")
    return problems


def _notes(report: HealthReport, cell: battery.Battery) -> list[str]:
    notes = readiness.warnings(report.clock_skew_s, None)
    if cell.updates_stopped:
        notes.append("its battery state is forced by a test: run `dumpsys battery reset`")
    return notes
