"""Gates in an agent's steps: a test holds an attempt at the beginning or at the end of a step, for as long as it likes.

    python -m tests.chaos.gates --host h1 …      # the agent's process, with gates

A closed gate is a file `SERIAL.STEP` in CHAOS_GATES that says `before` or `after`; the step that comes to it leaves
`SERIAL.STEP.reached` and waits until the gate is gone. Nothing else of the agent is changed: a gate is time that passes
between what a step does and what the agent writes of it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from farm import agent
from farm.domain.outcomes import Phase
from farm.work import workflows
from farm.work.step import Body, Step, Stopping

#: Steps of an attempt that something can happen in, in order.
STEPS = (Phase.PRECHECK, Phase.DEPLOY, Phase.SETTLE, Phase.EXECUTE, Phase.COLLECT, Phase.CLEAN, Phase.VERDICT)
BEFORE, AFTER = "before", "after"
#: A gate that nobody opens is no gate any more after this: a test that failed must not hold an agent for ever.
_FORGOTTEN_S = 300.0


class Gates:
    """The folder of one host's gates, the test's side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def close(self, serial: str, step: Phase, where: str = BEFORE) -> None:
        """The next attempt that comes there stops."""
        (self.folder / f"{serial}.{step.value}.reached").unlink(missing_ok=True)
        (self.folder / f"{serial}.{step.value}").write_text(where)

    def reached(self, serial: str, step: Phase) -> bool:
        return (self.folder / f"{serial}.{step.value}.reached").exists()

    def open(self, serial: str, step: Phase) -> None:
        (self.folder / f"{serial}.{step.value}").unlink(missing_ok=True)


def gated(phase: Phase, body: Body, folder: Path) -> Body:
    """The step's body with its gates before and behind it, however it ends."""

    def inner(step: Step) -> None:
        _stand(step, folder, BEFORE)
        try:
            body(step)
        finally:
            if not isinstance(sys.exc_info()[1], Stopping):
                _stand(step, folder, AFTER)

    return inner


def _stand(step: Step, folder: Path, where: str) -> None:
    gate = folder / f"{step.device_row.serial}.{step.phase.value}"
    end = time.monotonic() + _FORGOTTEN_S
    while time.monotonic() < end:
        try:
            if gate.read_text() != where:
                return
        except FileNotFoundError:
            return
        gate.with_name(f"{gate.name}.reached").touch()
        step.pause(0.02)


def main() -> int:
    folder = Path(os.environ["CHAOS_GATES"])
    workflows.STEPS = tuple((phase, gated(phase, body, folder)) for phase, body in workflows.STEPS)
    return agent.main()


if __name__ == "__main__":
    sys.exit(main())
