"""Heat: a lumped resistor-capacitor network, and the governor that throttles by it. Pure; no clock, no I/O.

Units: °C, W, J/K, K/W, s. In steady state a node that is linked to ambient alone sits at ambient + P·R.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtual.profiles import Governor, Node, Thermal

AMBIENT = "ambient"
T_MAX_C = 150.0
"""No node goes above: real parts have shut down long before."""


class Network:
    """Temperatures of the nodes, moved on by `step`."""

    def __init__(self, nodes: list[Node], ambient_c: float) -> None:
        self.ambient_c = ambient_c
        self.temperatures = {node.name: ambient_c for node in nodes}
        self._capacity = {node.name: node.heat_capacity_j_per_k for node in nodes}
        self._conductance: dict[str, dict[str, float]] = {node.name: {} for node in nodes}
        for node in nodes:
            for other, resistance in node.links.items():
                self._link(node.name, other, 1.0 / resistance)
                if other != AMBIENT:
                    self._link(other, node.name, 1.0 / resistance)
        slowest = min(
            self._capacity[name] / max(sum(links.values()), 1e-9) for name, links in self._conductance.items()
        )
        # An explicit step is monotone and cannot overshoot while dt < C/ΣG; a fifth of it is also accurate.
        self._substep_s = slowest / 5

    def _link(self, node: str, other: str, conductance: float) -> None:
        links = self._conductance[node]
        links[other] = links.get(other, 0.0) + conductance

    def step(self, watts: dict[str, float], dt_s: float) -> None:
        """Lets `dt_s` pass with these heat inputs."""
        left = dt_s
        while left > 0:
            dt = min(left, self._substep_s)
            left -= dt
            self._substep(watts, dt)

    def _substep(self, watts: dict[str, float], dt: float) -> None:
        now = self.temperatures | {AMBIENT: self.ambient_c}
        for name, links in self._conductance.items():
            flow = watts.get(name, 0.0) + sum(g * (now[other] - now[name]) for other, g in links.items())
            self.temperatures[name] = min(T_MAX_C, now[name] + flow * dt / self._capacity[name])


@dataclass(slots=True)
class Throttle:
    """A step-wise governor: at most one step per `step_s`, up above a trip, down below it minus the hysteresis."""

    governor: Governor
    level: int = 0
    _since_step_s: float = 0.0

    def advance(self, temperature_c: float, dt_s: float) -> None:
        """Lets time pass at this temperature."""
        self._since_step_s += dt_s
        while self._since_step_s >= self.governor.step_s:
            self._since_step_s -= self.governor.step_s
            self._move(temperature_c)

    def _move(self, temperature_c: float) -> None:
        trips = self.governor.trips
        if self.level < len(trips) and temperature_c >= trips[self.level].temperature_c:
            self.level += 1
        elif self.level > 0 and temperature_c < trips[self.level - 1].temperature_c - self.governor.hysteresis_k:
            self.level -= 1

    @property
    def capacity_factor(self) -> float:
        """Share of the full CPU capacity that is left, in (0, 1]."""
        return 1.0 if self.level == 0 else self.governor.trips[self.level - 1].capacity_factor


class ThermalModel:
    """One device's heat. `time_scale` divides the model's durations; what drives it stays per real second."""

    def __init__(self, thermal: Thermal, time_scale: float = 1.0) -> None:
        self._thermal = thermal
        self._scale = time_scale
        self.network = Network(thermal.nodes, thermal.ambient_c)
        self.throttle = Throttle(thermal.governor)
        self.extra_w = 0.0
        """Heat from elsewhere (a fault), into the CPU's node."""
        self.hold_c: float | None = None
        """A heat gun on the CPU and the governor's node that lets neither fall below this temperature."""
        idle = {thermal.source: thermal.idle_w}
        self.network.step(idle, 8 * 3600.0)  # a device that has lain there switched on

    def advance(self, busy_cores: float, real_dt_s: float) -> None:
        """Lets real time pass in which the workload used this many host cores on average."""
        thermal = self._thermal
        watts = thermal.idle_w + busy_cores * thermal.watts_per_busy_core + self.extra_w
        # Steps of at most one governor step, so that a late tick does not skip the governor's decisions.
        left = real_dt_s * self._scale
        while left > 1e-9:
            dt = min(left, thermal.governor.step_s)
            left -= dt
            self.network.step({thermal.source: watts}, dt)
            self._hold()
            self.throttle.advance(self.network.temperatures[thermal.governor.node], dt)

    def _hold(self) -> None:
        if self.hold_c is not None:
            for name in {self._thermal.source, self._thermal.governor.node, self._thermal.status_node}:
                self.network.temperatures[name] = max(self.network.temperatures[name], min(self.hold_c, T_MAX_C))

    def zones(self) -> list[tuple[str, float]]:
        """(type, °C) of each thermal zone, in sysfs order."""
        temperatures = self.network.temperatures
        return [(zone.type, temperatures[zone.node] + zone.offset_k) for zone in self._thermal.zones]

    @property
    def status(self) -> int:
        """Android's thermal status: 0 none to 6 shutdown."""
        temperature = self.network.temperatures[self._thermal.status_node]
        return sum(temperature >= threshold for threshold in self._thermal.status_thresholds_c)

    @property
    def capacity_factor(self) -> float:
        """What the governor leaves of the CPU."""
        return self.throttle.capacity_factor
