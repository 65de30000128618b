"""An agent's heart in a process of its own: it keeps the places of a host fresh until it is stopped or killed.

    python -m benchmarks.pairs.heart DATABASE_URL STATE HOST [SERVER_URL]

With a server it registers, and connects the agent's own channel first.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

from benchmarks.pairs.server import heart
from farm.store import hosts
from farm.store.db import Database
from farm.work import queue
from farm.work.channel import AgentChannel, Identity

CONNECT_S = 60.0


def main(url: str, state: str, host: str, server: str = "") -> None:
    db = Database(url)
    channel = connected(db, host, server) if server else None
    beating = heart(db, Path(state), host)
    beating.start()
    print("beats", flush=True)
    sys.stdin.read()
    if channel is not None:
        channel.stop()
    beating.stop()
    db.close()


def connected(db: Database, host: str, server: str) -> AgentChannel:
    """The host's channel to this server, up."""
    me = Identity(host, secrets.token_hex(8), secrets.token_hex(16), queue.PROTOCOL)
    with db.session() as session:
        hosts.register(session, host, me.incarnation, me.secret, {}, db.now(session))
    channel = AgentChannel(me, lambda: [server], {}, lambda _lease: False)
    channel.start()
    if not channel.connected.wait(CONNECT_S):
        raise RuntimeError(f"no channel to {server} within {CONNECT_S:g} s")
    return channel


if __name__ == "__main__":
    main(*sys.argv[1:5])
