"""A log that grows on another host is read over the channel of its agent, by the page and by `farm logs` alike."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from farm.api import live_logs
from farm.api.live_logs import LiveLogs
from farm.domain.frames import MAX_PAYLOAD
from farm.store import hosts, tables
from farm.work.channel import AgentChannel, AgentStream, Identity, Offer
from farm.work.live_logs import log_service
from tests.api.rows import an_attempt
from tests.served import Served, serve
from tests.waiting import eventually

HOST = "lab-2"
SECRET = "a secret that only the agent and the database know"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("state")) as made:
        with made.farm.db.session() as session:
            hosts.register(session, HOST, "one", SECRET, {}, made.farm.db.now(session))
        yield made


@pytest.fixture
def attempt(served: Served) -> int:
    """An attempt under way on the other host."""
    _, attempt_id = an_attempt(served)
    with served.farm.db.session() as session:
        session.get_one(tables.Attempt, attempt_id).host = HOST
    return attempt_id


class Agent:
    """The other host's agent, as far as its channel goes."""

    def __init__(self, served: Served, offer: Offer) -> None:
        identity = Identity(HOST, "one", SECRET, "1")
        self._channel = AgentChannel(identity, lambda: [served.origin], {"log": offer}, lambda _lease: False)
        self._channel.start()
        known = served.farm.app.state.channels.hosts
        eventually(lambda: HOST in known(), what="the server knows the channel")
        self._known = known

    def stop(self) -> None:
        self._channel.stop()
        eventually(lambda: HOST not in self._known(), what="the server knows that it is gone")


@pytest.fixture
def elsewhere(served: Served, tmp_path: Path) -> Iterator[Path]:
    """The state folder of the other host, whose agent is connected."""
    agent = Agent(served, Offer(log_service(tmp_path), needs_lease=False))
    yield tmp_path
    agent.stop()


def written(state: Path, attempt_id: int, name: str, data: bytes) -> None:
    folder = state / "attempts" / str(attempt_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("ab") as file:
        file.write(data)


def piece(served: Served, attempt_id: int, **asked: object) -> tuple[str, int, bool]:
    """(text, where to go on, whether more may come)."""
    answer = served.ask("GET", f"/api/attempts/{attempt_id}/log", params=asked)
    assert answer.status_code == 200
    return answer.text, int(answer.headers["x-log-next"]), answer.headers["x-log-live"] == "true"


def test_a_log_is_followed_while_it_grows_on_another_host(served: Served, attempt: int, elsewhere: Path) -> None:
    assert piece(served, attempt) == ("", 0, True)  # not begun yet
    written(elsewhere, attempt, "runner.log", b"one\n")
    assert piece(served, attempt) == ("one\n", 4, True)
    written(elsewhere, attempt, "runner.log", b"two\n")
    assert piece(served, attempt, offset=4) == ("two\n", 8, True)
    assert piece(served, attempt, offset=-4) == ("two\n", 8, True)
    assert piece(served, attempt, offset=4, limit=2) == ("tw", 6, True)
    page = served.ask("GET", f"/ui/attempts/{attempt}/log").json()
    assert (page["text"], page["exists"]) == ("one\ntwo\n", True)


def test_a_compressed_log_and_one_of_many_frames_arrive_whole(served: Served, attempt: int, elsewhere: Path) -> None:
    written(elsewhere, attempt, "logcat.zst", zstandard.compress(b"I boot: done\n"))
    assert piece(served, attempt, which="logcat") == ("I boot: done\n", 13, True)
    long = b"x" * (3 * MAX_PAYLOAD + 17)
    written(elsewhere, attempt, "runner.log", long)
    text, follow, _ = piece(served, attempt, limit=1 << 20)
    assert (text.encode(), follow) == (long, len(long))


def test_without_a_channel_there_is_no_log_yet(served: Served, attempt: int) -> None:
    assert piece(served, attempt) == ("", 0, True)


def test_an_agent_that_hangs_is_left_alone_for_a_while(
    served: Served, attempt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def hangs(stream: AgentStream) -> None:
        asked.append(stream.number)
        await asyncio.Event().wait()

    monkeypatch.setattr(live_logs, "ANSWER_S", 0.2)
    agent = Agent(served, Offer(hangs, needs_lease=False))
    try:
        logs = LiveLogs(served.farm.app.state.farm, served.farm.app.state.channels)
        assert [logs.read(attempt, "runner", 0, 100) for _ in range(5)] == [None] * 5
        assert len(asked) == 1
    finally:
        agent.stop()
