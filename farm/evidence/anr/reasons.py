"""The reason that Android gives for an ANR → which deadline was missed, and how long was waited.

Sources: AOSP `TimeoutRecord`, `InputDispatcher`, `ActiveServices`, `BroadcastQueue`, `JobServiceContext`, with the
wordings of Android 2 to 15 and of vendors.
"""

from __future__ import annotations

import re

_TRIGGERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.I), trigger)
    for pattern, trigger in (
        (
            r"did not then call (?:Service\.)?startForeground|ForegroundServiceDidNotStartInTime",
            "start_foreground_service",
        ),
        (
            r"(?:content|remote) ?provider .{0,200}not respond|ContentProvider not responding"
            r"|timeout publishing content",
            "content_provider",
        ),
        (
            r"No response to on(?:Start|Stop)Job|\bjob (?:service|scheduler)|JobService"
            r"|Timed out while (?:trying to bind|binding)"
            r"|required notification not provided",
            "job",
        ),
        (r"^\W*Broadcast of |BroadcastReceiver|receiver during timeout", "broadcast"),
        (r"executing service|foreground service of .{0,80}did not stop|SHORT_SERVICE", "executing_service"),
        (
            r"dispatching ?timed ?out|is not responding\. Waited|does not have a focused window|no window has focus"
            r"|no focused window|Waiting (?:to send .{0,20}key event|because )|window has not finished processing"
            r"|It has been [\d.]{1,12}ms since event|is not responding\.\s+It has been|Input channel is not registered",
            "input_dispatch",
        ),
    )
)
_WAITED = re.compile(
    r"[Ww]aited (\d{1,9}(?:\.\d{1,6})?) ?ms|waited (\d{1,6}(?:\.\d{1,6})?) ?s(?:econds)?\b"
    r"|([\d.]{1,12})ms since wait started"
)
_HEAD_AGE = re.compile(r"[Ww]ait ?queue head age: ?(\d{1,9}(?:\.\d{1,6})?) ?ms")
_QUEUE = re.compile(r"[Ww]ait ?queue length(?::| =) ?(\d{1,6})")
_EVENT = re.compile(r"Waited [\d.]{1,12} ?ms for (\w{1,40})")
_COMPONENT = re.compile(
    r"\b[0-9a-f]{4,12} ([a-zA-Z]\w*(?:\.\w+)+)/(\S{1,200})"
    r"|ServiceRecord\{\w+ u\d+ ([\w.]+)/([\w.$]+)|cmp=([\w.]+)/([\w.$]+)|executing service ([\w.]+)/([\w.$]+)"
)


def trigger(reason: str | None) -> str:
    """One of the closed list; `unknown` for a reason that no version of Android is known to give."""
    return next((name for pattern, name in _TRIGGERS if pattern.search(reason or "")), "unknown")


def waited_ms(reason: str | None) -> float | int | None:
    """Milliseconds that Android says it waited. The "over 500.0ms ago" of old versions is a constant, no wait."""
    match = _WAITED.search(reason or "")
    if match is None:
        return None
    if (match[3] or "0").count(".") > 1:
        return None
    value = float(match[1] or match[3] or 0) if not match[2] else float(match[2]) * 1000
    if not 0 < value <= 86_400_000:
        return None
    return int(value) if value.is_integer() else value


def component(reason: str | None) -> tuple[str, str] | None:
    """Package and class that the reason names."""
    match = _COMPONENT.search(reason or "")
    if match is None:
        return None
    parts = [part for part in match.groups() if part]
    return parts[0], parts[1].rstrip("}).,")


def details(reason: str | None) -> dict[str, object]:
    """What else old and new wordings say: queue length, age of its head, kind of event."""
    found: dict[str, object] = {}
    text = reason or ""
    if match := _QUEUE.search(text):
        found["wait_queue_length"] = int(match[1])
    if match := _HEAD_AGE.search(text):
        found["wait_queue_head_age_ms"] = float(match[1])
    if match := _EVENT.search(text):
        found["event"] = match[1]
    return found
