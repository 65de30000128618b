"""What the command line says when it, or the farm, refuses something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import BaseModel

from farm.api import devices, holds, leases
from farm.cli import bad_input, main, reason
from farm.cli.client import HttpError
from farm.cli.errors import CliError
from farm.cli.output import print_json
from tests.cli.conftest import farm
from tests.served import Served

TOO_SHORT = "farm: --reason is too short: give at least 3 characters\n"


@pytest.mark.parametrize(
    "words",
    [
        ["pause", "device", "d1", "--reason", "x"],
        ["drain", "farm", "--reason", "  x  "],
        ["device", "quarantine", "d1", "--reason", ""],
        ["device", "maintenance", "d1", "--reason", "no"],
        ["lease", "preempt", "1", "--reason", "x"],
    ],
)
def test_a_reason_that_says_nothing_is_refused_in_plain_words(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(words) == 3
    assert capsys.readouterr().err.startswith(TOO_SHORT)


def test_a_reason_that_is_too_long_is_told_with_its_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["pause", "farm", "--reason", "x" * 301]) == 3
    assert "it has 301 characters, at most 300 fit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "longest"),
    [(devices.Because, reason.FOR_DEVICE), (holds.NewHold, reason.FOR_HOLD), (leases.Because, reason.FOR_LEASE)],
)
def test_the_bounds_of_a_reason_are_those_of_the_api(model: type[BaseModel], longest: int) -> None:
    told = model.model_json_schema()["properties"]["reason"]
    assert (told["minLength"], told["maxLength"]) == (reason.SHORTEST, longest)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("body.reason: String should have at least 3 characters", "reason must have at least 3 characters"),
        ("body.for_s: Input should be greater than 0", "for_s must be greater than 0"),
        ("query.limit: Input should be less than or equal to 500", "limit must be less than or equal to 500"),
        ("body.suites: Field required", "suites is missing"),
        ("body.colour: Extra inputs are not permitted", "colour is not known to this farm"),
        ("body: Value error, give shards with mode shard", "give shards with mode shard"),
        ("body.env: Value error, 'a b' is no name of a variable", "env: 'a b' is no name of a variable"),
        ("body: Field required", "the request is missing"),
        ("something else", "something else"),
    ],
)
def test_a_validation_error_is_told_without_words_of_the_api(problem: str, said: str) -> None:
    error: dict[str, Any] = {"code": "bad-input", "message": problem, "detail": [problem]}
    assert HttpError(422, error).message == said
    assert bad_input.words({"code": "bad-input", "detail": [problem, problem]}) == f"{said}; {said}"


def test_another_refusal_keeps_its_own_words() -> None:
    assert (
        HttpError(422, {"code": "no-match", "message": "no device matches", "detail": []}).message
        == "no device matches"
    )
    assert HttpError(503, {}).message == "the farm answered 503"


def test_a_refusal_of_the_farm_is_a_json_document_where_json_was_asked_for(farm_server: Served) -> None:
    done = farm("show", "99", "--json", state=farm_server.settings.state)
    assert done.code == 3
    error = done.json()["error"]
    assert (error["code"], error["hint"]) == ("not-found", None)
    assert error["message"].startswith("There is no run 99")
    assert done.err.startswith("farm: There is no run 99")
    plain = farm("show", "99", state=farm_server.settings.state)
    assert (plain.code, plain.out, plain.err) == (3, "", done.err)


def test_a_farm_that_is_not_there_is_a_json_document(tmp_path: Path) -> None:
    done = farm("devices", "--json", state=tmp_path)
    error = done.json()["error"]
    assert (done.code, error["code"]) == (2, "unreachable")
    assert "farm up" in error["hint"]
    assert error["message"] in done.err


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["show", "x", "--json"], "usage", "farm show --help"),
        (["show", "--json"], "usage", "farm show --help"),
        (["sohw", "1", "--json"], "usage", "farm --help"),
        (["pause", "farm", "--reason", "x", "--json"], "refused", "it is shown to others"),
    ],
)
def test_a_command_that_cannot_be_is_a_json_document(tmp_path: Path, words: list[str], code: str, hint: str) -> None:
    done = farm(*words, state=tmp_path)
    error = done.json()["error"]
    assert (done.code, error["code"]) == (3, code)
    assert error["message"]
    assert error["hint"].startswith(hint)
    assert done.err


def test_settings_that_cannot_be_are_a_json_document(tmp_path: Path) -> None:
    done = farm("devices", "--json", state=tmp_path, FARM_PORT="none")
    assert (done.code, done.json()["error"]["code"]) == (3, "settings")


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), click.Abort(), CliError("broken")])
@pytest.mark.parametrize("result_first", [False, True])
def test_there_is_one_document_and_never_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: BaseException, result_first: bool
) -> None:
    def work(*_arguments: object, **_options: object) -> int:
        if result_first:
            print_json({"a": "result"})
        raise ending

    monkeypatch.setattr(main.cli, "main", work)
    code = main.main(["devices", "--json"])
    shown = json.loads(capsys.readouterr().out)
    if result_first:
        assert shown == {"a": "result"}
    else:
        assert shown["error"]["code"] == ("farm-trouble" if code == 2 else "cancelled")
