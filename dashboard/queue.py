"""Queue a run: this bundle, these suites, those devices, with what the selector picks shown while it is typed."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Form, Query
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard import signs, words
from dashboard.errors import gone
from dashboard.house import MAX_ID, House
from dashboard.signs import Sign
from farm.domain.devices import Availability, DeviceFacts
from farm.domain.selector_terms import quoted
from farm.store.people import Scope
from farm.store.reads import bundles as bundle_reads
from farm.store.reads import devices as device_reads
from farm.store.reads import runs as run_reads
from farm.store.reads.bundles import BundleRow, PackRow, SuiteRow
from farm.store.runs import BUILTIN_PACK
from farm.work import submit
from farm.work.submit import Matching, Preview, Refused, RunRequest

#: Classes that a person may choose, and what each is for.
CLASSES = (
    ("manual", "I wait for it"),
    ("debug", "before everything else, for a look"),
    ("pr", "a change to be judged"),
    ("nightly", "when nothing else waits"),
)
MAX_SELECTOR = 2000
#: What chips are offered for.
OFFERED = ("soc", "pool", "type")
Row = TypeVar("Row")

Text = Annotated[str, Form(max_length=MAX_SELECTOR)]
Short = Annotated[str, Form(max_length=300)]


@dataclass(frozen=True, slots=True)
class Draft:
    """What stands in the form."""

    bundle: str = ""
    pack: str = ""
    suites: tuple[str, ...] = ()
    selector: str = ""
    klass: str = "manual"
    title: str = ""
    mode: str = "each"
    shards: int = 2
    confirm: bool = False
    key: str = ""


def suite_words(suite: SuiteRow) -> str:
    """What a suite asks for: `needs vulkan · starts at 45 °C or cooler · at most 10 min`."""
    parts = (
        f"needs {suite.needs}" if suite.needs else "",
        f"starts at {suite.max_temperature_c:g}{words.THIN}°C or cooler" if suite.max_temperature_c is not None else "",
        f"at most {words.duration(suite.limit_s)}" if suite.limit_s is not None else "",
    )
    return " · ".join(filter(None, parts))


def preview_view(preview: Preview) -> dict[str, object]:
    return {
        "matching": [(match, _sign(match), match.why) for match in preview.matching],
        "nearest": [(near.device.name, "; ".join(term.words() for term in near.failed)) for near in preview.nearest],
        "error": preview.error,
        "refusal": preview.refusal,
    }


def chips(facts: Sequence[DeviceFacts]) -> list[tuple[str, int]]:
    """Terms that pick some of these devices, and how many: offered to be put into a selector."""
    common = ((key, value) for device in facts for key, value in device.facts().items() if key in OFFERED)
    found = Counter(f"{key}={quoted(value)}" for key, value in common)
    return [("*", len(facts)), *sorted(found.items())][:14]


def _sign(match: Matching) -> Sign:
    try:
        return signs.of_device(Availability(match.availability))
    except ValueError:
        return Sign("ring", "muted", match.availability)


def _choices(session: Session, draft: Draft) -> tuple[list[BundleRow], list[PackRow]]:
    named = bundle_reads.bundle(session, draft.bundle) if draft.bundle else None
    wanted = bundle_reads.pack(session, draft.pack or BUILTIN_PACK)
    bundles = _offered(bundle_reads.bundles(session, limit=60), named.row if named else None)
    return bundles, _offered(bundle_reads.packs(session, limit=20), wanted)


def _offered(newest: list[Row], wanted: Row | None) -> list[Row]:
    """The newest, and what is wanted though it is older."""
    return newest if wanted is None or wanted in newest else [*newest, wanted]


def _chosen(packs: list[PackRow], wanted: str) -> PackRow | None:
    """The wanted pack, else the farm's own (its newest), which a run takes that names none; else the newest of all."""
    asked = (pack for pack in packs if pack.hash == wanted)
    own = (pack for pack in packs if pack.name == BUILTIN_PACK)
    return next(itertools.chain(asked, own, packs), None)


