"""An app as an engine: an APK whose instrumentation does the work, in an app's process with an app's rights.

    adapter: app
    entry: app.apk                                       # a name in files: what is installed
    app:
      package: com.example.bench                         # the process that is watched
      instrumentation: com.example.bench.test/.Runner    # what `am instrument` is given
      apks: [test.apk]                                   # further names in files to install
      permissions: [android.permission.WAKE_LOCK]        # granted after the installation
      arguments: {prompt: "{prompt}", tokens: "{n_predict}"}    # -e KEY VALUE; placeholders as of the adapter generic
      models_to: /sdcard/Android/data/com.example.bench/files   # models are copied there; left out: read where they lie
      results: /sdcard/Android/data/com.example.bench/files/results.jsonl
      metrics: […]                                       # as of the adapter generic, looked for in `KEY=VALUE` lines

The app reports through its status lines: a value of the key `event` is one line of the event stream
(engine/EVENTS.md), every other one is looked through for the bundle's metrics; so is the results file, when it is over.
Meanwhile the system's log is followed: an app that does not respond is ended once its trace is there, one that crashed
is accounted for.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from farm.adb.device import Process
from farm.adb.errors import AdbError, DeviceUnavailable, ShellTimeout
from farm.evidence.collect.instrumentation import InstrumentationStream
from farm.evidence.engines.events import EventStream
from farm.evidence.engines.generic import Generic, MetricError
from runner.engines.app_evidence import not_responding
from runner.engines.base import (
    BundleOnDevice,
    EngineCrashed,
    EngineExit,
    EngineFailure,
    EngineHung,
    EngineKilled,
    EngineRequest,
    EngineResult,
)
from runner.engines.events import figure, result_of
from runner.engines.generic import fill, placeholders
from runner.engines.process import SIGN_EVERY_S, Ended, Runner, join, section, stacks_of

INSTALL_S, SHORT_S = 300.0, 30.0
#: How often the loop looks at the system's log while the app says nothing.
LOOK_S = 0.25
MAX_RESULTS = 8 << 20
_WAKE = "input keyevent KEYCODE_WAKEUP; wm dismiss-keyguard; exit 0"


class AppAdapter:
    """Installs once, instruments per run, uninstalls at the end."""

    name = "app"

    def __init__(self, runner: Runner, bundle: BundleOnDevice) -> None:
        self._runner, self._bundle = runner, bundle
        self._app = bundle.app or {}
        self._package = str(self._app.get("package") or "")
        self._installed = False

    def describe(self, silence_s: float) -> Mapping[str, Any]:
        """An app is known by its bundle; what it says of itself comes with its events."""
        return {"engine": self._bundle.name, "version": self._bundle.version, "package": self._package}

    def close(self) -> None:
        """Uninstall; silent where the device is away: cleaning looks for packages that were not there before."""
        if self._installed:
            self._installed = False
            for package in dict.fromkeys((self._package, str(self._app["instrumentation"]).partition("/")[0])):
                try:
                    self._shell(["pm", "uninstall", package])
                except AdbError:
                    return

    def run(
        self, request: EngineRequest, silence_s: float, on_iteration: Callable[[int], None] = lambda _: None
    ) -> EngineResult:
        self._install()
        self._shell(_WAKE)  # an app in the dark is throttled, and its window gets no input
        results = self._app.get("results")
        if results:
            self._shell(["rm", "-f", str(results)])
        try:
            generic = Generic.of(self._app)
        except MetricError as error:
            raise EngineExit(f"the bundle's app part: {error}") from error
        return _Run(self._runner, self._app, generic, on_iteration).result(self._arguments(request), request, silence_s)

    def _arguments(self, request: EngineRequest) -> list[str]:
        values = placeholders(self._bundle, request)
        if "model" in values and self._app.get("models_to"):
            values["model"] = self._copied(values["model"])
        words: list[str] = []
        for key, value in (self._app.get("arguments") or {}).items():
            filled = fill([str(value)], values)
            words += ["-e", str(key), filled[0]] if filled else []
        extra = [str(word) for word in request.extra]
        return ["-w", "-r", *words, *extra, str(self._app["instrumentation"])]

    def _copied(self, model: str) -> str:
        """A model where the app may read it: an app does not see what the shell's user keeps in /data/local/tmp."""
        folder = str(self._app["models_to"])
        self._checked(["mkdir", "-p", folder], "its folder for models cannot be made")
        self._checked(["cp", "-u", model, folder], "the model cannot be copied to where the app reads it", INSTALL_S)
        return f"{folder}/{model.rpartition('/')[2]}"

    def _install(self) -> None:
        if self._installed:
            return
        names = (self._bundle.entry, *(self._app.get("apks") or ()))
        for name in names:
            apk = str(self._bundle.files[name])
            self._checked(["pm", "install", "-r", "-t", "-g", apk], f"{name} cannot be installed", INSTALL_S)
        self._installed = True
        for permission in self._app.get("permissions") or ():
            self._checked(["pm", "grant", self._package, permission], f"{permission} cannot be granted")

    def _checked(self, command: list[str], what: str, timeout_s: float = SHORT_S) -> None:
        done = self._runner.device.shell(command, timeout_s)
        said = f"{done.stdout}\n{done.stderr}".strip()
        if done.exit_code != 0 or "Failure [" in said:
            last = (said.splitlines() or ["no reason given"])[-1]
            raise EngineExit(f"{what}: {last[:300]}", evidence=f"$ {' '.join(command)}\n{said[:4000]}")

    def _shell(self, command: str | list[str]) -> None:
        self._runner.device.shell(command, SHORT_S)


