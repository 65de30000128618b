"""Talks HTTP to a farm: the one on this machine, or the one that FARM_URL names. Standard library only.

| variable   | what                                                                   |
|------------|------------------------------------------------------------------------|
| FARM_URL   | base URL of the server; default: the server of the state folder, else  |
|            | the one that `farm login --url` was told last                          |
| FARM_TOKEN | bearer token; default: what `farm login` keeps for that server, and    |
|            | for the state folder's server its local token                          |
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from farm.cli import bad_input
from farm.cli.errors import CliError
from farm.domain.outcomes import ExitCode
from farm.settings import Settings, load

#: Seconds for a connection and for each read of an ordinary answer.
TIMEOUT_S = 30.0
#: Most bytes of a JSON answer.
MAX_ANSWER = 256 * 1024 * 1024


class Unreachable(CliError):
    """No farm answers there."""

    name = "unreachable"


class HttpError(CliError):
    """The farm said no. `status` and `error` are its answer's."""

    def __init__(self, status: int, error: Mapping[str, Any], hint: str = "") -> None:
        self.status = status
        self.error = error
        code = ExitCode.FARM_TROUBLE if status >= 500 else ExitCode.REFUSED
        message = bad_input.words(error) or error.get("message") or f"the farm answered {status}"
        super().__init__(str(message), hint, code)

    @property
    def name(self) -> str:
        return str(self.error.get("code") or super().name)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    id: str
    name: str
    data: str


