"""What the farm found wrong with an input, in the words of somebody who never saw its API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: The API's words → what is said of a field.
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^Field required$"), "is missing"),
    (re.compile(r"^Extra inputs are not permitted$"), "is not known to this farm"),
    (re.compile(r"^(?:String|Input|Value|List|Dictionary|Tuple|Set|Object|JSON) should "), "must "),
)
_PLACE = re.compile(r"^(?:body|query|path|header)(?:\.|$)")


def words(error: Mapping[str, Any]) -> str | None:
    """`reason must have at least 3 characters` from `body.reason: String should have …`; None: it is no such error."""
    problems = error.get("detail")
    if error.get("code") != "bad-input" or not isinstance(problems, list) or not problems:
        return None
    return "; ".join(_plainly(str(problem)) for problem in problems)


def _plainly(problem: str) -> str:
    where, colon, what = problem.partition(": ")
    if not colon:
        return problem
    field = _PLACE.sub("", where)
    what = what.removeprefix("Value error, ")
    for pattern, said in _RULES:
        if pattern.search(what):
            return f"{field or 'the request'} {pattern.sub(said, what)}"
    return f"{field}: {what}" if field else what
