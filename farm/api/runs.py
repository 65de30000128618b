"""Runs: queue one, look at it, cancel it, run its failures again."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlalchemy import select

from farm.api.auth import needs
from farm.api.context import Audit, Context, Farm, Who
from farm.api.errors import ApiError, not_found
from farm.api.json import encode
from farm.domain.selectors import words_of
from farm.store.people import Principal, Scope
from farm.store.reads import results
from farm.store.reads import runs as reads
from farm.store.tables import Attempt, Job, Run
from farm.work import submit as door

router = APIRouter(prefix="/api/runs", tags=["runs"])

MAX_ID = 2**63 - 1
RunId = Annotated[int, Path(ge=1, le=MAX_ID)]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class NewRun(BaseModel):
    """What to run where."""

    model_config = ConfigDict(extra="forbid")
    bundle: str = Field(min_length=1, max_length=200, description="hash, its beginning (8 or more), or name (newest)")
    suites: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(min_length=1, max_length=100)
    selector: str = Field(default="*", max_length=2000, description="which devices, e.g. `soc=RK3568 ram_gb>=8`")
    pack: str | None = Field(default=None, max_length=200, description="suite pack; null: the built-in one")
    klass: Literal["debug", "pr", "manual", "nightly"] = "manual"
    title: str | None = Field(default=None, max_length=300)
    mode: Literal["each", "any", "shard"] = Field(
        default="each",
        description="a job on each matching device; one job on whichever is free first; or `shards` such jobs that "
        "share the tests out by how long they took before",
    )
    shards: int = Field(default=2, ge=2, le=100, description="how many parts, with the mode `shard`")
    tests: list[Annotated[str, Field(min_length=1, max_length=500)]] | None = Field(default=None, max_length=10_000)
    env: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="variables of the engine's process by device name or serial; `*`: all"
    )
    params: dict[str, Any] = Field(default_factory=dict, description="parameters handed to the suites")
    confirm: bool = Field(
        default=False, description="run what the engine failed at once more, on a second device of the model"
    )

    @field_validator("env")
    @classmethod
    def _variables(cls, env: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        if len(env) > 500 or sum(len(values) for values in env.values()) > 2000:
            raise ValueError("too many variables")
        for values in env.values():
            for key, value in values.items():
                if not _VARIABLE.fullmatch(key):
                    raise ValueError(f"{key[:60]!r} is no name of a variable")
                if len(value) > 4096 or "\0" in value:
                    raise ValueError(f"the value of {key!r} is longer than 4096 characters or holds a NUL")
        return env


class Draft(NewRun):
    """A run of a bundle that is still to be sent: `bundle` is its name, `abis` what it has files for."""

    abis: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(min_length=1, max_length=100)


class Question(BaseModel):
    """A selector to be tried out."""

    model_config = ConfigDict(extra="forbid")
    selector: str = Field(default="*", max_length=2000)
    bundle: str | None = Field(default=None, max_length=200, description="count its ABIs too, as a submission would")
    pack: str | None = Field(default=None, max_length=200, description="whose suites; the farm's own")
    suites: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, max_length=100, description="count what they need"
    )


@router.get("", summary="Runs, newest first")
def list_runs(
    farm: Farm,
    state: Literal["queued", "running", "ended"] | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="only runs with a smaller id")] = None,
    text: Annotated[str | None, Query(max_length=200, description="in title, bundle or submitter")] = None,
    team: Annotated[str | None, Query(max_length=100, description="only this team's")] = None,
) -> dict[str, Any]:
    """A page of runs; `before` in the answer asks for the next one."""
    with farm.db.read() as session:
        page = encode(reads.runs(session, state=state, before=before, limit=limit, text=text, team=team))
    return {"runs": page["rows"], "before": page["before"]}


@router.post("", summary="Queue a run", status_code=201, dependencies=[needs(Scope.SUBMIT, "run.submit")])
def submit(
    farm: Farm,
    who: Who,
    note: Audit,
    new: NewRun,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> dict[str, Any]:
    """Refused with 422 when it cannot work: nothing matches (with the nearest devices and what differs), an unknown
    bundle or suite, no file for a device's ABI. The same Idempotency-Key twice gives the same run."""
    run_id = door.submit(farm.db, _request(new, who, idempotency_key), farm.now())
    note.target = f"run {run_id}"
    note.detail = {"bundle": new.bundle, "suites": new.suites, "selector": new.selector, "class": new.klass}
    return {"id": run_id, "path": f"/runs/{run_id}"}


