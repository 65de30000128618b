"""Applications that did not respond: who, why Android says so, what the main thread did.

`parser()` reads logs of all vendors, the event log, `dumpsys dropbox --print`, trace files, the input dispatcher's last
state and exit records, one after the other or mixed; what speaks of one ANR becomes one.
"""

from farm.evidence.anr.report import AnrParser
from farm.evidence.anr.stacks import Frame, Stacks, Thread

__all__ = ["AnrParser", "Frame", "Stacks", "Thread"]
