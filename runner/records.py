"""pytest's hooks of a suite: what runs and how it ended, into the journal; markers; which tests are left to run."""

from __future__ import annotations

import hashlib
import json
import resource
import time
from collections.abc import Collection, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from farm.adb.errors import (
    AdbError,
    AdbServerGone,
    AmbiguousDevice,
    DeviceOffline,
    DeviceUnavailable,
    IdentityMismatch,
    Unauthorized,
)
from farm.domain.causes import CAUSES, Cause, fits
from farm.domain.journal import clip
from farm.domain.outcomes import Outcome, TestOutcome
from runner import markers
from runner.bench import Bench
from runner.engines.base import EngineFailure
from runner.gate import UNFINISHED_CAUSES
from runner.markers import NotSettled
from runner.measure import NotReported
from runner.storage import cause_of_full_disk
from runner.turns import LONG_S, Need, NoTurn

MAX_ID = 480
#: Errors whose words say it all, without the name of their class.
_SPEAKING = (EngineFailure, AdbError, NotSettled, NoTurn)
#: Causes behind which a lost device may hide.
_DOUBTFUL = (None, Outcome.FAILED, Outcome.KILLED)
#: Whose an error is; the first kind that fits.
_FINE: tuple[tuple[type[BaseException], Cause], ...] = (
    (AdbServerGone, Cause.ADB_SERVER),
    (NotSettled, Cause.NOT_SETTLED),
    (Unauthorized, Cause.UNAUTHORIZED),
    (DeviceOffline, Cause.OFFLINE),
    (AmbiguousDevice, Cause.DUPLICATE_SERIAL),
    (IdentityMismatch, Cause.OTHER_DEVICE),
    (DeviceUnavailable, Cause.GONE),
)
#: Bytes of test ids per `collected` record.
_BATCH = 100_000


class Records:
    """Registered in the one process that runs the tests of a device (a worker, under xdist)."""

    def __init__(self, bench: Bench, pack: Path, tests: Collection[str] | None, finished: Collection[str]) -> None:
        self._bench, self._pack = bench, pack
        self._tests = None if tests is None else set(tests)
        self._finished = set(finished)
        self._ids: dict[str, str] = {}
        self._began = 0.0
        self._waited = 0.0
        self._reports: list[pytest.TestReport] = []
        self._cause: Outcome | None = None
        self._fine: Cause | None = None
        self._said: str | None = None  # by an error whose own words are enough
        self._held = ExitStack()
        self._session: pytest.Session | None = None
        self._boot_id: str | None = None

    # ---- which tests ----

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        self._session = session
        for item in items:
            self._ids[item.nodeid] = test_id(item, self._pack)
            if "measure" in getattr(item, "fixturenames", ()) and item.get_closest_marker("measure") is None:
                item.add_marker("measure")
        wanted = [i for i in items if self._tests is None or self._ids[i.nodeid] in self._tests]
        self._say_collected([self._ids[item.nodeid] for item in wanted])
        left = [item for item in wanted if self._ids[item.nodeid] not in self._finished]
        if len(left) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in left])
            items[:] = left

    def _say_collected(self, ids: list[str]) -> None:
        batch: list[str] = []
        for number, test in enumerate(ids):
            batch.append(test)
            if number == len(ids) - 1 or len(json.dumps(batch)) > _BATCH:
                self._bench.reporter.record("collected", tests=batch)
                batch = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected is a test that failed: it must not pass unseen."""
        if report.failed:
            test = clip(f"{report.nodeid or 'the pack'}::collection", MAX_ID)
            self._bench.reporter.record("collected", tests=[test])
            self._bench.reporter.record("test_start", test=test, device=self._bench.serial)
            text = str(report.longrepr)
            outcome = {"outcome": TestOutcome.ERROR.value, "message": _last_line(text), "detail": clip(text)}
            self._bench.reporter.record("test_end", test=test, device=self._bench.serial, duration_s=0.0, **outcome)

    # ---- one test ----

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        bench = self._bench
        bench.test, bench.measure, bench.peaks = self._ids.get(item.nodeid, item.nodeid), None, {}
        self._began, self._waited, self._reports = time.monotonic(), 0.0, []
        self._cause = self._said = self._fine = None
        bench.reporter.record("test_start", test=bench.test, device=bench.serial)
        self._boot_id = self._boot_id or boot_id(bench)
        try:
            return (yield)
        finally:
            self._held.close()
            self._say_end()
            bench.test = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        markers.check_needs(item, self._bench)
        wanted = markers.settle_of(item)
        if wanted is not None:
            self._waited += markers.wait_settled(wanted, self._bench)
        marker = item.get_closest_marker("measure")
        measures = marker is not None and bool(marker.kwargs.get("slot", True))
        virtual = self._bench.spec.virtual
        waited = self._held.enter_context(self._bench.reporter.turn(measures=measures, virtual=virtual))
        self._waited += waited
        if waited > LONG_S:
            self._bench.note(f"waited {waited:.1f} s {Need.of(virtual=virtual, measures=measures).value}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        except NotReported as missing:
            pytest.skip(str(missing))
        measure = self._bench.measure
        if measure is not None:
            measure.finish()
        markers.check_budgets(item, self._bench, measure.recorded if measure is not None else ())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._reports.append(report)
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            self._cause = self._cause or cause_of(call.excinfo.value)
            self._fine = self._fine or fine_cause_of(call.excinfo.value)
            if self._cause in _DOUBTFUL and isinstance(call.excinfo.value, AdbError | EngineFailure):
                self._cause = why_unreachable(self._bench, self._boot_id) or self._cause
                if self._cause is Outcome.INFRA_ERROR:
                    self._fine = Cause.ADB_SERVER
            if self._cause in _DOUBTFUL and (full := cause_of_full_disk(call.excinfo.value, self._bench.device)):
                self._cause, self._fine = Outcome.INFRA_ERROR, full
                if self._session is not None:  # the next test would find it full too: one error is enough
                    self._session.shouldstop = f"{self._bench.spec.name}: {CAUSES[full].words}"
            if self._said is None and isinstance(call.excinfo.value, _SPEAKING):
                self._said = str(call.excinfo.value)
            if self._said is None and isinstance(call.excinfo.value, MemoryError):
                self._said = out_of_memory(call.excinfo.value)
            if self._cause is Outcome.DEVICE_LOST:
                self._bench.reporter.lost(self._bench.serial, str(call.excinfo.value))
                if self._session is not None:
                    self._session.shouldstop = f"{self._bench.spec.name} is lost"
        return report

    def _say_end(self) -> None:
        outcome, report = outcome_of(self._reports)
        fields: dict[str, object] = {"outcome": outcome.value}
        if report is not None:
            text = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr or "")
            fields["message"] = self._said or _message(report, text)
            captured = "\n".join(f"--- {title}\n{body}" for title, body in report.sections if body.strip())
            if outcome is not TestOutcome.SKIPPED:
                fields["detail"] = clip(f"{text}\n{captured}".strip())
        if self._cause is not None and outcome in (TestOutcome.FAILED, TestOutcome.ERROR):
            fields["cause"] = self._cause.value
            if self._fine is not None and fits(self._cause, self._fine):
                fields["fine_cause"] = self._fine.value
            if self._cause in UNFINISHED_CAUSES:
                fields["outcome"] = TestOutcome.ERROR.value  # it said nothing about the engine
        duration = max(0.0, time.monotonic() - self._began - self._waited)
        bench = self._bench
        bench.reporter.record("test_end", test=bench.test, device=bench.serial, duration_s=round(duration, 4), **fields)


def test_id(item: pytest.Item, pack: Path) -> str:
    """pytest's node id relative to the pack, bounded: a long parameter is cut and told apart by a hash."""
    path = item.path.relative_to(pack).as_posix() if item.path.is_relative_to(pack) else item.path.name
    _, _, rest = item.nodeid.partition("::")
    whole = f"{path}::{rest}"
    if len(whole) <= MAX_ID:
        return whole
    return f"{whole[: MAX_ID - 20]}…{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


