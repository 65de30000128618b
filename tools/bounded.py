"""Commands with a time limit, a log file and, where the network is asked, another try.

Nothing here is of the farm: set-up runs before anything is installed, so this is the standard library alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from progress import Ticker, Words, last_line

_STARTED = time.monotonic()

# What package clients print when they did not reach their registry; the rest of a failure is not cured by a retry.
_NETWORK_SIGNS = (
    "Temporary failure", "Name or service not known", "Could not resolve", "Connection refused", "ConnectionError",
    "NewConnectionError", "Connection reset", "Read timed out", "ReadTimeoutError", "ConnectTimeout", "EAI_AGAIN",
    "ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "Network is unreachable", "502 Bad Gateway",
    "503 Service", "ProxyError", "No matching distribution found", "Failed to fetch",
)  # fmt: skip


class SetupError(Exception):
    """Set-up cannot go on; the message says what, where and what to do."""


def say(step: str, text: str) -> None:
    """One progress line with the seconds since the start; on stderr, for `make demo` prints its result on stdout."""
    print(f"[{time.monotonic() - _STARTED:6.1f} s] {step}: {text}", file=sys.stderr, flush=True)


def run(
    step: str,
    command: Sequence[str | Path],
    *,
    limit_s: float,
    log: Path,
    tries: int = 1,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    words: Words = last_line,
    silent: str = "",
) -> None:
    """Run `command`; its output goes to `log`. After a network failure it is tried again, `tries` times in all.

    While it takes long, `words` of its output tell what it is at; `silent` does while it has printed nothing. Left out:
    the command itself.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    line = [str(word) for word in command]
    still = silent or f"running {' '.join((Path(line[0]).name, *line[1:]))[:80]}, which has printed nothing yet"
    for attempt in range(1, tries + 1):
        code = _run_once(
            line, limit_s, log, cwd, env, Ticker(step, lambda output: words(output) or still, began=_STARTED)
        )
        if code == 0:
            return
        output = log.read_text(errors="replace")
        offline = any(sign in output for sign in _NETWORK_SIGNS) or code is None
        if not offline or attempt == tries:
            raise SetupError(_explain(step, line, code, limit_s, log, output, offline))
        pause = 2.0**attempt
        say(step, f"try {attempt} of {tries} did not reach the network; again in {pause:.0f} s")
        wait_before_retry(pause)


def wait_before_retry(seconds: float) -> None:
    time.sleep(seconds)


def _run_once(
    words: list[str], limit_s: float, log: Path, cwd: Path | None, env: Mapping[str, str] | None, ticker: Ticker
) -> int | None:
    """The exit code, or None when the limit was reached; the whole process group is gone in every case."""
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        except OSError as error:
            out.write(f"{words[0]}: {error}\n".encode())
            return 127
        until = time.monotonic() + limit_s
        try:
            while (left := until - time.monotonic()) > 0:
                try:
                    return process.wait(min(left, 0.2))
                except subprocess.TimeoutExpired:
                    ticker.tick(lambda: log.read_text(errors="replace"))
            return None
        finally:
            ticker.close()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _explain(
    step: str, words: list[str], code: int | None, limit_s: float, log: Path, output: str, offline: bool
) -> str:
    ended = f"was stopped at its limit of {limit_s:.0f} s" if code is None else f"ended with exit code {code}"
    tail = "\n".join("    " + line for line in output.strip().splitlines()[-12:])
    reason = (
        "A package registry was not reached. The first set-up needs the network; behind a proxy or with a mirror,\n"
        "configure pip, npm and apt as usual (pip config, npm config, https_proxy) and run set-up again: finished\n"
        "steps are not repeated."
        if offline
        else "Run the command by hand to see more, then run set-up again: finished steps are not repeated."
    )
    return f"{step}: `{' '.join(words)}` {ended}.\n{tail}\n  log: {log}\n{reason}"


def main_guard(error: SetupError) -> int:
    """Print the one message of a failed set-up; returns the exit code."""
    print(f"\nset-up failed: {error}", file=sys.stderr)
    return 1
