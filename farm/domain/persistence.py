"""How long a run goes on trying: it gives up once errors or lost devices are more than bad luck.

More than 3 errors and a tenth of its tests, or more than 2 lost devices and a twentieth of its devices: then whatever
is wrong is wrong everywhere, and each further try only keeps devices from others. What the engine did is no error here.
"""

from __future__ import annotations

from farm.domain.words import count

ERRORS = (3, 0.10)  # so many, and so much of the tests
LOST = (2, 0.05)  # so many, and so much of the devices


def why_give_up(*, errors: int, tests: int, lost: int, devices: int) -> str | None:
    """Why the run stops trying, None: it goes on. `lost` counts devices, not attempts."""
    if errors > ERRORS[0] + ERRORS[1] * tests:
        found = f"{count(errors, 'error')} over {count(tests, 'test')}"
        return f"{found} are more than {ERRORS[0]} and {ERRORS[1]:.0%} of the tests"
    if lost > LOST[0] + LOST[1] * devices:
        return f"{lost} of {count(devices, 'device')} were lost, more than {LOST[0]} and {LOST[1]:.0%} of the devices"
    return None
