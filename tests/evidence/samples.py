"""The samples of what devices print, each with the values that were read from it by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "data" / "samples" / "device"


def samples(*kinds: str) -> list[tuple[str, Path]]:
    """(kind, text file) of every sample, or of those kinds."""
    folders = sorted(path for path in FOLDER.iterdir() if path.is_dir() and (not kinds or path.name in kinds))
    return [(folder.name, path) for folder in folders for path in sorted(folder.glob("*.txt"))]


def text_of(path: Path) -> str:
    """With its line ends as they are."""
    return path.read_bytes().decode("utf-8")


def one(kind: str, number: str) -> str:
    (path,) = (FOLDER / kind).glob(f"{number}_*.txt")
    return text_of(path)


def core_of(path: Path) -> dict[str, Any]:
    core: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["core"]
    return core


def missing(found: object, wanted: object, where: str = "") -> list[str]:
    """What of `wanted` is not in `found`."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return [f"{where}: {found!r} is no object"]
        return [line for key, value in wanted.items() for line in missing(found.get(key), value, f"{where}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [line for i, value in enumerate(wanted) for line in missing(found[i], value, f"{where}[{i}]")]
    if isinstance(wanted, float):
        same = isinstance(found, int | float) and found == pytest.approx(wanted)
    else:
        same = found == wanted
    return [] if same else [f"{where}: found {found!r}, wanted {wanted!r}"]
