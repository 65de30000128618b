"""The server's process: one per state folder, its socket, its log, its first words, its end.

    python -m farm.server --state DIR --host ADDRESS --port PORT --inventory FILE [--no-agent]

Without an agent it is one of any number of servers of a farm on PostgreSQL, and touches no device.

A lock on `<state>/server.lock` lives as long as the process, however it ends: two servers never share a state folder.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

import uvicorn

from farm.app import Farm, build
from farm.domain.frames import MAX_FRAME
from farm.presence import Presence
from farm.settings import Settings, SettingsError, load, refuse_sqlite

log = logging.getLogger("farm.server")

#: An answer that is being sent when the server is told to stop has this long, seconds.
GRACE_S = 3
#: An agent that does not answer a ping of its channel for twice as long is gone, seconds.
PING_S = 5


class AlreadyRunning(RuntimeError):
    """Another process serves this state folder."""


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal; 0 after an ordinary end."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)  # what it finds on import
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    try:
        settings = load(state=options.state, host=options.host, port=options.port, inventory=options.inventory)
        if options.no_agent:
            refuse_sqlite(settings, "farm server")
        settings.state.mkdir(parents=True, exist_ok=True)
        with lock(settings.state / "server.lock"), _listen(settings) as listener:
            serve(settings, listener, agent=not options.no_agent, token_fd=options.token_fd)
    except (SettingsError, AlreadyRunning) as error:
        print(f"farm: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m farm.server", description="Serve the farm of a state folder.")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--inventory", type=Path)
    parser.add_argument("--token-fd", type=int, help="write the first start's admin token here and not into the log")
    parser.add_argument(
        "--no-agent", action="store_true", help="only serve and plan: agents are processes of their own"
    )
    return parser


def serve(settings: Settings, listener: socket.socket, *, agent: bool = True, token_fd: int | None = None) -> None:
    """Run the application on `listener` until SIGINT or SIGTERM."""
    farm = build(settings, agent=agent)
    server = _Server(
        uvicorn.Config(
            farm.app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
            proxy_headers=False,
            ws="websockets-sansio",
            ws_max_size=MAX_FRAME,
            ws_ping_interval=PING_S,
            ws_ping_timeout=2 * PING_S,
        ),
        settings,
        farm,
        _url(settings, listener),
        token_fd,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises the signal again once it has stopped, for whoever started it: there is nothing left to do then.
        signal.signal(number, lambda *_: None)
    try:
        server.run(sockets=[listener])
    finally:
        _forget(settings)


class _Server(uvicorn.Server):
    """Says where it is once it answers, and ends live streams when it is told to stop."""

    def __init__(
        self, config: uvicorn.Config, settings: Settings, farm: Farm, url: str, token_fd: int | None = None
    ) -> None:
        super().__init__(config)
        self._settings, self._farm, self._url, self._token_fd = settings, farm, url, token_fd
        self._presence = None if settings.is_sqlite else Presence(farm.db, settings.server_url or url)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _announce(self._settings, self._url)
            if self._presence is not None:
                self._presence.start()
            self._tell_token()
            print(f"The farm is up: {self._url}  (`farm login` prints a link that logs a browser in)", flush=True)

    def _tell_token(self) -> None:
        """To whoever started this process, where they listen for it: a log is no place for a secret."""
        token = self._farm.first.admin_token
        if self._token_fd is not None:
            with os.fdopen(self._token_fd, "w") as out:
                out.write(token or "")
        elif token:
            print(f"Admin token, shown this once: {token}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping: asyncio.Event | None = getattr(self._farm.app.state, "stopping", None)
        if stopping is not None:
            stopping.set()
        self._farm.app.state.channels.stopping = True
        if self._presence is not None and self.started:
            await asyncio.to_thread(self._presence.stop)
        await super().shutdown(sockets)


def lock(path: Path) -> IO[str]:
    """The lock of a state folder, for as long as the file is open. Raises AlreadyRunning."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise AlreadyRunning(f"a farm runs already on {path.parent}: `farm down` stops it") from None
    return file


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio sends each piece of an answer at once: otherwise the last piece of every answer
    # waits for the acknowledgement of the one before, which the other side delays by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise SettingsError(f"cannot listen on {where}: {error.strerror}; --port 0 takes any free port") from None
    return listener


def _url(settings: Settings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _announce(settings: Settings, url: str) -> None:
    from farm.cli.processes import start_time

    told = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "url": url}
    part = settings.server_file.with_suffix(".part")
    part.write_text(json.dumps(told))
    part.replace(settings.server_file)


def _forget(settings: Settings) -> None:
    with suppress(OSError, ValueError):
        if json.loads(settings.server_file.read_text()).get("pid") == os.getpid():
            settings.server_file.unlink()


if __name__ == "__main__":
    sys.exit(main())