@dataclass(frozen=True, slots=True)
class Client:
    """A farm by its base URL and a token. `remedy`: what to do when it does not answer."""

    url: str
    token: str
    remedy: str = "start one with `farm up`"

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        return self._json("GET", path + _query(query))

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        return self._json("POST", path, json.dumps(body).encode() if body is not None else b"", headers)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """PUT, PATCH or DELETE with a JSON body."""
        return self._json(method, path, json.dumps(body).encode() if body is not None else b"")

    def put(self, path: str, source: IO[bytes], size: int) -> Any:
        """Send a file of `size` bytes."""
        return self._json(
            "PUT", path, source, {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        )

    def text(self, path: str, query: Mapping[str, object] | None = None) -> tuple[bytes, Mapping[str, str]]:
        """(body, headers) of an answer that is no JSON; header names in lower case."""
        with self._request("GET", path + _query(query)) as answer:
            return answer.read(MAX_ANSWER), {name.lower(): value for name, value in answer.getheaders()}

    def events(self, query: Mapping[str, object] | None = None, last_id: str | None = None) -> Iterator[Event]:
        """Live changes, until the server ends the stream. Raises Unreachable when it goes away or falls silent."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        with self._request("GET", "/api/events" + _query(query), headers=headers) as answer:
            yield from _parse_events(answer)

    def page(self, path: str) -> str:
        """The address of a page for a browser."""
        return self.url + path

    def _json(
        self, method: str, path: str, body: bytes | IO[bytes] | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        with self._request(method, path, body, headers) as answer:
            data = answer.read(MAX_ANSWER)
        try:
            return json.loads(data) if data else None
        except ValueError:
            raise CliError(f"{self.url} answered with something that is no JSON", "is FARM_URL a farm?") from None

    @contextmanager
    def _request(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        connection, prefix = _connection(self.url)
        sent = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "User-Agent": "farm-cli"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, prefix + path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            if answer.status >= 400:
                raise _http_error(answer)
            yield answer
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"no farm answers at {self.url}: {reason}", self.remedy) from error
        finally:
            connection.close()


def connect(settings: Settings | None = None) -> Client:
    """The farm that FARM_URL names, else the one of the state folder, else the demo's that is up below it, else the one
    that was logged in to last.

    Raises CliError when none is there.
    """
    settings = settings or here()
    url = os.environ.get("FARM_URL", "").rstrip("/")
    token = os.environ.get("FARM_TOKEN", "").strip()
    if url and token:
        return Client(url, token)
    if url:
        return Client(url, _kept_token(url))
    if read_server(settings) is None and not os.environ.get("FARM_STATE"):
        current = _current()
        if current is not None:
            return Client(current.url, token or current.token)
    return of_state_folder(settings, token)


def of_state_folder(settings: Settings, token: str = "") -> Client:
    """The farm of this state folder, whatever the environment names; `token` empty: the folder's own.

    Raises CliError when none is there.
    """
    server = read_server(settings)
    if server is None:
        raise Unreachable(f"no farm runs here (nothing in {settings.state})", start_words(settings))
    return Client(str(server["url"]), token or _local_token(settings), start_words(settings))


def _local_token(settings: Settings) -> str:
    try:
        return settings.token_file.read_text().strip()
    except OSError as error:
        raise CliError(
            f"the local token {settings.token_file} cannot be read: {error.strerror}",
            "ask the user who runs the farm, or export FARM_TOKEN=…",
        ) from None


def start_words(settings: Settings) -> str:
    """How to start the farm of the state folder: a demo's that is not up is still there, and `farm up` is another's."""
    usual = load().state
    demo = settings.state if settings.state != usual else usual / "demo"
    held = "" if os.environ.get("FARM_STATE") or not _holds_farm(demo) else f"`farm up --state {_short(demo)}`"
    if held and (settings.state != usual or not _holds_farm(usual)):
        return f"start it again with {held}"
    return f"start one with `farm up`, or {f'the demo again with {held}' if held else 'see `farm demo`'}"


def _holds_farm(state: Path) -> bool:
    return (state / "farm.sqlite").exists()


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _kept_token(url: str) -> str:
    from farm.cli.credentials import load_credentials

    token = load_credentials().token(url)
    if token is None:
        raise CliError(
            "FARM_URL is set but FARM_TOKEN is not, and no token is kept for it",
            f"farm login --url {url}, or export FARM_TOKEN=…",
        )
    return token


def _current() -> Client | None:
    """The farm that was logged in to last."""
    from farm.cli.credentials import load_credentials

    kept = load_credentials()
    return Client(kept.current, kept.tokens[kept.current]) if kept.current is not None else None


def here() -> Settings:
    """The state folder's settings; the demo's, when only that one runs and no folder was named."""
    settings = load()
    if not os.environ.get("FARM_STATE") and read_server(settings) is None:
        demo = load(state=settings.state / "demo")
        if read_server(demo) is not None:
            return demo
    return settings


def read_server(settings: Settings) -> dict[str, Any] | None:
    """What the running server of the state folder wrote about itself; None when there is none."""
    try:
        server = json.loads(settings.server_file.read_text())
    except (OSError, ValueError):
        return None
    return server if isinstance(server, dict) and isinstance(server.get("url"), str) else None


def segment(value: object) -> str:
    """`value` as one segment of a path."""
    return quote(str(value), safe="")


def _query(query: Mapping[str, object] | None) -> str:
    given = {key: value for key, value in (query or {}).items() if value is not None}
    return "?" + urlencode(given) if given else ""


def server_url(url: str, what: str = "FARM_URL") -> str:
    """The base URL of a farm without a slash at its end. Raises CliError, naming `what`, when it cannot be one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CliError(f"{what} is {url!r}: give one like https://farm.example.com", code=ExitCode.REFUSED)
    try:
        _ = parts.port
    except ValueError:
        raise CliError(f"{what} is {url!r}: its port is no number", code=ExitCode.REFUSED) from None
    return url.rstrip("/")


def _connection(url: str) -> tuple[http.client.HTTPConnection, str]:
    parts = urlsplit(server_url(url))
    host, port = parts.hostname or "", parts.port
    prefix = parts.path.rstrip("/")
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context), prefix
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S), prefix


def _http_error(answer: http.client.HTTPResponse) -> HttpError:
    try:
        error = json.loads(answer.read(1024 * 1024))["error"]
        assert isinstance(error, dict)
    except (ValueError, KeyError, TypeError, AssertionError):
        error = {"code": "error", "message": f"the farm answered {answer.status} {answer.reason}", "detail": None}
    hint = (
        "log in anew (`farm login --url URL`): the token is not, or no longer, known there"
        if answer.status == 401
        else ""
    )
    return HttpError(answer.status, error, hint)


def _parse_events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    ident, name, data = "", "message", ""
    for raw in iter(lambda: answer.readline(65536), b""):
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield Event(ident, name, data)
            name, data = "message", ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            ident = value
        elif field == "event":
            name = value
        elif field == "data":
            data += value
        elif field == "":
            yield Event(ident, "", "")  # a sign of life
