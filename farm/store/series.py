"""Time series in compressed chunks: points to bytes and back, less of them for a page, fewer rows for an attempt.

A chunk is one byte of format, then zstd over

    format 2: count (u32), scale of the values (u32), width of their differences (u8: 1, 2, 4, 8; 0: float64),
              the differences of the times, whole milliseconds since the epoch (int64),
              the differences of the whole numbers `value × scale`, or the values themselves;
              little-endian, the lowest bytes of all numbers first, then the next ones

Sensors count in decimals, so `value × scale` is whole for a scale of 1 to 10⁶ and differences are small numbers; where
it is not, or is beyond 2⁵³, the value's own 64 bits are kept: nothing is rounded. Times are kept to the millisecond.
A chunk that begins with zstd's own magic is format 1, of older attempts: pairs of float64 (seconds, value).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray
from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from farm.domain.retention import GATED, GATED_GROUPS, series_cutoffs
from farm.store import tables

Floats = NDArray[np.float64]

#: Largest chunk that is unpacked, bytes, and most points of one.
MAX_BYTES, MAX_POINTS = 4 << 20, 4096
#: Chunks of one series from which they are joined.
JOIN_FROM = 8
_FORMAT = b"\x02"
_HEAD = struct.Struct("<IIB")
_SCALES = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
_WIDTHS: tuple[tuple[int, Any], ...] = ((1, np.int8), (2, np.int16), (4, np.int32), (8, np.int64))


# ---- points and bytes


def pack(times: Sequence[float] | Floats, values: Sequence[float] | Floats) -> bytes:
    """Seconds since the epoch and values, of one length, as a chunk."""
    at = np.rint(np.asarray(times, np.float64) * 1000).astype("<i8")
    raw = np.asarray(values, np.float64)
    scale, whole = _whole(raw)
    if whole is None:
        width, body = 0, _shuffled(raw.astype("<f8"))
    else:
        differences = np.diff(whole, prepend=np.int64(0))
        width, kind = next((w, k) for w, k in _WIDTHS if _fits(differences, k))
        body = _shuffled(differences.astype(kind))
    moments = _shuffled(np.diff(at, prepend=np.int64(0)).astype("<i8"))
    return _FORMAT + zstandard.compress(_HEAD.pack(len(at), scale, width) + moments + body, 6)


def unpack(data: bytes) -> tuple[Floats, Floats]:
    """Times (seconds since the epoch) and values of a chunk; empty ones when it cannot be read."""
    try:
        if data[:1] == _FORMAT:
            return _unpack(zstandard.ZstdDecompressor().decompress(data[1:], max_output_size=MAX_BYTES))
        pairs = np.frombuffer(zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_BYTES), "<f8")
        return pairs[0::2].copy(), pairs[1::2].copy()
    except (zstandard.ZstdError, struct.error, ValueError, OverflowError):
        return np.empty(0), np.empty(0)


def _unpack(raw: bytes) -> tuple[Floats, Floats]:
    count, scale, width = _HEAD.unpack_from(raw)
    begin, middle = _HEAD.size, _HEAD.size + 8 * count
    times = np.cumsum(_unshuffled(raw[begin:middle], np.dtype("<i8"), count)) / 1000.0
    if width == 0:
        return times, _unshuffled(raw[middle:], np.dtype("<f8"), count)
    if width not in dict(_WIDTHS) or scale not in _SCALES:
        raise ValueError(f"{width} bytes, scale {scale}: not a chunk of ours")
    kind = np.dtype(dict(_WIDTHS)[width]).newbyteorder("<")
    return times, np.cumsum(_unshuffled(raw[middle:], kind, count).astype(np.int64)) / float(scale)


def _whole(values: Floats) -> tuple[int, NDArray[np.int64] | None]:
    """The smallest scale by which every value is a whole number, and those numbers; (1, None): there is none."""
    with np.errstate(over="ignore"):
        for scale in _SCALES if np.all(np.isfinite(values)) else ():
            scaled = np.rint(values * scale)
            if np.all(np.abs(scaled) < 2**53) and np.array_equal(scaled / scale, values):
                return scale, scaled.astype(np.int64)
    return 1, None


def _fits(numbers: NDArray[np.int64], kind: Any) -> bool:
    limits = np.iinfo(kind)
    return not len(numbers) or bool(numbers.min() >= limits.min and numbers.max() <= limits.max)


def _shuffled(numbers: NDArray[Any]) -> bytes:
    """All lowest bytes first, then the next: what changes little lies together."""
    return numbers.view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize).T.tobytes()


def _unshuffled(data: bytes, kind: np.dtype[Any], count: int) -> NDArray[Any]:
    found = np.frombuffer(data, np.uint8).reshape(kind.itemsize, count)
    return np.ascontiguousarray(found.T).view(kind).reshape(count)


# ---- rows


@dataclass(frozen=True, slots=True)
class Stored:
    """One series of one attempt, in order of time."""

    attempt_id: int
    name: str
    unit: str
    times: Floats  # seconds since the epoch
    values: Floats


def row(
    attempt_id: int, seq: int, device_id: int, name: str, unit: str, times: Sequence[float] | Floats,
    values: Sequence[float] | Floats,
) -> dict[str, Any]:  # fmt: skip
    """The columns of a chunk of these points; at least one, `times` in order."""
    return {
        "attempt_id": attempt_id,
        "seq": seq,
        "device_id": device_id,
        "name": name,
        "unit": unit,
        "began_at": datetime.fromtimestamp(float(times[0]), UTC),
        "ended_at": datetime.fromtimestamp(float(times[-1]), UTC),
        "count": len(times),
        "data": pack(times, values),
    }


def read(
    session: Session, attempt_ids: Sequence[int], *, name: str | None = None, unit: str | None = None,
    since: datetime | None = None, until: datetime | None = None, limit: int = 20_000,
) -> list[Stored]:  # fmt: skip
    """The series of these attempts by attempt, name and unit; of the newest `limit` chunks.

    Chunks that touch `since`…`until` are read whole: a little more than was asked for may come.
    """
    c = tables.SeriesChunk
    query = select(c.attempt_id, c.name, c.unit, c.data).where(c.attempt_id.in_(list(attempt_ids)))
    query = query if name is None else query.where(c.name == name)
    query = query if unit is None else query.where(c.unit == unit)
    query = query if since is None else query.where(c.ended_at >= since)
    query = query if until is None else query.where(c.began_at <= until)
    pieces: dict[tuple[int, str, str], list[tuple[Floats, Floats]]] = {}
    for attempt_id, found, of, data in session.execute(query.order_by(c.began_at.desc(), c.seq.desc()).limit(limit)):
        pieces.setdefault((attempt_id, found, of), []).append(unpack(data))
    return [Stored(*key, *_joined(pieces[key])) for key in sorted(pieces)]


def _joined(pieces: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    times = np.concatenate([t for t, _ in pieces])
    order = np.argsort(times, kind="stable")
    return times[order], np.concatenate([v for _, v in pieces])[order]


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a stretch of a series had: its first moment (seconds since the epoch), extremes, mean, and how many."""

    at: float
    low: float
    high: float
    mean: float
    count: int


