"""Tests that take as long as they are told and leave something behind: a file, a process, an artifact."""

import time

import pytest


@pytest.mark.parametrize("n", range(4))
def test_step(device, params, artifact, n):
    device.check_shell(f"echo {n} > /data/local/tmp/left-{n}")
    device.check_shell("setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
    end = time.monotonic() + float(params.get("step_s", 0.2))
    while time.monotonic() < end:
        device.check_shell(["sleep", "0.1"])
    artifact(f"step-{n}.txt", f"step {n}\n", "text/plain")
