"""What a bundle and a suite pack share: the rules of a manifest, and the hash that addresses it.

A manifest is the declaration (`bundle.yaml`, `suite.yaml`) plus `content`: every file's SHA-256, size and mode. The
hash is the SHA-256 of its canonical JSON, so that the same files under the same declaration are the same bundle,
wherever and whenever they were packed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from farm.domain.yaml_lines import Checker, FileError, Lines, load

FORMAT = 1
MAX_FILES = 5000
MAX_BYTES = 64 << 30

_HASH = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Turns a declaration's values into the normal form, noting what is wrong.
Rules = Callable[[Checker, Mapping[str, Any]], dict[str, Any]]


class ManifestError(ValueError):
    """A manifest that cannot be: `errors` holds every one, `str()` the first with the file's name."""

    def __init__(self, file: str, errors: list[FileError]) -> None:
        self.file = file
        self.errors = errors
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(errors[0].words(file) + more)


def canonical(manifest: Mapping[str, Any]) -> bytes:
    """The bytes that are hashed: sorted keys, no blanks, UTF-8."""
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def content_hash(manifest: Mapping[str, Any]) -> str:
    """The hash that addresses the bundle or pack."""
    return hashlib.sha256(canonical(manifest)).hexdigest()


def content_bytes(manifest: Mapping[str, Any]) -> int:
    """Size of all files, bytes."""
    return sum(entry["size"] for entry in manifest["content"].values())


def is_safe_path(path: str) -> bool:
    """A relative path that stays below its folder and is the same on every system."""
    if not path or len(path) > 400 or "\\" in path or not path.isprintable():
        return False
    pure = PurePosixPath(path)
    return bool(pure.parts) and not pure.is_absolute() and str(pure) == path and ".." not in pure.parts


def normal_mode(mode: int) -> int:
    """0755 for what can be executed, 0644 for the rest: a umask must not change a hash."""
    return 0o755 if mode & 0o111 else 0o644


def read(file: str, text: str, rules: Rules) -> dict[str, Any]:
    """A declaration's text, checked and with defaults filled in, still without content. Raises ManifestError."""
    value, lines, errors = load(text)
    check = Checker(lines, errors)
    if value is None:
        raise ManifestError(file, errors or [FileError(0, "the file is empty")])
    made = rules(check, check.mapping(value, (), file))
    if check.errors:
        raise ManifestError(file, check.errors)
    return made


def verify(what: str, manifest: Any, rules: Rules, named: Callable[[Mapping[str, Any]], set[str]]) -> dict[str, Any]:
    """A whole manifest from outside, normalised. `named`: the files that the declaration speaks of."""
    check = Checker(Lines(), [])
    body = check.mapping(manifest, (), what)
    made = rules(check, {k: v for k, v in body.items() if k != "content"})
    content = read_content(check, body.get("content"))
    if not check.errors:
        for path in sorted(named(made) - set(content)):
            check.wrong((), f"file {path!r} is named but has no entry in content")
    if check.errors:
        raise ManifestError(what, check.errors)
    return {**made, "content": content}


def read_content(check: Checker, value: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    entries = check.mapping(value, ("content",), "content")
    if not entries:
        check.wrong((), "the manifest has no files")
    if len(entries) > MAX_FILES:
        check.wrong((), f"{len(entries)} files are more than {MAX_FILES}")
        return made
    total = 0
    for path, entry in entries.items():
        body = entry if isinstance(entry, dict) else {}
        sha256, size, mode = body.get("sha256"), body.get("size"), body.get("mode")
        if not is_safe_path(path):
            check.wrong((), f"{path!r} is no relative path below the folder")
        elif not isinstance(sha256, str) or not _HASH.fullmatch(sha256):
            check.wrong((), f"content of {path!r} needs a sha256 of 64 hexadecimal digits")
        elif isinstance(size, bool) or not isinstance(size, int) or size < 0 or mode not in (0o644, 0o755):
            check.wrong((), f"content of {path!r} needs a size in bytes and the mode 420 (0644) or 493 (0755)")
        else:
            total += size
            made[path] = {"sha256": sha256, "size": size, "mode": mode}
    if total > MAX_BYTES:
        check.wrong((), f"{total} bytes are more than {MAX_BYTES}")
    return made


def read_head(check: Checker, body: Mapping[str, Any]) -> str:
    """Format and name, which every declaration begins with."""
    if body.get("format") != FORMAT:
        check.wrong(
            ("format",), f"format is {body.get('format')!r}, this farm reads {FORMAT}", f"write format: {FORMAT}"
        )
    name = check.text(body.get("name"), ("name",), "name", needed=True) or ""
    if name and not _NAME.fullmatch(name):
        check.wrong(("name",), f"name {name!r} must be letters, digits, '.', '_' and '-'")
    return name
