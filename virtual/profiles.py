"""What a virtual device is, as data: `profiles/*.yaml` read into frozen dataclasses.

Every key is known; an unknown or ill-typed one is refused with file, line, key and the nearest known name.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "profiles"


class ProfileError(Exception):
    """A profile cannot be used; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores of one kind. Figures are the imitated chip's, for sysfs and /proc/cpuinfo; they set no speed here."""

    name: str
    cores: list[int]
    implementer: str
    part: str
    frequencies_khz: list[int]
    features: str


@dataclass(frozen=True, slots=True)
class Cpu:
    """`capacity` is the whole device's CPU, in cores of the host: what its workload may use at most."""

    capacity: float
    clusters: list[Cluster]


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB."""

    total_mb: int
    system_mb: int
    """What Android itself would occupy: never available to the workload."""
    swap_mb: int = 0


@dataclass(frozen=True, slots=True)
class Storage:
    """MiB of /data; a tmpfs, so what is written is host memory."""

    data_mb: int


@dataclass(frozen=True, slots=True)
class Battery:
    """A battery on a charger."""

    capacity_mah: int
    level_pct: int
    voltage_mv: int
    node: str
    """Thermal node whose temperature it has."""
    technology: str = "Li-ion"


@dataclass(frozen=True, slots=True)
class Gpu:
    """The driver's busy node below /sys, and what it says of a GPU that nothing uses: nothing does, here."""

    node: str
    idle: str


@dataclass(frozen=True, slots=True)
class Screen:
    """Pixels; density in dpi."""

    width: int
    height: int
    density: int


@dataclass(frozen=True, slots=True)
class Node:
    """One lump of the thermal network. `links`: resistance (K/W) to other nodes or to `ambient`."""

    name: str
    heat_capacity_j_per_k: float
    links: dict[str, float]


@dataclass(frozen=True, slots=True)
class Zone:
    """One /sys/class/thermal zone. `android_type`: temperature type of thermalservice, null: only in sysfs."""

    type: str
    node: str
    offset_k: float = 0.0
    android_type: int | None = None
    android_name: str | None = None


@dataclass(frozen=True, slots=True)
class Trip:
    """Above `temperature_c` the governor goes to this step and leaves `capacity_factor` of the capacity."""

    temperature_c: float
    capacity_factor: float


@dataclass(frozen=True, slots=True)
class Governor:
    """Throttling by one node's temperature, one step at a time."""

    node: str
    trips: list[Trip]
    hysteresis_k: float
    step_s: float


@dataclass(frozen=True, slots=True)
class Thermal:
    """The model: heat sources, network, zones, governor. Watts, °C, K/W, J/K, s."""

    ambient_c: float
    idle_w: float
    watts_per_busy_core: float
    source: str
    """Node that the CPU heats."""
    nodes: list[Node]
    zones: list[Zone]
    governor: Governor
    status_node: str
    status_thresholds_c: list[float]
    """°C of `status_node` for thermal status 1 (light) to 6 (shutdown)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of virtual device."""

    name: str
    title: str
    properties: dict[str, str]
    cpu: Cpu
    memory: Memory
    storage: Storage
    thermal: Thermal
    battery: Battery | None = None
    screen: Screen | None = None
    gpu: Gpu | None = None
    packages: list[str] = field(default_factory=list)


def names() -> list[str]:
    """Profiles that come with the project."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name_or_path: str) -> Profile:
    """A built-in profile by name, or any file by path."""
    path = Path(name_or_path)
    if path.suffix != ".yaml":
        path = FOLDER / f"{name_or_path}.yaml"
    if not path.is_file():
        raise ProfileError(
            f"no profile {name_or_path!r}; there are: {', '.join(names())}, or give a path to a .yaml file"
        )
    import yaml

    try:
        node = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ProfileError(f"{path}: not YAML: {error}") from None
    if node is None:
        raise ProfileError(f"{path}:1: empty profile")
    profile = typing.cast(Profile, _build(Profile, node, str(path), "profile"))
    _check(profile, path)
    return profile


def to_json(profile: Profile) -> str:
    """For the parts of a device that run where no YAML reader is."""
    return json.dumps(dataclasses.asdict(profile))


def without_trips(profile: Profile) -> Profile:
    """What the device itself may know: not where it throttles, as suites are to find that out."""
    governor = dataclasses.replace(profile.thermal.governor, trips=[])
    thermal = dataclasses.replace(profile.thermal, governor=governor, status_thresholds_c=[])
    return dataclasses.replace(profile, thermal=thermal)


def from_json(text: str) -> Profile:
    """The inverse of `to_json`."""
    return typing.cast(Profile, _from_plain(Profile, json.loads(text)))


def _from_plain(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return typing.cast(Any, kind)(**{key: _from_plain(hints[key], item) for key, item in value.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return [_from_plain(arguments[0], item) for item in value]
    if origin is types.UnionType and value is not None:
        return _from_plain(arguments[0], value)
    return value


def _build(kind: Any, node: Any, file: str, where: str) -> Any:
    """A YAML node as a value of `kind`."""
    line = node.start_mark.line + 1
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        if node.tag == "tag:yaml.org,2002:null":
            return None
        return _build(arguments[0], node, file, where)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, node, file, where)
    if origin is list:
        if node.id != "sequence":
            raise ProfileError(f"{file}:{line}: {where} must be a list")
        return [_build(arguments[0], item, file, f"{where}[{index}]") for index, item in enumerate(node.value)]
    if origin is dict:
        if node.id != "mapping":
            raise ProfileError(f"{file}:{line}: {where} must be a mapping")
        return {key.value: _build(arguments[1], item, file, f"{where}.{key.value}") for key, item in node.value}
    if node.id != "scalar":
        raise ProfileError(f"{file}:{line}: {where} must be a single value")
    try:
        return kind(node.value)
    except ValueError:
        raise ProfileError(f"{file}:{line}: {where} must be {kind.__name__}, not {node.value!r}") from None


def _build_dataclass(kind: Any, node: Any, file: str, where: str) -> Any:
    line = node.start_mark.line + 1
    if node.id != "mapping":
        raise ProfileError(f"{file}:{line}: {where} must be a mapping")
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, item in node.value:
        if key.value not in hints:
            near = difflib.get_close_matches(key.value, hints, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(hints)}"
            raise ProfileError(f"{file}:{key.start_mark.line + 1}: unknown key {key.value!r} in {where}{hint}")
        values[key.value] = _build(hints[key.value], item, file, f"{where}.{key.value}")
    required = [
        one.name
        for one in dataclasses.fields(kind)
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in required if name not in values]
    if missing:
        raise ProfileError(f"{file}:{line}: {where} lacks {', '.join(missing)}")
    return kind(**values)


def _check(profile: Profile, path: Path) -> None:
    """References between parts hold."""
    nodes = {node.name for node in profile.thermal.nodes}
    used = {zone.node for zone in profile.thermal.zones} | {profile.thermal.source, profile.thermal.status_node}
    used |= {profile.thermal.governor.node} | {name for node in profile.thermal.nodes for name in node.links}
    if profile.battery is not None:
        used.add(profile.battery.node)
    unknown = sorted(used - nodes - {"ambient"})
    if unknown:
        raise ProfileError(f"{path}: thermal has no node {unknown[0]!r}; nodes: {', '.join(sorted(nodes))}")
    if not 0.05 <= profile.cpu.capacity <= 256:
        raise ProfileError(f"{path}: cpu.capacity is {profile.cpu.capacity} host cores, must be 0.05 to 256")
