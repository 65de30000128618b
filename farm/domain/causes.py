"""Why an attempt ended so, where one outcome has several culprits: one closed, numbered list beside the outcomes.

*deploy-failed* alone does not say whose move it is: a full device, a bundle without the file and a host that could not
read its own disk are three different people's. An attempt may carry a `Cause`; `ruling` says what follows from outcome
and cause together. Without a cause the outcome's own row counts (`farm.domain.outcomes.MEANING`).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import StrEnum

from farm.domain.outcomes import MEANING, Blame, HealthEffect, Outcome, Retry


class Cause(StrEnum):
    """Values are stored and stand in APIs: never rename one."""

    STORAGE_FULL = "storage-full"
    TRANSFER_BROKE = "transfer-broke"
    WRONG_CONTENT = "wrong-content"  # what was read back is not what was sent
    MISSING_FILE = "missing-file"
    WRONG_ABI = "wrong-abi"
    GONE = "gone"
    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    OTHER_DEVICE = "other-device"  # another device answers at its address
    DUPLICATE_SERIAL = "duplicate-serial"
    DEVICE_SLOW = "device-slow"  # a command did not end within its limit
    DEVICE_UNFIT = "device-unfit"  # its health check found why
    NOT_SETTLED = "not-settled"  # it did not become what the suite asks for
    TOO_HOT = "too-hot"
    ADB_SERVER = "adb-server"
    HOST_LOST = "host-lost"
    HOST_DISK = "host-disk"  # the host's own storage is full or cannot be read
    FENCED = "fenced"  # the runner stopped itself: its lease was not renewed
    RUNNER_DIED = "runner-died"
    LEASE_LOST = "lease-lost"
    LEASE_END = "lease-end"  # the hard end of the lease
    PREEMPTED = "preempted"  # an operator took the device
    FARM_BUG = "farm-bug"
    NO_MEMORY = "no-memory"  # the precheck: its predicted peak does not fit
    NOT_PERMITTED = "not-permitted"  # the precheck: nothing can be written or started there
    DEVICE_LACKS = "device-lacks"  # the precheck: something that the engine needs is not there


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows from an attempt's end. `max_retries` counts tries after the first, per outcome.

    `words` say what happened and, where that is not the outcome's own meaning, whose it is.
    """

    blame: Blame
    retry: Retry
    max_retries: int
    health: HealthEffect
    words: str


@dataclass(frozen=True, slots=True)
class CauseMeaning:
    """One row: with which outcomes the cause can stand, and what it changes of the outcome's own row."""

    number: int
    outcomes: frozenset[Outcome]
    blame: Blame
    words: str
    action: str  # what a person does about it
    retry: bool = True  # as the outcome says; False: never, the next device would fail the same way
    max_retries: int | None = None  # None: as the outcome says
    health: HealthEffect | None = None  # None: as the outcome says


_DEPLOY = frozenset({Outcome.DEPLOY_FAILED})
_INFRA = frozenset({Outcome.INFRA_ERROR})
_LOST = frozenset({Outcome.DEVICE_LOST})
_NO_DEVICE_FAULT = HealthEffect.NONE
#: An infra-error says nothing by itself: whose it is does.
_FAILED = {Blame.DEVICE: "the device failed", Blame.HOST: "the host failed", Blame.FARM: "the farm failed"}

