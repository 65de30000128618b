"""llama.cpp's own benchmark on our models: a second opinion on the files, and a foreign engine for the contract."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from engine import llama_bench
from farm.domain import bundles

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama_bench.package_llama_bench(tmp_path_factory.mktemp("bundle"), 2, print)


def test_the_bundle_is_one_that_the_farm_accepts(bundle: Path) -> None:
    read = bundles.read_bundle(bundle.read_text())
    assert (read["adapter"], read["entry"]) == ("llama-bench", "llama-bench")
    assert sorted(read["models"]) == ["tiny-f32", "tiny-q4_0"]


@pytest.mark.parametrize("weight_type", ["f32", "q4_0"])
def test_llama_bench_loads_and_times_our_models(bundle: Path, weight_type: str) -> None:
    done = subprocess.run(
        [
            *(bundle.parent / "bin/x86_64/llama-bench", "-m", bundle.parent / f"models/tiny-{weight_type}.gguf"),
            *("-p", "32", "-n", "8", "-r", "2", "-t", "1", "-o", "jsonl"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["n_prompt"], row["n_gen"]) for row in rows] == [(32, 0), (0, 8)]
    for row in rows:
        assert row["model_n_params"] == 3084032
        assert len(row["samples_ts"]) == 2
        assert all(rate > 0 for rate in row["samples_ts"])
