"""YAML with the line of every value, so that a wrong file can say where; and the checks that every file shares.

Safe loading only: no object is ever built from a tag. Size, nesting and aliases are bounded, a key given twice is an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from farm.domain.names import did_you_mean

#: Largest file that is read, characters.
MAX_TEXT = 1 << 20
MAX_DEPTH = 30
MAX_NODES = 50_000


@dataclass(frozen=True, slots=True)
class FileError:
    """One thing that is wrong in a file: `line` counts from 1, 0 when it is nowhere in particular."""

    line: int
    what: str
    suggestion: str = ""

    def words(self, file: str) -> str:
        """`devices.yaml:12: unknown key 'lable'; did you mean labels?`."""
        where = f"{file}:{self.line}" if self.line else file
        return f"{where}: {self.what}" + (f"; {self.suggestion}" if self.suggestion else "")


class Lines:
    """Line numbers by path: `lines.of(("devices", 0, "serial"))`."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[Any, ...], int] = {}

    def __len__(self) -> int:
        return len(self._by_path)

    def note(self, path: tuple[Any, ...], line: int) -> None:
        self._by_path[path] = line

    def of(self, path: tuple[Any, ...]) -> int:
        """The line of the value at `path`, or of the nearest thing around it."""
        while path and path not in self._by_path:
            path = path[:-1]
        return self._by_path.get(path, 0)


def load(text: str) -> tuple[Any, Lines, list[FileError]]:
    """The plain values of one YAML document; errors instead of values when it is none."""
    lines = Lines()
    if len(text) > MAX_TEXT:
        return None, lines, [FileError(0, f"the file has {len(text)} characters, the limit is {MAX_TEXT}")]
    errors: list[FileError] = []
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = None if node is None else _build(node, (), lines, errors)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(filter(None, (error.context, error.problem)))
        return None, lines, [FileError(mark.line + 1 if mark else 0, f"no valid YAML: {what}", _yaml_hint(what))]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return None, lines, [FileError(0, f"no valid YAML: {error}", _yaml_hint(str(error)))]
    return value, lines, errors


#: What the parser says -> what a person most probably did.
_YAML_HINTS = {
    "\\t": "there is a tab: YAML is indented by blanks",
    "could not determine a constructor": "write plain values: a tag such as !!python is never read",
    "',' or '}'": "a { is not closed, or a comma is missing in it",
    "',' or ']'": "a [ is not closed, or a comma is missing in it",
    "quoted scalar": "a quote is not closed",
    "could not find expected ':'": "a key stands alone: write key: value, with a blank after the colon",
    "mapping values are not allowed": "a value with a colon in it stands in quotes; or the line before lacks its colon",
    "expected <block end>": "this line is indented otherwise than the ones that it belongs to",
    "undefined alias": "* begins an alias in YAML: put the value in quotes",
    "cannot start any token": "a value that begins with this character stands in quotes",
    "special characters are not allowed": "the file holds a character that is no text: write it anew with an editor",
    "nested deeper": "write it flatter, and without aliases",
    "aliases": "write it without aliases (&name, *name)",
}


def _yaml_hint(said: str) -> str:
    """A suggestion for what the parser said; the places to look at where it says nothing that we know."""
    return next(
        (hint for words, hint in _YAML_HINTS.items() if words in said),
        "look at indentation, colons and quotes of this line and of the one before",
    )


def _build(node: yaml.Node, path: tuple[Any, ...], lines: Lines, errors: list[FileError]) -> Any:
    if len(path) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} (or an alias that holds itself)")
    if len(lines) > MAX_NODES:
        raise ValueError(f"more than {MAX_NODES} values (or aliases that multiply)")
    lines.note(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        made: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str | int):
                errors.append(FileError(key_node.start_mark.line + 1, "a key must be plain text"))
                continue
            key = str(key)
            if key in made:
                errors.append(FileError(key_node.start_mark.line + 1, f"{key!r} is given twice", "remove one"))
            made[key] = _build(value_node, (*path, key), lines, errors)
            lines.note((*path, key), key_node.start_mark.line + 1)
        return made
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, i), lines, errors) for i, item in enumerate(node.value)]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    return yaml.SafeLoader("").construct_object(node, deep=True)


class Checker:
    """Collects what is wrong while a file's values are turned into ours."""

    def __init__(self, lines: Lines, errors: list[FileError]) -> None:
        self._lines = lines
        self.errors = errors

    def wrong(self, path: tuple[Any, ...], what: str, suggestion: str = "") -> None:
        self.errors.append(FileError(self._lines.of(path), what, suggestion))

    def mapping(self, value: Any, path: tuple[Any, ...], what: str) -> dict[str, Any]:
        """`value` if it is a mapping; None counts as empty."""
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.wrong(path, f"{what} must be a mapping (key: value), not {kind(value)}")
        return {}

    def sequence(self, value: Any, path: tuple[Any, ...], what: str) -> list[Any]:
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.wrong(path, f"{what} must be a list (- …), not {kind(value)}")
        return []

    def keys(self, value: Mapping[str, Any], path: tuple[Any, ...], known: Iterable[str], what: str) -> None:
        """Every key that is not known is wrong, with the nearest known one."""
        names = list(known)
        for key in value:
            if key not in names:
                hint = did_you_mean(key, names) or f"known here: {', '.join(names)}"
                self.wrong((*path, key), f"unknown key {key!r} in {what}", hint)

    def text(
        self, value: Any, path: tuple[Any, ...], what: str, *, needed: bool = False, limit: int = 200
    ) -> str | None:
        """Text of at most `limit` characters; numbers and booleans as they are written."""
        if value is None:
            if needed:
                self.wrong(path, f"{what} is missing")
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int | float):
            self.wrong(path, f"{what} must be text, not {kind(value)}")
            return None
        text = str(value)
        if not text and needed:
            self.wrong(path, f"{what} is empty")
            return None
        if len(text) > limit or not text.isprintable():
            self.wrong(path, f"{what} must be one printable line of at most {limit} characters")
            return None
        return text

    def number(self, value: Any, path: tuple[Any, ...], what: str, low: float, high: float) -> float | None:
        """A finite number within bounds; None stays None."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.wrong(path, f"{what} must be a number from {low:g} to {high:g}, not {value!r}")
            return None
        return value

    def labels(self, value: Any, path: tuple[Any, ...], what: str) -> dict[str, str]:
        made: dict[str, str] = {}
        for key, item in self.mapping(value, path, what).items():
            text = self.text(item, (*path, key), f"{what} {key!r}")
            if text is not None:
                made[key] = text
        return made


def kind(value: Any) -> str:
    """What a value is, in a word that a person editing YAML knows."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    return f"{value!r}"
