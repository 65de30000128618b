"""A lab played through before it is built: the plan that the farm runs by, over a scenario of devices, jobs, failures.

    result = simulate(read_scenario(json.load(file)))

Times are seconds from the start of the scenario. The planner is told a job's `estimate_s`; what happens takes its
`duration_s`. A device that fails loses the job that runs on it: the job goes back to its old place in the queue and
keeps away from that device while another usable one matches, as on the farm. The schedule has one entry for each job,
the run that came to its end; what failures cut off is listed beside it. A failure of no length does nothing.
"""

from __future__ import annotations

from farm.domain.simulation.engine import Ran, simulate
from farm.domain.simulation.policy import FarmPolicy, Policy
from farm.domain.simulation.scenario import Scenario, ScenarioError, SimDevice, SimFailure, SimJob, read_scenario
from farm.domain.simulation.summary import Result, summarise

__all__ = [
    "FarmPolicy", "Policy", "Ran", "Result", "Scenario", "ScenarioError", "SimDevice", "SimFailure", "SimJob",
    "read_scenario", "simulate", "summarise",
]  # fmt: skip