def add(routes: APIRouter, house: House) -> None:
    db = house.context.db

    def form(request: Request, draft: Draft, refusal: Refused | None = None) -> Response:
        viewer = house.viewer(request)
        with db.read() as session:
            bundles, packs = _choices(session, draft)
            facts = device_reads.facts_of(session)
        if not draft.bundle and bundles:
            draft = replace(draft, bundle=bundles[0].hash)
        pack = _chosen(packs, draft.pack)
        if pack and not draft.suites and refusal is None:
            draft = replace(draft, suites=tuple(s.name for s in pack.suites))
        asked = (draft.selector.strip() or "*", draft.bundle or None, draft.pack or None, draft.suites)
        shown = submit.preview(db, *asked) if bundles else None
        data = {
            "bundles": bundles,
            "packs": packs,
            "pack": pack,
            "BUILTIN_PACK": BUILTIN_PACK,
            "draft": replace(draft, key=draft.key or secrets.token_hex(16)),
            "classes": CLASSES,
            "suite_words": suite_words,
            "chips": chips(facts),
            "refusal": refusal,
            "preview": preview_view(shown) if shown else None,
            "may": house.may_submit(viewer),
            "any_device": bool(facts),
        }
        status = 200 if refusal is None else 422
        return house.page(request, "queue.html", data, viewer=viewer, status=status)

    @routes.get("/runs/new")
    def page(
        request: Request,
        like: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
        on: Annotated[str, Query(max_length=MAX_SELECTOR)] = "",
    ) -> Response:
        """An empty form; `like` fills it from a run, `on` with a selector."""
        house.viewer(request)
        draft = Draft(selector=on)
        if like is not None:
            with db.read() as session:
                rows = run_reads.runs(session, before=like + 1, limit=1).rows
            if rows and rows[0].id == like:
                run = rows[0]
                draft = Draft(run.bundle_hash, run.pack_hash, run.suites, run.selector, run.klass, run.title)
        return form(request, draft)

    @routes.get("/ui/suites")
    def suites_of(request: Request, pack: Annotated[str, Query(max_length=300)] = "") -> Response:
        """The suites of another pack, all of them chosen."""
        viewer = house.viewer(request)
        with db.read() as session:
            found = bundle_reads.pack(session, pack)
        if found is None:
            raise gone("suite pack", pack, ("/runs/new", "to the form"))
        data = {"pack": found, "chosen": [suite.name for suite in found.suites], "suite_words": suite_words}
        return house.page(request, "suites.html", data, viewer=viewer)

    @routes.get("/ui/preview")
    def preview(
        request: Request,
        selector: Annotated[str, Query(max_length=MAX_SELECTOR)] = "",
        bundle: Annotated[str, Query(max_length=200)] = "",
        pack: Annotated[str, Query(max_length=300)] = "",
        suites: Annotated[list[str] | None, Query(max_length=100)] = None,
    ) -> Response:
        viewer = house.viewer(request)
        found = submit.preview(db, selector.strip() or "*", bundle or None, pack or None, suites or ())
        return house.page(request, "preview.html", {"preview": preview_view(found)}, viewer=viewer)

    @routes.post("/ui/runs", dependencies=[house.context.needs(Scope.SUBMIT, "run.submit")])
    def queue(
        request: Request,
        bundle: Short = "",
        pack: Short = "",
        suites: Annotated[list[str] | None, Form(max_length=100)] = None,
        selector: Text = "",
        klass: Short = "manual",
        title: Short = "",
        mode: Annotated[Literal["each", "any", "shard"], Form()] = "each",
        shards: Annotated[int, Form(ge=2, le=100)] = 2,
        confirm: Annotated[bool, Form()] = False,
        key: Short = "",
    ) -> Response:
        """Queue it and go to its page; a refusal is shown beside the form, which keeps what was typed."""
        viewer = house.viewer(request)
        draft = Draft(bundle, pack, tuple(suites or ()), selector, klass, title, mode, shards, confirm, key)
        wanted = RunRequest(
            bundle=bundle,
            suites=draft.suites,
            selector=selector.strip() or "*",
            pack=pack or None,
            klass=klass if klass in dict(CLASSES) else "manual",
            title=title.strip() or None,
            mode=mode,
            shards=shards,
            confirm=confirm,
            created_by=viewer.name,
            team=viewer.team,
            token_id=house.context.principal(request).root_id,
            idempotency_key=key or None,
        )
        try:
            run_id = submit.submit(db, wanted, house.context.clock())
        except Refused as refusal:
            return form(request, draft, refusal)
        note = house.context.note(request)
        note.target = f"run {run_id}"
        note.detail = {"bundle": bundle, "suites": draft.suites, "selector": wanted.selector, "class": wanted.klass}
        return RedirectResponse(f"/runs/{run_id}", 303)
