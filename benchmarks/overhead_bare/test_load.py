"""The workload without a farm: adbutils starts the engine, its events are read from standard output."""

from __future__ import annotations

import json
import os
import statistics

import adbutils
import pytest

WORK = json.loads(os.environ["OVERHEAD_WORK"])
DIRECTORY = os.environ["OVERHEAD_DIRECTORY"]


@pytest.mark.parametrize("turn", range(WORK["tests"]))
def test_load(turn: int) -> None:
    port = int(os.environ["ANDROID_ADB_SERVER_PORT"])
    device = adbutils.AdbClient("127.0.0.1", port).device(os.environ["ANDROID_SERIAL"])
    done = device.shell2(
        [
            *(f"{DIRECTORY}/bin/x86_64/farm-engine", "--model", f"{DIRECTORY}/{WORK['model']}", "--events", "-"),
            *("--prompt-tokens", str(WORK["prompt_tokens"]), "--n-predict", str(WORK["n_predict"])),
            *("--repeat", str(WORK["repeat"]), "--warmup", "1", "--threads", "1", "--ctx", "512", "--ignore-eos"),
        ],
        timeout=600,
    )
    assert done.returncode == 0
    events = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    results = [event for event in events if event["ev"] == "result"]
    assert len(results) >= WORK["repeat"]
    print(statistics.median(event["output_tokens"] / event["decode_us"] * 1e6 for event in results))
