"""Processor time of a lease + release pair in the application alone: no sockets, no client, no planner, no waiting.

    python -m benchmarks.pairs.work [--pairs 300] [--database URL]

The application is called as its server calls it (ASGI); the place is freed as the agent frees it. What is counted is
this process's own processor time: a busy machine makes it wait, not work more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.pairs.server import Cleaner, add_places, heart
from farm.app import Farm, build
from farm.settings import load

PLACES = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--database", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bl-work-") as folder:
        state = Path(folder)
        environ = {"FARM_DATABASE_URL": options.database} if options.database else {}
        farm = build(load(environ, state=state, port=0, inventory=state / "devices.yaml"), work=False)
        print(json.dumps(asyncio.run(_measure(farm, state, options.pairs))))


async def _measure(farm: Farm, state: Path, pairs: int) -> dict[str, Any]:
    async with farm.app.router.lifespan_context(farm.app):
        add_places(farm.db, PLACES)
        beating = heart(farm.db, state, "places")
        beating.start()
        try:
            cleaner, token = Cleaner(farm.db), farm.first.admin_token or ""
            for _ in range(20):  # what is loaded at the first use is not measured
                await _pair(farm, token, cleaner)
            began, cpu = time.monotonic(), time.process_time()
            for _ in range(pairs):
                await _pair(farm, token, cleaner)
            cpu_ms = (time.process_time() - cpu) / pairs * 1000
            return {"pairs": pairs, "cpu_ms_per_pair": round(cpu_ms, 2), "seconds": round(time.monotonic() - began, 2)}
        finally:
            beating.stop()


async def _pair(farm: Farm, token: str, cleaner: Cleaner) -> None:
    wish = json.dumps({"selector": "pool=places", "for_s": 60}).encode()
    made = await _post(farm, token, "/api/reservations", wish)
    await _post(farm, token, f"/api/leases/{made['lease']['id']}/release", b"")
    cleaner.once()


async def _post(farm: Farm, token: str, path: str, body: bytes) -> Any:
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await farm.app(scope, receive, send)
    answer = json.loads(b"".join(message.get("body", b"") for message in sent))
    if sent[0]["status"] >= 400:
        raise RuntimeError(f"{path}: {answer}")
    return answer


if __name__ == "__main__":
    main()
