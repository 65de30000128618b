"""Tests that take their time and note on the device that they ran: each line there is one run of one test."""

import time

import pytest


@pytest.mark.parametrize("n", range(4))
def test_step(device, params, n):
    device.check_shell(f"echo step {n} >> /data/local/tmp/farm/steps")
    end = time.monotonic() + float(params.get("step_s", 1.2))
    while time.monotonic() < end:
        device.check_shell(["sleep", "0.1"])
