"""What can go wrong, how it is done, and whose an attempt that it spoils may be called.

A fault is struck while attempts are held in their steps; then the gates open, and after `hold_s` it is mended. `spoils`
is the expected blame, as causes of `farm.domain.causes`: an attempt that did not pass must name one of them, and a
fault with none must spoil no attempt at all.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from farm.domain.causes import CAUSES, Cause
from farm.domain.outcomes import Blame, Outcome, Phase
from farm.work.supervisor import Supervisor, is_process
from tests.chaos.farm import ChaosLab
from tests.waiting import eventually


@dataclass(slots=True)
class Case:
    """One attempt that a fault meets in one step. `where`: at the step's beginning or end; execute: after how many
    tests."""

    step: Phase
    serial: str
    where: str
    run: int = 0


Act = Callable[[ChaosLab, Sequence[Case], Random], None]


def _nothing(_lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    return


@dataclass(frozen=True, slots=True)
class Fault:
    """`lab`: what kind of lab it needs, plain or hard; `ends`: outcomes of a run that are right."""

    name: str
    words: str
    strike: Act
    mend: Act = _nothing
    hold_s: tuple[float, float] = (2.0, 5.0)
    spoils: frozenset[Cause] = frozenset()
    ends: frozenset[Outcome] = frozenset({Outcome.PASSED})
    lab: str = "plain"
    bystander: bool = True  # the run on the other host must not notice
    per_device: bool = False  # hits a device, not a host or the farm: several may be struck at once


LOST = frozenset({Cause.GONE, Cause.OFFLINE, Cause.UNAUTHORIZED, Cause.OTHER_DEVICE})
SICK = LOST | {Cause.DEVICE_SLOW, Cause.DEVICE_UNFIT, Cause.TRANSFER_BROKE}
SILENT = frozenset({Cause.HOST_LOST, Cause.FENCED})


# ---- processes of the farm ----


def _kill(name: str, lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.kill(name)


def _start(name: str, lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.start(name)


def _kill_server(planning: bool, lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    planner = lab.planner()
    lab.kill(planner if planning else next(s for s in lab.servers if s != planner))


def _start_servers(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    for name in lab.servers:
        if name not in lab.processes:
            lab.start(name)


def _stop_process(name: str, lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.pause(name)


def _go_on(name: str, lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.resume(name)


def _stop_planner(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.pause(lab.planner())


def _resume_servers(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    for name in lab.servers:
        lab.resume(name)


def _third_server(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    """Two servers that both want to plan: the planner is frozen, another takes over, and the first one wakes."""
    planner = lab.planner()
    lab.pause(planner)
    lab.start("s3")
    lab.servers.append("s3") if "s3" not in lab.servers else None
    lab.resume(planner)


def _end_third(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.kill("s3")
    lab.servers.remove("s3")


def _kill_adb(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.kill_adb("h1")


def _restart_postgres(lab: ChaosLab, _cases: Sequence[Case], rng: Random) -> None:
    if rng.random() < 0.5:
        lab.postgres.stop()
    else:
        lab.postgres.kill()


def _start_postgres(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.postgres.start()


def _kill_runners(lab: ChaosLab, cases: Sequence[Case], _rng: Random) -> None:
    """kill -9 of the runner, where there is one; the agent is well."""
    for case in cases:
        runner = Supervisor(lab.attempt_folder(case.run)).identity()
        if runner is not None and is_process(runner):
            os.kill(runner.pid, signal.SIGKILL)


# ---- the host ----


def _cut(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.cut("h1")


def _mend_link(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.mend("h1")


def _jump(lab: ChaosLab, _cases: Sequence[Case], rng: Random) -> None:
    lab.shift_clock(rng.choice((-7200, -90, 90, 7200, 86400)))


def _jump_back(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.shift_clock(0)


def _fill_host(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.fill_disk()


def _free_host(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.free_disk()


#: What the end of a journal may look like after a crash of the machine: torn, zeroed, of another file, too large.
GARBAGE = (
    b'{"v":1,"seq":12,"wall":17',
    b"\0" * 700,
    b"\xff\xfe\x00rubbish\n{}\n[]\n",
    b'{"v":1,"seq":1e999,"wall":1,"mono":1,"kind":"note"}\n',
    b'{"v":1,"seq":99999999999999999999999,"wall":1,"mono":1,"kind":"note"}\n',
    b"x" * 600_000,
)


def _corrupt_journals(lab: ChaosLab, cases: Sequence[Case], rng: Random) -> None:
    """The host went down hard: agent and runner are gone, and the journal's end is not what was written."""
    lab.kill("h1")
    _kill_runners(lab, cases, rng)
    for case in cases:
        folder = lab.attempt_folder(case.run)
        if folder.exists():
            with (folder / "journal.jsonl").open("ab") as file:
                file.write(rng.choice(GARBAGE))


