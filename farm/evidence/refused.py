"""What a suite tried beyond its bounds, by kind: so that a flood of one kind hides no other, and one fault stays one.

The kinds of a class are few and fixed, whatever names a suite makes up: a bound per kind is a bound for all of them.
The words are those of the attempt's journal (`runner.witness`, `farm.adb.lens_rules`, `runner.gate`).
"""

from __future__ import annotations

import re

SANDBOX, LENS, JOURNAL = "sandbox-refused", "lens-refused", "journal-refused"
#: Classes of incidents that tell what a suite tried: its own doing, whatever the device.
CLASSES = frozenset({SANDBOX, LENS, JOURNAL})

#: Reason for a name that is looked up, and for a folder of the farm: part of what the witness says.
NO_NAMES = "names cannot be looked up: there is no network here"
FARMS_OWN = "the farm's own, outside of this attempt"

_MORE = re.compile(r"\d+ more like these(?:: (.+))?", re.DOTALL)
_CONNECT = re.compile(r"connect ([0-9a-fA-F.:]+) port \d+: ")
_DATABASE = re.compile(r"\.(?:sqlite3?|db)(?:-(?:wal|shm|journal))?\Z")
_OPENS = frozenset({"open", "openat", "openat2"})
_HOMES = ("/home/", "/root/", "/Users/")
_VERB = re.compile(r"(?:host(?:-[a-z-]+)?:)?([a-z-]+)")
#: What a suite may ask the adb server for and is refused; all else is one kind.
_VERBS = frozenset(
    (
        *("transport", "transport-id", "tport", "kill", "connect", "disconnect", "pair", "reconnect"),
        *("reconnect-offline", "attach", "detach", "forward", "killforward", "killforward-all", "list-forward"),
        *("mdns", "emulator", "reverse", "tcpip", "usb", "root", "unroot", "remount", "sideload"),
        *("disable-verity", "enable-verity"),
    )
)
#: What the words of the journal's gate hold → kind; the first that fits.
_RECORDS = (
    ("no message", "lines that are no message"),
    ("a suite cannot write", "records that are not a suite's to write"),
    ("belong to the journal", "fields that are the journal's own"),
    ("not leased", "records of other devices"),
    ("finished already", "results of other tests"),
    ("not running", "results of other tests"),
    ("not among the collected", "results of other tests"),
    ("what will run is settled", "results of other tests"),
    ("artifact", "artifacts"),
)


def kind(klass: str, summary: str) -> str:
    """What was tried, in words that hold no name and no number; empty for a class that is none of `CLASSES`.

    The line that stands for many (`more`) has the kind of those that it stands for.
    """
    if klass not in CLASSES:
        return ""
    if match := _MORE.fullmatch(summary):
        return match[1] or ""  # an older journal does not say of what kind
    if klass == SANDBOX:
        return _sandbox(summary)
    if klass == LENS:
        if summary.endswith((" is not a device of this lease", " is not leased")):
            return "other devices"
        asked = _VERB.match(summary)
        return f"{asked[1]} of the adb server" if asked and asked[1] in _VERBS else "other requests to the adb server"
    return next((words for needle, words in _RECORDS if needle in summary), "records that hold no fact")


def more(count: int, what: str) -> str:
    """The line for `count` that are counted and not written."""
    return f"{count} more like these: {what}" if what else f"{count} more like these"


def _sandbox(summary: str) -> str:
    if summary.endswith(NO_NAMES):
        return "looking up names"
    if _CONNECT.match(summary):
        return "the network" if summary.endswith("there is no network here") else "ports of the host"
    call, _, rest = summary.partition(" ")
    path, _, reason = rest.rpartition(": ")
    if call == "connect":
        return "sockets of the host"
    if _DATABASE.search(path):
        return "databases"
    if reason == FARMS_OWN:
        return "the farm's own files"
    if reason == "not shown to an attempt":
        return "secrets of the host"
    if reason == "read-only here":
        return "changing what is read-only"
    if path.startswith(_HOMES) or path in ("/home", "/root"):
        return "files in a home"
    return "files outside of the attempt" if call in _OPENS else "changing files outside of the attempt"
