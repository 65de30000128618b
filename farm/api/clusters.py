"""Clusters of incidents: list, show, name, mute."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from farm.api.auth import needs
from farm.api.context import Audit, Farm, Who
from farm.api.errors import ApiError, not_found, sentence
from farm.api.json import encode
from farm.store import clusters
from farm.store.people import Scope
from farm.store.reads import clusters as reads

router = APIRouter(prefix="/api/clusters", tags=["evidence"])

Ident = Annotated[int, Path(ge=1, le=2**31 - 1)]


class Named(BaseModel):
    """A cluster's name."""

    model_config = ConfigDict(extra="forbid")
    name: str | None = Field(max_length=200, description="null or empty: none any more")


class Muted(BaseModel):
    """Whether a cluster is left out of lists."""

    model_config = ConfigDict(extra="forbid")
    muted: bool
    reason: str = Field(default="", max_length=300, description="why; needed to mute")


@router.get("", summary="Clusters of incidents")
def list_clusters(farm: Farm, muted: Annotated[bool, Query(description="muted ones too")] = False) -> dict[str, Any]:
    """Incidents that are one fault, with first and last seen, devices, bundles and rate; those seen last first."""
    with farm.db.read() as session:
        return {"clusters": encode(reads.clusters(session, farm.db.now(session), muted=muted))}


@router.get("/{cluster_id}", summary="One cluster")
def show(farm: Farm, cluster_id: Ident) -> dict[str, Any]:
    """Its signatures, devices, bundles and newest incidents."""
    with farm.db.read() as session:
        found = reads.cluster(session, cluster_id, farm.db.now(session))
    if found is None:
        raise not_found(f"cluster {cluster_id}", "`farm clusters`")
    return dict(encode(found))


@router.put("/{cluster_id}/name", summary="Name a cluster", dependencies=[needs(Scope.SUBMIT, "cluster.name")])
def rename(farm: Farm, who: Who, note: Audit, cluster_id: Ident, wanted: Named) -> dict[str, Any]:
    """A named cluster is never joined to another one."""
    name = (wanted.name or "").strip() or None
    with farm.db.session() as session:
        now = farm.db.now(session)
        try:
            clusters.rename(session, cluster_id, name, who.name, now)
        except clusters.NoSuchCluster as error:
            raise ApiError(404, "not-found", f"{sentence(error)}.") from None
        note.write(session, now, f"cluster {cluster_id}", name=name)
    return {"id": cluster_id, "name": name}


@router.put("/{cluster_id}/mute", summary="Mute a cluster", dependencies=[needs(Scope.SUBMIT, "cluster.mute")])
def mute(farm: Farm, who: Who, note: Audit, cluster_id: Ident, wanted: Muted) -> dict[str, Any]:
    """Left out of lists from now on, or shown again; it goes on counting."""
    reason = wanted.reason.strip()
    if wanted.muted and len(reason) < 3:
        raise ApiError(422, "bad-input", "To mute a cluster, say why in at least 3 characters.")
    with farm.db.session() as session:
        now = farm.db.now(session)
        try:
            if wanted.muted:
                clusters.mute(session, cluster_id, reason, who.name, now)
            else:
                clusters.unmute(session, cluster_id, now)
        except clusters.NoSuchCluster as error:
            raise ApiError(404, "not-found", f"{sentence(error)}.") from None
        note.write(session, now, f"cluster {cluster_id}", muted=wanted.muted, reason=reason or None)
    return {"id": cluster_id, "muted": wanted.muted}
