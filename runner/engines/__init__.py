"""Engine adapters: each knows how to start one kind of engine and which parser reads its output."""

from __future__ import annotations

from collections.abc import Callable

from runner.engines.app import AppAdapter
from runner.engines.base import Adapter, BundleOnDevice
from runner.engines.events import EventsAdapter
from runner.engines.generic import GenericAdapter
from runner.engines.llama_bench import LlamaBenchAdapter
from runner.engines.process import Runner

#: The word in bundle.yaml -> the adapter.
ADAPTERS: dict[str, Callable[[Runner, BundleOnDevice], Adapter]] = {
    EventsAdapter.name: EventsAdapter,
    LlamaBenchAdapter.name: LlamaBenchAdapter,
    GenericAdapter.name: GenericAdapter,
    AppAdapter.name: AppAdapter,
}


def adapter(name: str, runner: Runner, bundle: BundleOnDevice) -> Adapter:
    """The adapter of that name. Raises KeyError with the known names."""
    if name not in ADAPTERS:
        raise KeyError(f"no engine adapter {name!r}; there are: {', '.join(ADAPTERS)}")
    return ADAPTERS[name](runner, bundle)
