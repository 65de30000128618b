"""Signals that end a command while it still has something to put in order behind itself."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

#: What ends a command: Ctrl-C, `kill`, a closed terminal.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed_no_signal() -> None:
    """Let no further signal interrupt. A handler and not SIG_IGN, which processes started from here would inherit."""
    for number in ENDING:
        signal.signal(number, lambda _number, _frame: None)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end the command like Ctrl-C: whoever is inside cleans up behind itself.

    The first signal alone counts. `timeout` and `make` both pass theirs on, so that a second one comes in the middle
    of the clean-up.
    """

    def interrupt(_number: int, _frame: object) -> None:
        heed_no_signal()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