def downsampled(times: Floats, values: Floats, buckets: int, begin: float, end: float) -> list[Bucket]:
    """At most `buckets` stretches of equal length between `begin` and `end`; one without points is left out."""
    inside = (times >= begin) & (times <= end)
    times, values = times[inside], values[inside]
    if not len(times) or buckets < 1:
        return []
    length = max(end - begin, 1e-9) / buckets
    number = np.minimum(((times - begin) / length).astype(np.int64), buckets - 1)
    starts = np.flatnonzero(np.diff(number, prepend=np.int64(-1)))
    counts = np.diff(np.append(starts, len(times)))
    lows, highs = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    means = np.add.reduceat(values, starts) / counts
    return [
        Bucket(float(t), float(lo), float(hi), float(m), int(n))
        for t, lo, hi, m, n in zip(times[starts], lows, highs, means, counts, strict=True)
    ]


# ---- fewer rows, and in the end none


def crowded(session: Session, attempt_ids: Sequence[int], at_least: int = JOIN_FROM) -> list[tuple[int, str, str]]:
    """(attempt, name, unit) of the series that lie in many small chunks."""
    c = tables.SeriesChunk
    query = select(c.attempt_id, c.name, c.unit).where(c.attempt_id.in_(list(attempt_ids)), c.count * 2 <= MAX_POINTS)
    grouped = query.group_by(c.attempt_id, c.name, c.unit).having(func.count() >= at_least)
    return [(row.attempt_id, row.name, row.unit) for row in session.execute(grouped)]


def join(session: Session, attempt_id: int, name: str, unit: str) -> int:
    """Put a series' small chunks together, each new one under the number of its first; how many rows are gone."""
    c = tables.SeriesChunk
    same = (c.attempt_id == attempt_id, c.name == name, c.unit == unit, c.count * 2 <= MAX_POINTS)
    small = (
        select(c.seq, c.device_id, c.count.label("points"), c.data).where(*same).order_by(c.began_at, c.seq).limit(5000)
    )
    rows = list(session.execute(small))
    gone = 0
    while rows:
        size, many = rows[0].points, 1
        while many < len(rows) and size + rows[many].points <= MAX_POINTS:
            size, many = size + rows[many].points, many + 1
        group, rows = rows[:many], rows[many:]
        if many > 1:
            times, values = _joined([unpack(row.data) for row in group])
            numbers = [row.seq for row in group]
            session.execute(delete(c).where(c.attempt_id == attempt_id, c.seq.in_(numbers)))
            made = row(attempt_id, min(numbers), group[0].device_id, name, unit, times, values)
            session.execute(insert(c), made)
            gone += many - 1
    return gone


def forget(session: Session, now: datetime, batch: int = 500) -> int:
    """Let go of chunks that are past their time, at most `batch`; how many. See `farm.domain.retention`."""
    c = tables.SeriesChunk
    keys = select(c.attempt_id, c.seq).order_by(c.ended_at).limit(batch)
    for_all, for_gates = series_cutoffs(now)
    gone = list(session.execute(keys.where(c.ended_at < for_gates)))
    if len(gone) < batch:
        short = [c.name != name for name in GATED] + [~c.name.startswith(f"{name}/") for name in GATED_GROUPS]
        gone += session.execute(
            keys.where(c.ended_at >= for_gates, c.ended_at < for_all, *short).limit(batch - len(gone))
        ).all()
    for attempt_id, seq in gone:
        session.execute(delete(c).where(c.attempt_id == attempt_id, c.seq == seq))
    return len(gone)
