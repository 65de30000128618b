"""Frozen dataclasses of the rooms below → plain JSON values, the same for every route.

Times become ISO 8601 in UTC with a `Z`, enums their value, sets and tuples lists; None stays null ("not measured"). A
float that is no number is null too: JSON has no NaN, and here it means the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any


def encode(value: Any) -> Any:
    """`value` as what `json.dumps` takes. Raises TypeError for a type that it does not know."""
    match value:
        case None | bool() | int() | str() if not isinstance(value, Enum):
            return value
        case Enum():
            return encode(value.value)
        case float():
            return value if math.isfinite(value) else None
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case PurePath():
            return str(value)
        case Mapping():
            return {str(encode(key)): encode(entry) for key, entry in value.items()}
        case list() | tuple():
            return [encode(entry) for entry in value]
        case set() | frozenset():
            return sorted((encode(entry) for entry in value), key=str)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _names(type(value))}
    raise TypeError(f"no JSON for a {type(value).__name__}")


@lru_cache(maxsize=1024)
def _names(kind: type) -> tuple[str, ...]:
    """Fields of a dataclass, and its properties: they are facts like its fields (a median, a count)."""
    fields = [field.name for field in dataclasses.fields(kind)]
    computed = [
        name
        for above in kind.__mro__
        for name, entry in vars(above).items()
        if isinstance(entry, property) and not name.startswith("_")
    ]
    return tuple(dict.fromkeys((*fields, *computed)))