@router.post("/check", summary="Whether a run would be queued", dependencies=[needs(Scope.READ)])
def check(farm: Farm, who: Who, draft: Draft) -> dict[str, Any]:
    """The devices that it would run on, or the refusal that the run would get: asked before a bundle is sent."""
    return {"devices": door.check_run(farm.db, _request(draft, who, None), draft.abis)}


def _request(new: NewRun, who: Who, idempotency_key: str | None) -> door.RunRequest:
    return door.RunRequest(
        bundle=new.bundle,
        suites=tuple(new.suites),
        selector=new.selector,
        pack=new.pack,
        klass=new.klass,
        title=new.title,
        mode=new.mode,
        shards=new.shards,
        tests=tuple(new.tests) if new.tests is not None else None,
        env=new.env,
        params=new.params,
        confirm=new.confirm,
        created_by=who.name,
        team=who.team,
        token_id=who.root_id,  # sessions count as the token that they were begun with
        idempotency_key=idempotency_key,
    )


@router.post("/preview", summary="What a selector picks", dependencies=[needs(Scope.READ)])
def preview(farm: Farm, question: Question) -> dict[str, Any]:
    """Devices that match now; of those that do not, the nearest and what differs; or where the selector is wrong."""
    found = door.preview(farm.db, question.selector, question.bundle, question.pack, question.suites)
    error = found.error
    return {
        "matching": encode(found.matching),
        "nearest": [
            {"name": miss.device.name, "serial": miss.device.serial, "failed": encode(miss.failed), "why": miss.words()}
            for miss in found.nearest
        ],
        "nearest_words": words_of(found.nearest),
        "error": error
        and {"message": error.message, "position": error.position, "suggestion": error.suggestion or None},
        "refusal": found.refusal and {"code": found.refusal.code, "message": found.refusal.message},
    }


@router.get("/{run_id}", summary="One run")
def show_run(farm: Farm, run_id: RunId) -> dict[str, Any]:
    """Jobs, attempts, test matrix, measurements, incidents."""
    with farm.db.read() as session:
        found = reads.run(session, run_id, farm.now())
    if found is None:
        raise not_found(f"run {run_id}", "`farm runs`")
    return dict(encode(found))


@router.get("/{run_id}/measurements", summary="Measurements of a run")
def show_measurements(farm: Farm, run_id: RunId) -> dict[str, Any]:
    """Every measurement with its raw values, marks, median, spread and count."""
    with farm.db.read() as session:
        if session.get(Run, run_id) is None:
            raise not_found(f"run {run_id}", "`farm runs`")
        attempts = session.scalars(select(Attempt.id).join(Job).where(Job.run_id == run_id)).all()
        return {"measurements": encode(results.measurements(session, attempts))}


@router.post(
    "/{run_id}/cancel", summary="Cancel a run", status_code=202, dependencies=[needs(Scope.SUBMIT, "run.cancel")]
)
def cancel(farm: Farm, who: Who, note: Audit, run_id: RunId) -> dict[str, Any]:
    """What waits ends at once; what runs is stopped, its evidence collected and its device cleaned first."""
    run = _refuse_other_teams(farm, who, run_id)
    door.cancel(farm.db, run_id, who.name)
    note.target, note.detail = f"run {run_id}", run
    return {"id": run_id, "cancelling": True}


@router.post(
    "/{run_id}/rerun",
    summary="Run the failures again",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT, "run.rerun")],
)
def rerun(farm: Farm, who: Who, note: Audit, run_id: RunId) -> dict[str, Any]:
    """A new run of the jobs that did not pass."""
    _refuse_other_teams(farm, who, run_id)
    new_id = door.rerun_failed(farm.db, run_id, who.name)
    note.target, note.detail = f"run {new_id}", {"of": run_id}
    return {"id": new_id, "path": f"/runs/{new_id}"}


def _refuse_other_teams(farm: Context, who: Principal, run_id: int) -> dict[str, Any]:
    """What the audit log tells of the run. Raises 403 when it is another team's; one that is not there is somebody
    else's refusal."""
    with farm.db.read() as session:
        run = session.get(Run, run_id)
    if run is not None and not who.may_act_for(run.team):
        raise ApiError(403, "other-team", f"Run {run_id} is team {run.team!r}'s: they or an operator may do that.")
    return {} if run is None else {"title": run.title, "team": run.team, "was": run.state}