def outcome_of(reports: list[pytest.TestReport]) -> tuple[TestOutcome, pytest.TestReport | None]:
    """The one outcome of set-up, call and tear-down, and the report that decided it."""
    for report in reports:
        if report.failed:
            return (TestOutcome.FAILED if report.when == "call" else TestOutcome.ERROR), report
    for report in reports:
        if report.skipped:
            return TestOutcome.SKIPPED, report
    if not any(report.when == "call" for report in reports):
        return TestOutcome.ERROR, None
    return TestOutcome.PASSED, None


def cause_of(error: BaseException | None) -> Outcome | None:
    """The outcome that an exception of a test stands for; None for a plain failure."""
    for _ in range(20):
        if isinstance(error, EngineFailure):
            return error.cause
        if isinstance(error, DeviceUnavailable):
            return Outcome.DEVICE_LOST
        if isinstance(error, AdbServerGone | NotSettled | NoTurn):
            return Outcome.INFRA_ERROR
        if error is None:
            return None
        error = error.__cause__
    return None


def out_of_memory(error: MemoryError) -> str:
    """The error's words, and the limit that it ran into where this process has one."""
    said = f"MemoryError: {error}".removesuffix(": ")
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    if limit == resource.RLIM_INFINITY:
        return said
    return f"{said} (a process of a suite may have {limit >> 30} GB: the sandbox's limit)"


def fine_cause_of(error: BaseException | None) -> Cause | None:
    """Whose an infrastructure error of a test is; None: that is not known."""
    for _ in range(20):
        for kind, cause in _FINE:
            if isinstance(error, kind):
                return cause
        if error is None:
            return None
        error = error.__cause__
    return None


def boot_id(bench: Bench) -> str | None:
    """The device's present boot; None when it does not tell."""
    try:
        return bench.device.boot_id()
    except AdbError:
        return None


def why_unreachable(bench: Bench, boot: str | None) -> Outcome | None:
    """Device or adb server gone, or the device restarted: then that is the cause of an engine's sudden end, or of an
    adb error that could mean anything. None: it is there, and the same as before."""
    try:
        now = bench.device.boot_id()
    except AdbServerGone:
        return Outcome.INFRA_ERROR
    except AdbError:
        return Outcome.DEVICE_LOST
    return Outcome.DEVICE_LOST if boot is not None and now != boot else None


def _message(report: pytest.TestReport, text: str) -> str:
    """One line that says what happened."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(getattr(crash, "message", "") or "").strip()
    if message:
        return clip(message.splitlines()[0], 1000)
    return clip(_last_line(text).removeprefix("Skipped: "), 1000)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"
