"""Bundles and suite packs: a manifest each, and the blobs that manifests name.

A client sends the manifest first. When files are missing the answer is 409 with their hashes; the client sends these
blobs and the manifest again. What the farm has is never sent twice, whoever sent it first.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import IO, Annotated, Any, Protocol, cast

from anyio import from_thread, to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from farm.api.auth import needs
from farm.api.context import Audit, Context, Farm, Who
from farm.api.errors import ApiError, not_found
from farm.api.json import encode
from farm.api.limits import limit_of
from farm.domain.manifests import ManifestError
from farm.store import bundles as store
from farm.store.audit import Note
from farm.store.bundles import Imported, MissingBlobs
from farm.store.people import Scope
from farm.store.reads import bundles as reads

router = APIRouter(prefix="/api", tags=["bundles"])

Hash = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256, 64 lower-case hexadecimal digits")]
Limit = Annotated[int, Query(ge=1, le=500)]


class Manifest(BaseModel):
    """What `farm bundle build` and `farm suite pack` make of a folder: the manifest with every file's hash and size."""

    model_config = ConfigDict(extra="forbid")
    manifest: dict[str, Any] = Field(description="the manifest as written by the client; checked anew here")


@router.get("/bundles", summary="All bundles")
def list_bundles(farm: Farm, limit: Limit = 100) -> dict[str, Any]:
    """Newest first."""
    with farm.db.read() as session:
        return {"bundles": encode(reads.bundles(session, limit))}


@router.get("/bundles/{ref}", summary="One bundle")
def show_bundle(
    farm: Farm, ref: Annotated[str, Path(max_length=200, description="hash, its beginning, or a name")]
) -> dict[str, Any]:
    """Its row and its manifest."""
    with farm.db.read() as session:
        found = reads.bundle(session, ref)
    if found is None:
        raise not_found("such bundle", "`farm bundle list`")
    return dict(encode(found))


@router.get("/packs", summary="All suite packs")
def list_packs(farm: Farm, limit: Limit = 100) -> dict[str, Any]:
    """Newest first, with the suites that each declares."""
    with farm.db.read() as session:
        return {"packs": encode(reads.packs(session, limit))}


class _Register(Protocol):
    def __call__(self, *args: Any) -> Imported: ...


@router.post("/bundles", summary="Record a bundle", status_code=201, dependencies=[needs(Scope.SUBMIT, "bundle.send")])
def add_bundle(farm: Farm, who: Who, note: Audit, body: Manifest, response: Response) -> dict[str, Any]:
    """201 when it is new, 200 when it was here, 409 with the hashes of the files to send first."""
    return _register(store.register_bundle, farm, who.name, note, body, response)


@router.post("/packs", summary="Record a suite pack", status_code=201, dependencies=[needs(Scope.SUBMIT, "pack.send")])
def add_pack(farm: Farm, who: Who, note: Audit, body: Manifest, response: Response) -> dict[str, Any]:
    """The same for a suite pack."""
    return _register(store.register_pack, farm, who.name, note, body, response)


def _register(
    register: _Register, farm: Context, by: str, note: Note, body: Manifest, response: Response
) -> dict[str, Any]:
    try:
        with farm.db.session() as session:
            imported = register(session, farm.artifacts, body.manifest, farm.now(), by)
    except MissingBlobs as missing:
        raise ApiError(409, "missing-blobs", f"{missing}: send them first.", {"missing": missing.hashes}) from None
    except ManifestError as wrong:
        raise ApiError(422, "bad-manifest", str(wrong)) from None
    response.status_code = 201 if imported.new else 200
    note.target, note.detail = imported.hash, {"name": imported.name}
    note.done = not imported.new
    return dict(encode(imported))


@router.head("/blobs/{sha256}", summary="Whether a blob is here")
def has_blob(farm: Farm, sha256: Hash) -> Response:
    """200 or 404."""
    if not farm.artifacts.has(sha256):
        return Response(status_code=404)
    return Response(headers={"Content-Length": str(farm.artifacts.size(sha256))})


@router.put("/blobs/{sha256}", summary="Send a blob", status_code=201, dependencies=[needs(Scope.SUBMIT)])
async def put_blob(request: Request, farm: Farm, sha256: Hash) -> dict[str, Any]:
    """The body is the file. It is hashed on its way to a temporary file; another hash than the address's is refused."""
    source = _Body(request.stream())
    limit = limit_of("PUT", request.url.path)
    try:
        stored, size = await to_thread.run_sync(lambda: farm.artifacts.put(cast("IO[bytes]", source), sha256, limit))
    except ValueError as wrong:
        raise ApiError(422, "wrong-hash", f"The body is not what its address says: {wrong}") from None
    return {"sha256": stored, "bytes": size}


class _Body(io.RawIOBase):
    """A request's body as a file for a worker thread: each `read` waits for the event loop's next piece."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")
        self._over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held and not self._over:
            piece = from_thread.run(self._next_piece)
            self._over = piece is None
            self._held = memoryview(piece or b"")
        count = min(len(self._held), len(buffer))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    async def _next_piece(self) -> bytes | None:
        """The next piece that holds something; None at the end."""
        while True:
            try:
                piece: bytes = await self._pieces.__anext__()
            except StopAsyncIteration:
                return None
            if piece:
                return piece