def _break_upload(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    """Half a file has been sent when the server that takes it dies, and another client hangs up."""
    server = next(s for s in lab.servers if s != lab.planner())
    senders = [lab.send_half(server), lab.send_half(lab.planner())]
    eventually(lambda: len(lab.half_files()) >= 2, what="both uploads are under way")
    lab.kill(server)
    for sender in senders:
        sender.shutdown(socket.SHUT_RDWR)
        sender.close()


def _after_upload(lab: ChaosLab, cases: Sequence[Case], rng: Random) -> None:
    _start_servers(lab, cases, rng)
    assert not lab.artifacts.has(lab.half_hash)  # a name never stands for half a file


# ---- devices ----


def _device(kind: str, lab: ChaosLab, cases: Sequence[Case], _rng: Random, **arguments: Any) -> None:
    for case in cases:
        lab.fault(case.serial, kind, **arguments)


def _on(kind: str, **arguments: Any) -> Act:
    return partial(_device, kind, **arguments)


def _freeze(lab: ChaosLab, cases: Sequence[Case], _rng: Random) -> None:
    for case in cases:
        lab.freeze(case.serial)


def _thaw(lab: ChaosLab, cases: Sequence[Case], _rng: Random) -> None:
    for case in cases:
        lab.thaw(case.serial)


def _twins(lab: ChaosLab, cases: Sequence[Case], _rng: Random) -> None:
    for case in cases:
        lab.add_twin(case.serial)


def _no_twins(lab: ChaosLab, _cases: Sequence[Case], _rng: Random) -> None:
    lab.remove_twins()


LONG = (13.0, 16.0)  # longer than a step waits
FAULTS = (
    Fault("agent-killed", "kill -9 of the agent", partial(_kill, "h1"), partial(_start, "h1")),
    Fault("agent-stopped", "SIGSTOP of the agent", partial(_stop_process, "h1"), partial(_go_on, "h1"), (4.0, 12.0)),
    Fault(
        "agent-stopped-long", "SIGSTOP of the agent, longer than a lease", partial(_stop_process, "h1"),
        partial(_go_on, "h1"), (45.0, 50.0), spoils=SILENT,
    ),
    Fault("server-killed", "kill -9 of a server", partial(_kill_server, False), _start_servers),
    Fault("scheduler-killed", "kill -9 of the server that plans", partial(_kill_server, True), _start_servers),
    Fault("server-stopped", "SIGSTOP of the server that plans", _stop_planner, _resume_servers, (5.0, 20.0)),
    Fault("two-servers", "a server wakes while another has taken over", _third_server, _end_third),
    Fault(
        "adb-killed", "kill -9 of the host's adb server", _kill_adb, spoils=frozenset({Cause.ADB_SERVER}),
    ),
    Fault("postgres-restarted", "PostgreSQL stops, or is killed, and starts", _restart_postgres, _start_postgres),
    Fault("runner-killed", "kill -9 of the runner", _kill_runners, spoils=frozenset({Cause.RUNNER_DIED})),
    Fault("host-cut", "the host's link is down for a moment", _cut, _mend_link, (6.0, 14.0), lab="hard"),
    Fault(
        "host-cut-long", "the host's link is down for longer than a lease", _cut, _mend_link, (45.0, 50.0),
        spoils=SILENT, lab="hard",
    ),
    Fault("clock-jump", "the wall clock jumps by up to a day", _jump, _jump_back, (4.0, 9.0), lab="hard"),
    Fault(
        "host-disk-full", "no byte is left on the host", _fill_host, _free_host, (6.0, 12.0),
        ends=frozenset({Outcome.PASSED, Outcome.INFRA_ERROR}),  # a run that may go nowhere else has two tries
        spoils=frozenset({Cause.HOST_DISK, Cause.RUNNER_DIED, Cause.FENCED}), lab="hard",
    ),
    Fault("journal-corrupt", "a crash of the host spoils the journal's end", _corrupt_journals, partial(_start, "h1")),
    Fault("upload-broken", "half of an upload, then the server dies", _break_upload, _after_upload),
    Fault("unplugged", "cable out", _on("unplug"), _on("replug"), LONG, spoils=LOST, per_device=True),
    Fault("rebooted", "sudden restart of the device", _on("reboot"), spoils=LOST, per_device=True),
    Fault("offline", "adb gets no answer", _on("offline", for_s=14), _nothing, LONG, spoils=LOST, per_device=True),
    Fault(
        "unauthorized", "the device takes no key", _on("unauthorized", state="on"), _on("unauthorized", state="off"),
        LONG, spoils=LOST, per_device=True,
    ),
    Fault(
        "disk-full", "no byte is left on the device", _on("disk-full", state="on"), _on("disk-full", state="off"),
        LONG, spoils=frozenset({Cause.STORAGE_FULL, Cause.TRANSFER_BROKE}), per_device=True,
    ),
    Fault(
        "battery-low", "the battery is at 9 %", _on("battery", level=9), _on("battery", level=95), LONG,
        spoils=frozenset({Cause.DEVICE_UNFIT}), per_device=True,
    ),
    Fault(
        "hot", "the device is at 75 °C", _on("heat", to_c=75), _on("heat", watts=0), (4.0, 9.0),
        spoils=frozenset({Cause.NOT_SETTLED, Cause.TOO_HOT}), per_device=True,
    ),
    Fault(
        "hung", "adb is answered, no command starts", _on("hang", state="on"), _on("hang", state="off"), (22.0, 26.0),
        spoils=SICK, per_device=True,
    ),
    Fault("device-stopped", "SIGSTOP of the device", _freeze, _thaw, (22.0, 26.0), spoils=SICK, per_device=True),
    Fault(
        "duplicate-serial", "another device with its serial number is plugged in", _twins, _no_twins, LONG,
        spoils=LOST | {Cause.DUPLICATE_SERIAL}, per_device=True,
    ),
)  # fmt: skip
BY_NAME = {fault.name: fault for fault in FAULTS}


def blames(fault: Fault) -> frozenset[Blame]:
    """Who may be blamed for what this fault spoils."""
    return frozenset(CAUSES[cause].blame for cause in fault.spoils)
