"""`farm verdict`: the document's form, its mistakes, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.cli.main import main
from farm.domain.outcomes import ExitCode


def document(b: float = 100.0, **more: Any) -> dict[str, Any]:
    noise = [0.0, 0.4, -0.3, 0.2, -0.5, 0.1]
    arms = ["A", "B", "B", "A"] * 15
    runs = [[arm, (b if arm == "B" else 100.0) + noise[i % 6]] for i, arm in enumerate(arms)]
    return {"series": [{"id": "decode", "unit": "ms", "better": "lower", "runs": runs} | more]}


def say(tmp_path: Path, capsys: pytest.CaptureFixture[str], told: object, *options: str) -> tuple[int, str, str]:
    file = tmp_path / "runs.json"
    file.write_text(json.dumps(told))
    code = main(["verdict", str(file), *options])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_says_what_became_worse_and_the_exit_code_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(tmp_path, capsys, document(110.0), "--json")
    told = json.loads(out)
    assert code == ExitCode.FAILED
    assert told["pr"] == "regressed"
    assert set(told["series"][0]) == {"id", "verdict", "effect", "ci", "p", "q", "pairs", "needs", "reason"}
    assert told["series"][0]["effect"] == pytest.approx(0.10, abs=0.01)


def test_a_table_names_verdict_effect_and_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(tmp_path, capsys, document())
    assert code == 0
    assert "unchanged" in out
    assert "passed" in out


def test_a_plan_says_how_many_pairs_an_effect_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(tmp_path, capsys, document(), "--plan", "--json")
    assert code == 0
    assert json.loads(out)["series"][0]["pairs"]["0.05"] == 10


@pytest.mark.parametrize(
    ("told", "where"),
    [
        ([], "the document"),
        ({}, "series"),
        ({"series": [{"runs": []}]}, "series[0].id"),
        (document(better="faster"), "series[0].better"),
        (document(runs=[["C", 1]]), "series[0].runs[0][0]"),
        (document(runs=[["A", "fast"]]), "series[0].runs[0][1]"),
        (document(margin=3), "series[0].margin"),
        ({"series": [{"id": "a", "runs": []}, {"id": "a", "runs": []}]}, "series[1].id"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: object, where: str
) -> None:
    code, out, err = say(tmp_path, capsys, told)
    assert code == ExitCode.REFUSED
    assert where in err
    assert out == ""


def test_a_figure_that_is_no_number_is_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = document(runs=[["A", "NaN"], ["B", None]] * 10)
    code, out, _ = say(tmp_path, capsys, told, "--json")
    assert code == ExitCode.FARM_TROUBLE
    assert json.loads(out)["series"][0]["verdict"] == "broken"
