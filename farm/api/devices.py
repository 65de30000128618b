"""Devices as the fleet shows them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from farm.api.context import Farm
from farm.api.errors import not_found
from farm.api.json import encode
from farm.store.reads import devices as reads
from farm.store.reads import fleet

router = APIRouter(prefix="/api/devices", tags=["devices"])


@router.get("", summary="All devices")
def list_devices(farm: Farm) -> dict[str, Any]:
    """Every device with its facts, whether it can be used now and why not, and what waits for one."""
    with farm.db.read() as session:
        found = fleet.fleet(session, farm.now())
    shown = encode(found)
    shown["devices"] = shown.pop("tiles")
    return dict(shown)


@router.get("/{ref}", summary="One device")
def show_device(
    farm: Farm, ref: Annotated[str, Path(max_length=200, description="its name, serial number or id")]
) -> dict[str, Any]:
    """Facts, fingerprints, recent attempts, history."""
    with farm.db.read() as session:
        found = reads.device(session, ref, farm.now())
    if found is None:
        raise not_found("such device", "`farm devices`")
    return dict(encode(found))
