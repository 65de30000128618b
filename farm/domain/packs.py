"""What a suite pack is: a folder of pytest files with `suite.yaml`, addressed by hash like a bundle.

format: 1
name: builtin
suites:
  smoke:
    path: smoke                                     # folder or file below the pack
    needs: ""                                       # a selector: where the suite makes sense
    settle: {max_temperature_c: 40, timeout_s: 120} # what the device must be before it starts
    limits: {suite_s: 600, silence_s: 60}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farm.domain.manifests import FORMAT, is_safe_path, read, read_head, verify
from farm.domain.selectors import SelectorError, parse
from farm.domain.yaml_lines import Checker

_SUITE_KEYS = ("path", "needs", "settle", "limits", "title", "description")
_SETTLE = {"max_temperature_c": (1.0, 150.0), "timeout_s": (0.0, 86400.0)}
#: Folders that are never part of a pack: what interpreters and package managers leave behind.
_SKIPPED = frozenset({"__pycache__", "node_modules"})
_LIMITS = {"suite_s": (1.0, 86400.0), "silence_s": (1.0, 86400.0)}


def read_pack(text: str) -> dict[str, Any]:
    """`suite.yaml` checked and with defaults filled in, still without content. Raises ManifestError."""
    return read("suite.yaml", text, _pack)


def check_pack(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A whole manifest with content, from outside: normalised, or ManifestError."""
    return verify("suite pack manifest", manifest, _pack, lambda _declared: set())


def takes_folder(name: str) -> bool:
    """Whether a folder of this name below suite.yaml belongs to the pack: no caches, nothing hidden."""
    return name not in _SKIPPED and not name.startswith(".")


def takes_file(name: str) -> bool:
    """The same for a regular file; links are never followed."""
    return not name.startswith(".") and not name.endswith(".pyc")


def suites_without_files(manifest: Mapping[str, Any]) -> list[str]:
    """What is wrong with suites whose folder the pack's content lacks."""
    return [
        f"suite {key!r} has no file below {suite['path']!r}"
        for key, suite in manifest["suites"].items()
        if not any(path == suite["path"] or path.startswith(suite["path"] + "/") for path in manifest["content"])
    ]


def _pack(check: Checker, body: Mapping[str, Any]) -> dict[str, Any]:
    check.keys(body, (), ("format", "name", "suites"), "a suite pack")
    name = read_head(check, body)
    suites = {
        key: _suite(check, key, entry)
        for key, entry in check.mapping(body.get("suites"), ("suites",), "suites").items()
    }
    if not suites:
        check.wrong(("suites",), "suites is empty", "for example suites: {smoke: {path: smoke}}")
    return {"format": FORMAT, "name": name, "suites": suites}


def _suite(check: Checker, key: str, entry: Any) -> dict[str, Any]:
    path = ("suites", key)
    body = check.mapping(entry, path, f"suite {key!r}")
    check.keys(body, path, _SUITE_KEYS, f"suite {key!r}")
    folder = check.text(body.get("path", key), (*path, "path"), "path") or key
    if not is_safe_path(folder):
        check.wrong((*path, "path"), f"{folder!r} is no relative path below the pack")
    needs = check.text(body.get("needs", ""), (*path, "needs"), "needs", limit=1000) or ""
    try:
        parse(needs)
    except SelectorError as error:
        check.wrong((*path, "needs"), f"needs is no selector: {error.message}", error.suggestion)
    settle = _numbers(check, body.get("settle"), (*path, "settle"), _SETTLE)
    limits = _numbers(check, body.get("limits"), (*path, "limits"), _LIMITS)
    words = {w: check.text(body.get(w), (*path, w), w, limit=2000) for w in ("title", "description")}
    return {"path": folder, "needs": needs, "settle": settle, "limits": limits, **words}


def _numbers(
    check: Checker, value: Any, path: tuple[Any, ...], known: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    body = check.mapping(value, path, str(path[-1]))
    check.keys(body, path, known, str(path[-1]))
    return {
        key: found
        for key, (low, high) in known.items()
        if (found := check.number(body.get(key), (*path, key), key, low, high)) is not None
    }
