"""Can this bundle work on this device now? A list of checks, each with a tick, a figure and a remedy.

A check that could not be made says "not measured" and stops nothing. One that failed stops the attempt before anything
is pushed. Peak memory is predicted: weights + cache + buffers to compute in, by the model's own description, and by the
peaks that earlier attempts with the same bundle reached; it is held against what is available now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from farm.domain import readiness
from farm.domain.causes import Cause
from farm.domain.deployments import Deployment
from farm.domain.model_files import TOKENIZERS, ModelFile, missing_shards

#: Causes of a failed deployment that a passed precheck should have ruled out.
COVERED = frozenset(
    {
        Deployment.OUT_OF_MEMORY,
        Deployment.STORAGE,
        Deployment.WRONG_ABI,
        Deployment.PERMISSION,
        Deployment.MODEL,
        Deployment.TOKENIZER,
    }
)
#: Engines' own code and heap, bytes: what every process has before it loads anything.
PROGRAM_BYTES = 48 << 20
#: Tokens that are computed at once: llama.cpp's default micro batch.
BATCH = 512
#: A cache's number and one of the activations, bytes: the widest that is common, f32 where an engine does not say.
CACHE_BYTES, ACTIVATION_BYTES = 4, 4
#: Share of a learnt peak by which the next one may be higher.
SPREAD = 0.10
#: Positions in the cache where neither bundle nor model says how many.
DEFAULT_CTX = 4096


@dataclass(frozen=True, slots=True)
class Check:
    """`ok` None: not measured. `figure` in words; `remedy` and `cause` where it failed."""

    name: str
    ok: bool | None
    figure: str
    remedy: str = ""
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What the device answered. None: it did not say. Bytes, seconds."""

    abi: str | None = None
    release: str | None = None
    sdk: str | None = None
    kernel: str | None = None
    page_size: int | None = None
    free_bytes: int | None = None
    there_bytes: int | None = None  # of the bundle, from an earlier deploy
    memory_available: int | None = None
    memory_total: int | None = None
    writes: bool | None = None
    executes: bool | None = None
    selinux: str | None = None
    shared_memory: str | None = None  # memfd, ashmem or "none"


@dataclass(frozen=True, slots=True)
class Peak:
    """Predicted peak memory of the engine, bytes, and what it is made of. `learnt`: from so many earlier attempts."""

    weights: int
    cache: int | None
    buffers: int | None
    learnt: int = 0
    reached: int | None = None  # the highest of those attempts

    @property
    def total(self) -> int:
        if self.reached is not None:
            return round(self.reached * (1 + SPREAD))
        return self.weights + (self.cache or 0) + (self.buffers or 0) + PROGRAM_BYTES

    def words(self) -> str:
        if self.reached is not None:
            return f"{_mb(self.total)}, from the peaks of {self.learnt} earlier attempts"
        parts = [f"weights {_mb(self.weights)}"]
        parts.append(f"cache {_mb(self.cache)}" if self.cache is not None else "cache not known")
        parts.append(f"buffers {_mb(self.buffers)}" if self.buffers is not None else "buffers not known")
        return f"{_mb(self.total)}: {', '.join(parts)}"


def predict(model: ModelFile, parameters: Mapping[str, Any], peaks: Sequence[int] = ()) -> Peak:
    """`parameters`: the bundle's (`ctx`: positions in the cache). `peaks`: bytes that earlier attempts reached."""
    ctx = parameters.get("ctx")
    positions = ctx if isinstance(ctx, int) and ctx > 0 else min(model.ctx_train or DEFAULT_CTX, DEFAULT_CTX)
    cache = None if model.kv_values is None else model.kv_values * positions * CACHE_BYTES
    return Peak(model.size, cache, _buffers(model, positions), len(peaks), max(peaks, default=None))


def _buffers(model: ModelFile, positions: int) -> int | None:
    """Activations of one batch: the widest of them, its neighbours, and the logits of the last token."""
    if model.embedding is None:
        return None
    rows = min(BATCH, positions)
    widest = max(model.feed_forward or 0, 4 * model.embedding, positions)
    return ACTIVATION_BYTES * (rows * (widest + 4 * model.embedding) + (model.vocabulary or 0))


def checks(
    device: DeviceState, manifest: Mapping[str, Any], models: Mapping[str, ModelFile], peaks: Sequence[int] = ()
) -> list[Check]:
    """Every check, in the order in which things are needed. `models`: path in the bundle -> what its file says."""
    return [
        _abi(device, manifest),
        _versions(device),
        _permissions(device),
        _storage(device, manifest),
        _shared_memory(device),
        *_parts(manifest, models),
        _tokenizer(manifest, models),
        _memory(device, manifest, models, peaks),
    ]


def failed(found: Sequence[Check]) -> Check | None:
    """The first that failed; the attempt ends with it."""
    return next((check for check in found if check.ok is False), None)


def to_json(found: Sequence[Check]) -> list[dict[str, Any]]:
    return [asdict(check) for check in found]


def passed(stored: object) -> bool:
    """Whether checks that were kept as JSON were made and none failed."""
    return isinstance(stored, list) and bool(stored) and all(
        isinstance(entry, dict) and entry.get("ok") is not False for entry in stored
    )  # fmt: skip


def _abi(device: DeviceState, manifest: Mapping[str, Any]) -> Check:
    have = ", ".join(manifest["files"])
    if device.abi is None:
        return Check("ABI", None, f"the device's is not measured; the bundle has {have}")
    if device.abi in manifest["files"]:
        return Check("ABI", True, device.abi)
    remedy = f"build the bundle for {device.abi}, or choose other devices"
    return Check("ABI", False, f"the device is {device.abi}, the bundle has files for {have}", remedy, Cause.WRONG_ABI)


