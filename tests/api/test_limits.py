"""Nobody sends more than a route asks for, whatever its Content-Length says, and nobody sends it for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
from starlette.types import Message, Receive, Scope, Send

from farm.api.limits import DEFAULT_LIMIT, LIMITS, MIB, BodyLimit, limit_of
from tests.served import Served


def pieces(total: int) -> Iterator[bytes]:
    for _ in range(0, total, 65536):
        yield b"x" * 65536


def test_a_body_that_says_it_is_too_large_is_refused_at_once(served: Served) -> None:
    answer = served.ask("POST", "/api/runs", content=b"x" * (DEFAULT_LIMIT + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too-large")
    assert answer.json()["error"]["detail"] == {"limit": DEFAULT_LIMIT}


def test_a_body_without_a_length_is_counted(served: Served) -> None:
    answer = served.ask("POST", "/api/runs", content=pieces(DEFAULT_LIMIT * 2))
    assert answer.status_code == 413


def test_a_login_form_is_counted_too(served: Served) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = served.client.post("/login", content=pieces(DEFAULT_LIMIT * 2), headers=form)
    assert answer.status_code == 413


def test_a_declared_terabyte_is_refused_before_a_byte_of_it(served: Served) -> None:
    with socket.create_connection((served.client.base_url.host, served.client.base_url.port), timeout=60) as raw:
        head = f"PUT /api/blobs/{'0' * 64} HTTP/1.1\r\nHost: farm\r\nAuthorization: Bearer {served.token}\r\n"
        raw.sendall(head.encode() + b"Content-Length: 1000000000000000\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_each_path_has_its_own_limit() -> None:
    assert limit_of("PUT", "/api/blobs/00") == {prefix: size for _, prefix, size in LIMITS}["/api/blobs/"]
    assert limit_of("POST", "/api/bundles") == 16 * MIB
    assert limit_of("GET", "/api/blobs/00") == DEFAULT_LIMIT
    assert limit_of("POST", "/api/tokens") == DEFAULT_LIMIT


def test_a_body_that_stops_coming_is_given_up() -> None:
    from farm.api.errors import ApiError

    raised: list[ApiError] = []

    async def reads(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        try:
            await receive()
        except ApiError as error:
            raised.append(error)

    came = iter([{"type": "http.request", "body": b"a", "more_body": True}])

    async def receive() -> Message:
        message = next(came, None)
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    async def send(_message: Message) -> None:
        pytest.fail("nothing is to be sent")

    scope = {"type": "http", "method": "POST", "path": "/api/runs", "headers": []}
    asyncio.run(BodyLimit(reads, piece_s=0.01)(scope, receive, send))
    assert raised[0].status_code == 408