class _Run:
    """One `am instrument`."""

    def __init__(
        self, runner: Runner, app: Mapping[str, Any], generic: Generic, on_iteration: Callable[[int], None]
    ) -> None:
        self._runner, self._device, self._app, self._generic = runner, runner.device, app, generic
        self._package = str(app["package"])
        self._on_iteration = on_iteration
        self._said = InstrumentationStream()
        self._events = EventStream()
        self._began = math.inf
        self._pid: int | None = None

    def result(self, arguments: list[str], request: EngineRequest, silence_s: float) -> EngineResult:
        ended = Ended(f"am instrument {' '.join(arguments)}"[:2000], None, 0, 0.0)
        began = time.monotonic()
        with _SystemLog(self._runner, self._package) as log:
            process = self._device.spawn(["am", "instrument", *arguments])
            try:
                self._follow(process, ended, log, began, silence_s, request.timeout_s)
            finally:
                process.kill()
                self._runner.reporter.engine(self._runner.serial, self._pid, False)
                self._force_stop()
            ended.seconds, ended.pid = time.monotonic() - began, self._pid
            self._check(ended, log)
        self._results()
        return self._joined(ended)

    # ---- while it runs

    def _follow(
        self, process: Process, ended: Ended, log: _SystemLog, began: float, silence_s: float, timeout_s: float
    ) -> None:
        heard = told = began
        while True:
            try:
                line = process.read_line(LOOK_S)
            except ShellTimeout:
                pass
            else:
                if line is None:
                    ended.exit_code = -1 if process.exit_code is None else process.exit_code
                    return
                heard = time.monotonic()
                (ended.stdout if line.stream == "stdout" else ended.stderr).add(line.text)
                self._take(line.text)
            now = time.monotonic()
            if now - told >= SIGN_EVERY_S:
                told = now
                self._find_process()
            if log.anr is not None:
                raise not_responding(self._device, self._package, self._pid, log, self._events.stage)
            if now - heard > silence_s or now - began > timeout_s:
                raise self._hung(ended, now - began > timeout_s, silence_s, timeout_s)

    def _take(self, line: str) -> None:
        status = self._said.feed(line)
        for key, value in (status.values if status else {}).items():
            if key == "event":
                self._event(value)
            else:
                self._generic.feed(f"{key}={value}")

    def _event(self, text: str) -> None:
        event = self._events.feed(text)
        if event is None:
            return
        self._began = min(self._began, time.monotonic() - event.t_us / 1e6)
        if event.kind == "result":
            self._on_iteration(len(self._events.results) - 1)
        elif event.kind == "stage_begin" and self._events.stage == "prefill":
            self._on_iteration(-1)

    def _find_process(self) -> None:
        """The app's own process, for its memory and its stacks: `am` is another one."""
        if self._pid is None:
            words = self._device.shell(["pidof", self._package], SHORT_S).stdout.split()
            self._pid = int(words[0]) if words and words[0].isdigit() else None
        self._runner.reporter.engine(self._runner.serial, self._pid, True)

    def _hung(self, ended: Ended, over: bool, silence_s: float, timeout_s: float) -> EngineFailure:
        stage = self._events.stage
        where = f" in stage {stage}" if stage else ""
        what = f"not done after {timeout_s:g} s" if over else f"silent for {silence_s:g} s"
        parts = (f"$ {ended.command}", stacks_of(self._device, self._pid), section("last output", ended.stdout))
        return EngineHung(f"the app was {what}{where}", evidence=join(parts), details={"stage": stage})

    # ---- afterwards

    def _force_stop(self) -> None:
        try:
            self._device.shell(["am", "force-stop", self._package], SHORT_S)
        except AdbError:
            pass  # it is away: whoever comes next cleans

    def _check(self, ended: Ended, log: _SystemLog) -> None:
        """Raise for an app that did not come to its end, or came to a bad one."""
        out = join((f"$ {ended.command}", section("output", ended.stdout), section("stderr", ended.stderr)))
        if ended.exit_code < 0:
            raise DeviceUnavailable(f"{self._runner.serial}: the app's connection ended without an exit code")
        if self._said.crash is not None or (self._said.code is None and self._said.error is None):
            raise self._died(out, log)
        if self._said.error is not None:
            raise EngineExit(f"the instrumentation was not started: {self._said.error}", evidence=out)
        if self._said.failures:
            name, stack = self._said.failures[0]
            more = f" and {len(self._said.failures) - 1} more" if len(self._said.failures) > 1 else ""
            raise EngineExit(f"the app's own test failed: {name}{more}", evidence=join((stack, out)))
        if self._events.errors:
            error = self._events.errors[0]
            where = f" in stage {error.stage}" if error.stage else ""
            raise EngineExit(f"the engine ended with an error{where}: {error.message or error.name}", evidence=out)

    def _died(self, out: str, log: _SystemLog) -> EngineFailure:
        where = f" in stage {self._events.stage}" if self._events.stage else ""
        pid = self._pid or log.pid
        kills = self._runner.kill_lines(pid) if pid is not None else []
        if kills:
            text = f"the app was killed by the system{where}: {kills[-1].strip()[:300]}"
            return EngineKilled(text, evidence=join((*kills, out)))
        account = self._runner.account(pid)
        parts = ("\n".join(log.lines), f"--- the device's own account\n{account}" if account else "", out)
        return EngineCrashed(
            f"the app crashed{where}: {log.crash or self._said.crash or 'no reason told'}", evidence=join(parts)
        )

    def _results(self) -> None:
        """What it left in its file, line by line, by the same two readers as its status lines."""
        path = self._app.get("results")
        if not path:
            return
        read = self._device.shell(["cat", str(path)], SHORT_S, max_output=MAX_RESULTS)
        for line in read.stdout.splitlines():
            self._event(line)
            self._generic.feed(line)

    def _joined(self, ended: Ended) -> EngineResult:
        """Events and metrics as one result."""
        result = result_of(ended, self._events, self._began)
        if not self._generic.metrics:
            return result
        report = self._generic.report()
        return replace(
            result,
            figures=(*result.figures, *(figure(reading) for reading in report.readings)),
            texts=(*result.texts, *self._generic.texts),
            notes=(*result.notes, *report.notes),
        )