def _versions(device: DeviceState) -> Check:
    said = [
        f"Android {device.release}" if device.release else "",
        f"SDK {device.sdk}" if device.sdk else "",
        f"kernel {device.kernel}" if device.kernel else "",
        f"pages of {device.page_size // 1024} KB" if device.page_size else "",
    ]
    told = ", ".join(part for part in said if part)
    return Check("versions", True if told else None, told or "not measured")


def _permissions(device: DeviceState) -> Check:
    mode = f", SELinux {device.selinux}" if device.selinux else ""
    if device.writes is None:
        return Check("permissions", None, f"not measured{mode}")
    if device.writes and device.executes is not False:
        return Check("permissions", True, f"its work folder takes and starts programs{mode}")
    what = "cannot be written to" if not device.writes else "does not let programs start"
    remedy = "look at the rights of /data/local/tmp, whether it is mounted noexec, and at SELinux"
    return Check("permissions", False, f"its work folder {what}{mode}", remedy, Cause.NOT_PERMITTED)


def _storage(device: DeviceState, manifest: Mapping[str, Any]) -> Check:
    content = manifest.get("content") or {}
    files = (manifest["files"].get(device.abi) or {}) if device.abi else {}
    paths = {*files.values(), *manifest["models"].values()}
    wanted = sum(int(content[path]["size"]) for path in paths if path in content)
    if device.free_bytes is None:
        return Check("storage", None, f"free space is not measured; the bundle needs {_mb(wanted)}")
    lacking = max(0, wanted - (device.there_bytes or 0)) + readiness.MIN_FREE_BYTES
    words = f"{_mb(device.free_bytes)} free, {_mb(max(0, wanted - (device.there_bytes or 0)))} to send"
    if device.free_bytes >= lacking:
        return Check("storage", True, words)
    remedy = f"free {_mb(lacking - device.free_bytes)} on its /data, or choose a device with more storage"
    return Check("storage", False, words, remedy, Cause.STORAGE_FULL)


def _shared_memory(device: DeviceState) -> Check:
    if device.shared_memory is None:
        return Check("shared memory", None, "not measured")
    return Check("shared memory", True, device.shared_memory if device.shared_memory != "none" else "files alone")


def _parts(manifest: Mapping[str, Any], models: Mapping[str, ModelFile]) -> Iterator[Check]:
    """Every model there, whole, and with all its parts."""
    if not manifest["models"]:
        return
    gone = missing_shards([*(manifest.get("content") or {}), *manifest["models"].values()])
    for path in sorted(models):
        if models[path].wrong is not None:
            yield Check(
                "model",
                False,
                f"{path}: {models[path].wrong}",
                "send the bundle again with the whole file",
                Cause.MISSING_FILE,
            )
    if gone:
        yield Check(
            "model", False, f"parts are missing: {', '.join(gone[:5])}", "put them into the bundle", Cause.MISSING_FILE
        )
    elif all(model.wrong is None for model in models.values()):
        whole = sum(model.wanted is not None for model in models.values())
        yield Check("model", True, f"{len(models)} of {len(models)} there, {whole} checked to the last tensor")


def _tokenizer(manifest: Mapping[str, Any], models: Mapping[str, ModelFile]) -> Check:
    """In the default model or beside it. Only a model of text needs one; other kinds of file do not say."""
    model = _default(manifest, models)
    if model is not None and model.tokenizer:
        return Check("tokenizer", True, f"in the model ({model.tokenizer})")
    paths = {*manifest["models"].values(), *(manifest.get("content") or {})}
    beside = [path for path in sorted(paths) if _names_one(path)]
    if beside:
        return Check("tokenizer", True, beside[0])
    if model is not None and model.kv_values is not None and model.wrong is None:
        remedy = "convert the model again with its tokenizer: a GGUF file carries it"
        words = "the model has no tokenizer, and none lies beside it"
        return Check("tokenizer", False, words, remedy, Cause.MISSING_FILE)
    return Check("tokenizer", None, "this kind of model does not say")


def _names_one(path: str) -> bool:
    return bool(TOKENIZERS.search(path.rsplit("/", 1)[-1]))


def _default(manifest: Mapping[str, Any], models: Mapping[str, ModelFile]) -> ModelFile | None:
    path = manifest["models"].get(manifest.get("default_model"))
    return models.get(path) if path else None


def _memory(
    device: DeviceState, manifest: Mapping[str, Any], models: Mapping[str, ModelFile], peaks: Sequence[int]
) -> Check:
    model = _default(manifest, models)
    if model is None:
        return Check("memory", None, "the bundle names no model to predict from")
    peak = predict(model, manifest.get("parameters") or {}, peaks)
    if device.memory_available is None:
        return Check("memory", None, f"{peak.words()} predicted; what is available is not measured")
    words = f"{_mb(device.memory_available)} available, {peak.words()} predicted"
    if device.memory_available >= peak.total:
        return Check("memory", True, words)
    remedy = "choose a device with more memory, a smaller model or a shorter context (parameters: ctx)"
    return Check("memory", False, words, remedy, Cause.NO_MEMORY)


def _mb(count: int) -> str:
    """Decimal megabytes, gigabytes from 1 GB on."""
    return f"{count / 1e9:.1f} GB" if count >= 1_000_000_000 else f"{count / 1e6:.0f} MB"
