"""What a host that had been lost kept of an attempt stands on the attempt's page and its run's, beside the outcome."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.store import tables as t
from tests.api.rows import an_attempt
from tests.served import Served, serve


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("state")) as made:
        yield made


def test_late_truth_is_told_with_its_host_and_the_outcome_stands(served: Served) -> None:
    run, attempt = an_attempt(served, ended=True)
    words = "its runner ended crashed (<b>SIGSEGV</b>); 1 test ended unheard and counts for nothing: 1 failed"
    with served.farm.db.session() as session:
        row = session.get_one(t.Attempt, attempt)
        row.late_at, row.late_outcome, row.late_reason = served.farm.db.now(session), "crashed", words
    page = served.ask("GET", f"/attempts/{attempt}").text
    assert 'Arrived late from <span class="mono">local</span>' in page
    assert "(&lt;b&gt;SIGSEGV&lt;/b&gt;)" in page
    assert "The recorded outcome stands." in page
    assert "Later it turned out" not in page
    assert "arrived late from local: its runner ended crashed" in served.ask("GET", f"/runs/{run}").text
    assert served.ask("GET", f"/api/attempts/{attempt}").json()["attempt"]["host"] == "local"
