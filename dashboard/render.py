"""Templates to answers: the one place where pages become HTML, with the headers that keep strangers' text inert."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard import signs, words
from dashboard.context import Context, Viewer
from farm.domain.words import count

HERE = Path(__file__).resolve().parent

#: No inline script or style, nothing from elsewhere: whatever a log or a test's message holds, it stays text.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Static:
    """The files that pages load: named by path, versioned by a hash of them all, so that they may be kept for ever."""

    def __init__(self, root: Path = HERE / "static") -> None:
        self._root = root

    @cached_property
    def version(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self._root.rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(self._root).as_posix().encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()[:12]

    def find(self, name: str) -> tuple[bytes, str] | None:
        """(bytes, media type) of a file below the root; None for anything else."""
        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root) or not path.is_file():
            return None
        return path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream"


class Renderer:
    """Templates with autoescape always on; a name that a template gets wrong is an error, not an empty place."""

    def __init__(self, context: Context, static: Static) -> None:
        self._context = context
        env = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        for function in (
            words.figure,
            words.quantity,
            words.celsius,
            words.percent,
            words.size,
            words.duration,
            words.exact,
            words.iso,
            signs.plain,
            short_test,
            breakable,
            segment,
        ):
            env.filters[function.__name__] = function
        env.globals |= {
            "ago": words.ago,
            "count": count,
            "NOT_MEASURED": words.NOT_MEASURED,
            "THIN": words.THIN,
            "of_outcome": signs.of_outcome,
            "of_run": signs.of_run,
            "of_test": signs.of_test,
            "version": context.version,
            "assets": lambda: static.version,
        }
        self._env = env

    def page(
        self,
        request: Request,
        template: str,
        data: Mapping[str, Any],
        *,
        viewer: Viewer | None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        """A page or, by the name of a template that extends nothing, a piece of one."""
        shared = {"viewer": viewer, "now": self._context.clock(), "path": request.url.path}
        body = self._env.get_template(template).render({**shared, **data})
        return HTMLResponse(body, status, headers={**HEADERS, **(headers or {})})


def segment(text: str) -> str:
    """`text` as one part of a path, whatever is in it."""
    return quote(text, safe="")


def short_test(test_id: str) -> str:
    """`latency/test_latency.py::test_ttft[q4]` → `latency::ttft[q4]`: the parts that tell tests apart."""
    path, _, name = test_id.partition("::")
    if not name:
        return test_id
    folder, _, file = path.rpartition("/")
    module = file.removesuffix(".py").removeprefix("test_")
    where = folder if folder.rpartition("/")[2] == module or not module else "/".join(filter(None, (folder, module)))
    return f"{where or module}::{name.removeprefix('test_')}"


def breakable(text: str) -> Markup:
    """Long names may break after their separators."""
    escaped = str(Markup.escape(text))
    for mark in ("::", "/", "_"):
        escaped = escaped.replace(mark, f"{mark}<wbr>")
    return Markup(escaped)