class _SystemLog:
    """Follows what the system says of one package meanwhile: that it does not respond, that it crashed."""

    def __init__(self, runner: Runner, package: str) -> None:
        self._device, self._package = runner.device, package
        self.lines: deque[str] = deque(maxlen=200)
        self.anr: str | None = None
        self.crash: str | None = None
        self.pid: int | None = None
        self._process: Process | None = None
        self._thread = threading.Thread(target=self._read, name=f"app-log-{package}", daemon=True)

    def __enter__(self) -> _SystemLog:
        buffers = "events,system,crash"
        self._process = self._device.spawn(["logcat", "-b", buffers, "-v", "threadtime", "-T", "1"])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._thread.join(10)

    def _read(self) -> None:
        assert self._process is not None
        try:
            for line in self._process.lines():
                if self._package in line.text or (self.anr and "ActivityManager" in line.text):
                    self.take(line.text)
        except (AdbError, OSError):
            return  # the device is away: the app's own connection says so

    def take(self, text: str) -> None:
        """One line that names the package."""
        self.lines.append(text[:2000])
        _, tag, rest = text.partition("am_")
        kind, _, values = rest.partition(":")
        fields = values.strip().strip("[]").split(",")
        if not tag or len(fields) < 3 or not fields[1].isdigit():
            return
        if kind.strip() == "anr":
            self.anr = values.strip()[:500]
        elif kind.strip() == "crash":
            self.crash = ",".join(fields[4:6])[:300] or None
        if kind.strip() in ("anr", "crash", "proc_start") and self._package in values:
            self.pid = int(fields[1])
