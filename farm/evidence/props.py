"""`getprop`: `[key]: [value]`, one property after the other; a value may hold line breaks and brackets.

`parse` gives the properties, `labels` what the farm calls a device by. A property that is there and empty is not a
value: `ro.soc.model` is empty on many phones, and then `ro.board.platform` is the best that is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_START = re.compile(r"^[ \t]*\[([^\]\[\s]+)\]: \[(.*)$")
#: A value that never closes must not swallow the file.
_MAX_VALUE_LINES = 200


def parse(text: str) -> dict[str, str]:
    """Every property; where a file holds several dumps, those of the first (see `parse_all`)."""
    dumps = parse_all(text)
    return dumps[0] if dumps else {}


def parse_all(text: str) -> list[dict[str, str]]:
    """One dictionary per dump: a key that comes again after a blank line begins the next device's."""
    dumps: list[dict[str, str]] = []
    blank = True
    lines = text.replace("\r\n", "\n").split("\n")
    index = 0
    while index < len(lines):
        start = _START.match(lines[index])
        if start is None:
            blank = blank or not lines[index].strip()
            index += 1
            continue
        key = start[1]
        value, index = _value(start[2], lines, index)
        if not dumps or (key in dumps[-1] and blank):
            dumps.append({})
        dumps[-1][key] = value
        blank = False
    return dumps


def _value(first: str, lines: list[str], index: int) -> tuple[str, int]:
    """The value that begins with `first` in line `index`, and the line after its end."""
    parts = [first]
    for end in range(index, min(len(lines), index + _MAX_VALUE_LINES)):
        if end > index:
            if _START.match(lines[end]):
                break
            parts.append(lines[end])
        if parts[-1].rstrip().endswith("]"):
            parts[-1] = parts[-1].rstrip()[:-1]
            return "\n".join(parts), end + 1
    return first.rstrip().removesuffix("]"), index + 1  # it never closes: one line is all that is certain


def first_of(properties: Mapping[str, str], *keys: str) -> str | None:
    """The first of `keys` that is there and not empty."""
    return next((properties[key] for key in keys if properties.get(key)), None)


def soc(properties: Mapping[str, str]) -> str | None:
    """The chip's name: `ro.soc.model` tells chips of one platform apart; without it the platform is the best known."""
    name = first_of(properties, "ro.soc.model", "ro.board.platform")
    return name.split("/")[0] if name else None


def labels(properties: Mapping[str, str]) -> dict[str, str]:
    """The labels that every Android device gets by itself; what it does not tell is left out."""
    found = {
        "soc": soc(properties),
        "platform": first_of(properties, "ro.board.platform"),
        "abi": first_of(properties, "ro.product.cpu.abi"),
        "android": first_of(properties, "ro.build.version.release"),
        "sdk": first_of(properties, "ro.build.version.sdk"),
        "model": first_of(properties, "ro.product.model"),
        "device": first_of(properties, "ro.product.device"),
        "brand": first_of(properties, "ro.product.brand"),
        "build": first_of(properties, "ro.build.fingerprint"),
        "virtual": "true" if properties.get("ro.farm.virtual") == "1" else "false",
    }
    return {key: value for key, value in found.items() if value is not None}


def core(text: str) -> dict[str, object]:
    """The uniform keys of kind `getprop`: the properties themselves, of a file that holds one dump."""
    dumps = parse_all(text)
    return dict(dumps[0]) if len(dumps) == 1 else {"dumps": dumps}
