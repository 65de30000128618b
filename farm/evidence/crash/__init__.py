"""How processes and devices ended: native and Java crashes, low-memory kills, GPU and kernel faults, watchdogs.

`CrashParser` reads all of it from one text; `crashes`, `low_memory_kills` and `about` answer a runner's narrow
questions.
"""

from farm.evidence.crash.kills import LowMemoryKill, low_memory_kills
from farm.evidence.crash.native import Crash, about, crashes
from farm.evidence.crash.report import CrashParser

__all__ = ["Crash", "CrashParser", "LowMemoryKill", "about", "crashes", "low_memory_kills"]
