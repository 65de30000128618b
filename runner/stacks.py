"""Where a suite stood when it was stopped, from the stacks that faulthandler wrote (most recent call first). Pure."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePosixPath

from runner.sandbox import PACK

_FRAME = re.compile(r'^  File "(?P<file>[^"\n]{1,1000})", line (?P<line>\d{1,9}) in (?P<name>.{1,200})$', re.MULTILINE)
_THREAD = re.compile(r"(?:Current thread|Thread) 0x")  # pytest's line, or another output, may stand before it


def waited_in(stacks: str) -> str:
    """`shell, called at test_x.py line 12 in test_y`; without the call where the suite's own line ran; empty: unknown.

    Of several threads, the one that faulthandler interrupted, else the first that runs the suite's code.
    """
    begins = [match.start() for match in _THREAD.finditer(stacks)]
    threads = [stacks[a:b] for a, b in pairwise([*begins, len(stacks)])]
    for thread in sorted(threads, key=lambda text: not text.startswith("Current")):
        within = ""
        for frame in _FRAME.finditer(thread):
            if frame["file"].startswith(f"{PACK}/"):
                at = f"{PurePosixPath(frame['file']).name} line {frame['line']} in {frame['name']}"
                return f"{within}, called at {at}" if within else at
            within = frame["name"]
    return ""
