"""What a suite can ask for: device, facts, params, engine, measure, series, logcat, fingerprint, artifact.

Imported by every pytest of this environment, so that a suite that is started without a device is told so; what is heavy
is imported when a fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from farm.adb.device import Device
    from runner.bench import Bench
    from runner.engine import Engine
    from runner.handles import Logcat, Series
    from runner.measure import Measure

BENCH: pytest.StashKey[Bench] = pytest.StashKey()


def bench_of(config: pytest.Config) -> Bench:
    """The bench of this process; a usage error where pytest was started without a device."""
    bench = config.stash.get(BENCH, None)
    if bench is None:
        raise pytest.UsageError(
            "this test needs a device: pytest … --device auto [--bundle DIR] takes one that adb lists; "
            "or queue it on the farm"
        )
    return bench


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """The leased device: shell, push, pull, properties. Nothing else is within reach."""
    return bench_of(request.config).device


@pytest.fixture(scope="session")
def facts(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """What the farm knows of the device: serial, name, abi, virtual, and its labels."""
    return bench_of(request.config).spec.facts()


@pytest.fixture(scope="session")
def params(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Parameters that were given with the run."""
    return bench_of(request.config).params


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The bundle's engine on the device."""
    from runner.engine import Engine

    found = Engine(bench_of(request.config))
    yield found
    found.close()


@pytest.fixture
def measure(request: pytest.FixtureRequest) -> Iterator[Measure]:
    """Measuring; the test holds a measure slot of the host meanwhile."""
    from runner.measure import Measure

    bench = bench_of(request.config)
    bench.measure = found = Measure(bench)
    try:
        yield found
    finally:
        found.finish()


@pytest.fixture
def series(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Series]]:
    """`series(name, unit)` gives a `Series`."""
    from runner.handles import Series

    bench = bench_of(request.config)
    made: list[Series] = []

    def make(name: str, unit: str) -> Series:
        made.append(Series(bench, name, unit))
        return made[-1]

    yield make
    for one in made:
        one.flush()


@pytest.fixture
def logcat(request: pytest.FixtureRequest) -> Logcat:
    """The device's log since the test began."""
    from runner.handles import Logcat

    return Logcat(bench_of(request.config).device)


@pytest.fixture(scope="session")
def fingerprint(request: pytest.FixtureRequest) -> Callable[[Mapping[str, Any]], None]:
    """`fingerprint({"page_size": 4096})` adds facts to what the device is known to be."""
    bench = bench_of(request.config)

    def add(facts: Mapping[str, Any]) -> None:
        bench.record("fingerprint", facts=dict(facts))

    return add


@pytest.fixture(scope="session")
def artifact(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """`artifact("trace.json", data)` keeps a file with the attempt; without data, the path to write it to first."""
    bench = bench_of(request.config)
    folder = bench.work / "artifacts"

    def keep(name: str, data: bytes | str | None = None, media_type: str = "application/octet-stream") -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
            raise ValueError(f"{name!r} is no file name of letters, digits, '.', '_' and '-'")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        if data is not None:
            path.write_bytes(data.encode() if isinstance(data, str) else data)
        if path.exists():
            bench.record("artifact", name=name, path=f"artifacts/{name}", media_type=media_type)
        return path

    return keep