CAUSES: dict[Cause, CauseMeaning] = {
    Cause.STORAGE_FULL: CauseMeaning(
        0, _DEPLOY | _INFRA, Blame.DEVICE, "its storage is full",
        "free space on its /data, or choose a device with more storage",
    ),
    Cause.TRANSFER_BROKE: CauseMeaning(
        1, _DEPLOY, Blame.DEVICE, "the transfer to it broke", "look at cable and hub; check its storage"
    ),
    Cause.WRONG_CONTENT: CauseMeaning(
        2, _DEPLOY, Blame.DEVICE, "what it stored is not what was sent", "check its storage: it may be worn out"
    ),
    Cause.MISSING_FILE: CauseMeaning(
        3, _DEPLOY | frozenset({Outcome.REFUSED}), Blame.USER, "the bundle lacks a file", "send the bundle again",
        retry=False, health=_NO_DEVICE_FAULT,
    ),
    Cause.WRONG_ABI: CauseMeaning(
        4, _DEPLOY | frozenset({Outcome.REFUSED}), Blame.USER, "the bundle has nothing for its ABI",
        "build the bundle for that ABI, or choose other devices", retry=False, health=_NO_DEVICE_FAULT,
    ),
    Cause.GONE: CauseMeaning(
        5, _LOST, Blame.DEVICE, "adb lists it no more", "check cable, hub and power; it may have restarted"
    ),
    Cause.OFFLINE: CauseMeaning(
        6, _LOST, Blame.DEVICE, "adb gets no answer from it", "restart it, or pull the cable and put it in again"
    ),
    Cause.UNAUTHORIZED: CauseMeaning(
        7, _LOST, Blame.DEVICE, "it does not accept this host's key", "accept the key on its screen (“always allow”)"
    ),
    Cause.OTHER_DEVICE: CauseMeaning(
        8, _LOST, Blame.DEVICE, "another device answers at its address", "check which device is plugged in where"
    ),
    Cause.DUPLICATE_SERIAL: CauseMeaning(
        9, _LOST, Blame.DEVICE, "two devices have its serial number", "unplug one, or give it another serial number"
    ),
    Cause.DEVICE_SLOW: CauseMeaning(
        10, _INFRA | _DEPLOY, Blame.DEVICE, "it did not answer in time", "look for load, heat or a stuck system server"
    ),
    Cause.DEVICE_UNFIT: CauseMeaning(
        11, _INFRA, Blame.DEVICE, "it is not fit for work", "see its health: what the check found is written there"
    ),
    Cause.NOT_SETTLED: CauseMeaning(
        12, _INFRA, Blame.DEVICE, "it did not become what the suite asks for",
        "let it cool, or give the suite more time", health=_NO_DEVICE_FAULT,
    ),
    Cause.TOO_HOT: CauseMeaning(
        13, _INFRA, Blame.DEVICE, "it was too hot for too long", "let it cool; look at its place, cooling and charger",
        health=_NO_DEVICE_FAULT,
    ),
    Cause.ADB_SERVER: CauseMeaning(
        14, _INFRA, Blame.HOST, "the adb server of its host was away", "see the host's adb log",
        health=_NO_DEVICE_FAULT,
    ),
    Cause.HOST_LOST: CauseMeaning(
        15, _INFRA, Blame.HOST, "its host was silent", "see that the host and its agent run", health=_NO_DEVICE_FAULT
    ),
    Cause.HOST_DISK: CauseMeaning(
        16, _INFRA | _DEPLOY, Blame.HOST, "the host's own storage failed", "free space on the host",
        health=_NO_DEVICE_FAULT,
    ),
    Cause.FENCED: CauseMeaning(
        17, _INFRA, Blame.HOST, "its lease was not renewed in time", "see that host and database reach each other",
        health=_NO_DEVICE_FAULT,
    ),
    Cause.RUNNER_DIED: CauseMeaning(
        18, _INFRA, Blame.HOST, "the runner died", "look for memory pressure on the host", health=_NO_DEVICE_FAULT
    ),
    Cause.LEASE_LOST: CauseMeaning(
        19, _INFRA, Blame.FARM, "the attempt lost its lease", "see the lease's end on the device's page",
        health=_NO_DEVICE_FAULT,
    ),
    Cause.LEASE_END: CauseMeaning(
        20, frozenset({Outcome.TIMED_OUT}), Blame.SUITE, "the lease reached its hard end",
        "split the suite, or give it a longer limit",
    ),
    Cause.PREEMPTED: CauseMeaning(
        21, _INFRA, Blame.FARM, "an operator took the device", "nothing: it is tried again, at its old place",
        max_retries=5, health=_NO_DEVICE_FAULT,
    ),
    Cause.FARM_BUG: CauseMeaning(
        22, _INFRA, Blame.FARM, "an error of its own", "report it with the farm's log", health=_NO_DEVICE_FAULT
    ),
    Cause.NO_MEMORY: CauseMeaning(
        23, frozenset({Outcome.REFUSED}), Blame.USER, "its memory is too small for the model",
        "choose a device with more memory, a smaller model or a shorter context", retry=False, health=_NO_DEVICE_FAULT,
    ),
    Cause.NOT_PERMITTED: CauseMeaning(
        24, frozenset({Outcome.REFUSED}), Blame.DEVICE, "nothing can be written or started in its work folder",
        "look at the rights of /data/local/tmp and at its SELinux mode", retry=False, health=_NO_DEVICE_FAULT,
    ),
    Cause.DEVICE_LACKS: CauseMeaning(
        25, frozenset({Outcome.REFUSED}), Blame.USER, "it lacks what the engine needs",
        "see the failed check; choose devices that have it", retry=False, health=_NO_DEVICE_FAULT,
    ),
}  # fmt: skip


def fits(outcome: Outcome, cause: Cause | None) -> bool:
    """Whether the cause can stand with this outcome; none always can."""
    return cause is None or outcome in CAUSES[cause].outcomes


def ruling(outcome: Outcome, cause: Cause | None = None) -> Ruling:
    """Blame, retry and health effect of an end. A cause that does not belong to the outcome changes nothing."""
    row = MEANING[outcome]
    if cause is None or not fits(outcome, cause):
        return Ruling(row.blame, row.retry, row.max_retries, row.health, _words(outcome, row.blame, None))
    fine = CAUSES[cause]
    retry = row.retry if fine.retry else Retry.NO
    most = row.max_retries if fine.max_retries is None else fine.max_retries
    return Ruling(
        fine.blame,
        retry,
        0 if retry is Retry.NO else most,
        row.health if fine.health is None else fine.health,
        _words(outcome, fine.blame, cause),
    )


def _words(outcome: Outcome, blame: Blame, cause: Cause | None) -> str:
    """`the host failed: the runner died`, `the device went away: adb lists it no more`, `the engine crashed`."""
    if cause is Cause.PREEMPTED:
        return CAUSES[cause].words  # nothing failed
    words = _FAILED.get(blame, MEANING[outcome].words) if outcome is Outcome.INFRA_ERROR else MEANING[outcome].words
    return words if cause is None else f"{words}: {CAUSES[cause].words}"


def end_words(outcome: str | None, cause: str | None = None) -> str:
    """What a stored end says, in words; a word of a newer farm is shown as it is."""
    try:
        return ruling(Outcome(outcome or ""), cause_of(cause)).words
    except ValueError:
        return outcome or "it ended without an outcome"


_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})


def disk_cause(error: BaseException) -> Cause | None:
    """HOST_DISK for what the host's own storage refused to one of the farm's programs; else None."""
    return Cause.HOST_DISK if isinstance(error, OSError) and error.errno in _DISK_ERRORS else None


def cause_of(text: str | None) -> Cause | None:
    """A stored word; None for none, and for one of a newer farm."""
    try:
        return Cause(text) if text else None
    except ValueError:
        return None
