"""The server that plans groups new signatures, in a process of its own, and only when there are new ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select

from farm.store import tables
from farm.store.db import Database
from farm.work.grouping import Grouping
from tests.work.factories import add_device

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HEAD = "pid: 7, tid: 7, name: x  >>> x <<<\nsignal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0\n"
FRAMES = ("ggml_compute_forward_mul_mat", "ggml_graph_compute", "llama_decode", "answer_loop")


def happened(db: Database, *functions: str) -> None:
    """An incident of before there were signatures."""
    lines = "\n".join(f"      #{n:02d} pc {n:016x}  /d/libllama.so ({f}+4)" for n, f in enumerate(functions))
    with db.session() as session:
        session.add(tables.Incident(device_id=1, at=NOW, klass="engine-crashed", summary="x", evidence=HEAD + lines))


def clusters(db: Database) -> int:
    with db.read() as session:
        return session.scalar(select(func.count()).select_from(tables.Cluster)) or 0


def test_new_signatures_are_grouped_once(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    add_device(db, "V1")
    happened(db, *FRAMES)
    happened(db, *FRAMES[:3])
    happened(db, "JNI_OnLoad")
    grouping = Grouping(db)
    assert grouping.once() == 1
    assert clusters(db) == 2
    monkeypatch.setattr(grouping, "_labels", lambda _texts: pytest.fail("nothing is new: nobody is asked"))
    happened(db, *FRAMES)
    assert grouping.once() == 0


def test_the_other_process_says_why_it_failed(db: Database) -> None:
    with pytest.raises(RuntimeError, match="grouping ended"):
        Grouping(db)._labels([None, None])  # type: ignore[list-item]
