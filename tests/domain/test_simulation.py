"""farm simulate: every job runs once, selectors hold, no device twice at once, whatever fails; mistakes are named."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.domain.simulation import FarmPolicy, Result, ScenarioError, read_scenario, simulate


def play(document: dict[str, Any]) -> dict[str, Any]:
    scenario = read_scenario(document)
    return Result(scenario, *simulate(scenario, FarmPolicy(scenario.devices, scenario.jobs))).document()


def device(name: str, soc: str = "A") -> dict[str, Any]:
    return {"id": name, "labels": {"soc": soc}}


def job(name: str, selector: str = "*", submit_s: float = 0, duration_s: float = 10, **more: Any) -> dict[str, Any]:
    return {"id": name, "submit_s": submit_s, "selector": selector, "duration_s": duration_s, **more}


scenarios = st.builds(
    lambda socs, jobs, failures: {
        "devices": [device(f"d{n}", soc) for n, soc in enumerate(["A", "B", *socs])],
        "jobs": [
            {**job(f"j{n}", selector, submit, duration), "class": klass, "team": team, "estimate_s": estimate}
            for n, (selector, submit, duration, klass, team, estimate) in enumerate(jobs)
        ],
        "failures": [
            {"device": f"d{which % (2 + len(socs))}", "at_s": at, "for_s": lasts} for which, at, lasts in failures
        ],
    },
    st.lists(st.sampled_from("AB"), max_size=2),
    st.lists(
        st.tuples(
            st.sampled_from(["*", "soc=A", "soc=B", "not soc=A"]),
            st.integers(0, 60),
            st.one_of(st.integers(0, 30), st.floats(0, 30)),
            st.sampled_from(["debug", "pr", "manual", "nightly"]),
            st.sampled_from(["x", "y"]),
            st.sampled_from([None, 1, 30]),
        ),
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 80), st.integers(0, 40)), max_size=6),
)


@given(scenarios)
def test_every_job_runs_once_on_a_device_that_it_wants_and_that_is_its_own_and_works(document: dict[str, Any]) -> None:
    found = play(document)
    jobs = {entry["id"]: entry for entry in document["jobs"]}
    socs = {entry["id"]: entry["labels"]["soc"] for entry in document["devices"]}
    assert sorted(entry["job"] for entry in found["schedule"]) == sorted(jobs)
    for entry in found["schedule"]:
        wanted = jobs[entry["job"]]
        assert entry["start_s"] >= wanted["submit_s"]
        assert entry["end_s"] == entry["start_s"] + wanted["duration_s"]
        assert wanted["selector"] in ("*", f"soc={socs[entry['device']]}") or (
            wanted["selector"] == "not soc=A" and socs[entry["device"]] == "B"
        )
    spans = sorted((e["device"], e["start_s"], e["end_s"]) for e in [*found["schedule"], *found["lost"]])
    for (one, _, end), (other, start, _) in pairwise(spans):
        assert one != other or start >= end
    for failure in document["failures"]:
        for entry in [*found["schedule"], *found["lost"]]:
            if entry["device"] == failure["device"] and failure["for_s"]:
                away = failure["at_s"] < entry["end_s"] and entry["start_s"] < failure["at_s"] + failure["for_s"]
                assert not away or (entry["start_s"] == entry["end_s"] == failure["at_s"])


def test_a_failure_loses_the_job_that_runs_and_it_runs_again_on_another_device() -> None:
    found = play(
        {
            "devices": [device("d1"), device("d2", "B")],
            "jobs": [job("j1", duration_s=100), job("j2", "soc=B", duration_s=30)],
            "failures": [{"device": "d1", "at_s": 40, "for_s": 1}],
        }
    )
    assert found["lost"] == [{"job": "j1", "device": "d1", "start_s": 0.0, "end_s": 40.0}]
    assert {"job": "j1", "device": "d2", "start_s": 40.0, "end_s": 140.0} in found["schedule"]
    assert found["summary"]["lost"] == 1
    assert found["summary"]["makespan_s"] == 140.0


def test_a_job_that_ends_at_the_moment_of_the_failure_has_made_it() -> None:
    document = {"devices": [device("d")], "jobs": [job("j")], "failures": [{"device": "d", "at_s": 10, "for_s": 5}]}
    assert play(document)["lost"] == []


def test_the_class_decides_who_is_first_and_the_summary_tells_the_waits() -> None:
    jobs = [
        job("a", duration_s=50),
        {**job("n", submit_s=1), "class": "nightly"},
        {**job("p", submit_s=2), "class": "pr"},
    ]
    found = play({"devices": [device("d")], "jobs": jobs})
    assert [entry["job"] for entry in found["schedule"]] == ["a", "p", "n"]
    waits = found["summary"]["wait_s_by_class"]
    assert list(waits) == ["pr", "manual", "nightly"]
    assert waits["pr"] == {"n": 1, "p50": 48.0, "p95": 48.0, "max": 48.0}


def test_an_empty_scenario_has_no_figures_and_not_zero() -> None:
    summary = play({"devices": [], "jobs": []})["summary"]
    assert summary["makespan_s"] is None
    assert summary["busy"] is None
    assert summary["wait_s"]["p50"] is None


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"jobs": [job("j", "soc==A")]}, "jobs[0].selector", "cannot be read"),
        ({"jobs": [job("j", "soc=Z")]}, "jobs[0].selector", "no device matches"),
        ({"jobs": [job("j"), job("j")]}, "jobs[1].id", "twice"),
        ({"jobs": [{**job("j"), "class": "nighty"}]}, "jobs[0].class", "nightly"),
        ({"jobs": [job("j", submit_s=-1)]}, "jobs[0].submit_s", "between 0"),
        ({"jobs": [job("j", duration_s=float("nan"))]}, "jobs[0].duration_s", "number of seconds"),
        ({"jobs": [{**job("j"), "duration_s": True}]}, "jobs[0].duration_s", "number of seconds"),
        ({"jobs": [{**job("j"), "duraton_s": 1}]}, "jobs[0].duraton_s", "duration_s"),
        ({"jobs": "many"}, "jobs", "a list is needed"),
        ({"jobs": [3]}, "jobs[0]", "an object is needed"),
        ({"devices": [{"id": 7}]}, "devices[0].id", "a text"),
        ({"devices": [{"id": "d", "labels": {"soc": [1]}}]}, "devices[0].labels.soc", "a label is"),
        ({"failures": [{"device": "e", "at_s": 0, "for_s": 1}]}, "failures[0].device", "there is no device 'e'"),
    ],
)
def test_a_mistake_is_named_with_its_place(change: dict[str, Any], path: str, words: str) -> None:
    document = {"devices": [device("d")], "jobs": [job("j")], **change}
    with pytest.raises(ScenarioError) as wrong:
        read_scenario(document)
    assert wrong.value.path == path
    assert words in str(wrong.value)


@pytest.mark.parametrize("document", [None, [], 3, {"jobs": []}, json.loads('{"devices": [], "jobs": [], "x": 1}')])
def test_what_is_no_scenario_is_said_to_be_none(document: object) -> None:
    with pytest.raises(ScenarioError):
        read_scenario(document)
