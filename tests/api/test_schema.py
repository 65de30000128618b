"""Whatever is sent where the schema says that something may be sent: the farm never answers 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.store.people import Scope
from tests.api.rows import an_attempt
from tests.served import Served, serve

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
ODD = st.sampled_from(["", "0", "-1", "1", "1e9", "9" * 30, "null", "../..", "%00", "a" * 300, "*", "'", "\ud800x"[1:]])


@pytest.fixture(scope="module")
def farm_with_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("farm")) as served:
        an_attempt(served)
        an_attempt(served, ended=True)
        yield served


def operations(served: Served) -> list[tuple[str, str, dict[str, Any]]]:
    schema = served.farm.app.openapi()
    return [
        (method.upper(), path, operation)
        for path, entry in schema["paths"].items()
        for method, operation in entry.items()
        if path not in ("/api/events", "/login/once/{code}", "/logout")
    ]


def body_of(served: Served, operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    return dict(served.farm.app.openapi()["components"]["schemas"].get(name, {}))


def example(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a property's schema allows, roughly: what comes after validation is to be reached as well."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return st.one_of([example(entry) for entry in schema[choice]])
    match schema.get("type"):
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 60), 60)) | ODD
        case "integer":
            return st.integers(schema.get("minimum", 0), schema.get("maximum", 2**63 - 1))
        case "array":
            return st.lists(example(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=3)
        case "object":
            inner = schema.get("additionalProperties")
            return st.dictionaries(
                st.text(max_size=10), example(inner) if isinstance(inner, dict) else JSON, max_size=3
            )
        case "null":
            return st.none()
    return JSON


@st.composite
def a_request(draw: st.DrawFn, served: Served) -> tuple[str, str, dict[str, str], Any]:
    method, path, operation = draw(st.sampled_from(operations(served)))
    query: dict[str, str] = {}
    for parameter in operation.get("parameters", []):
        value = draw(st.one_of(example(parameter["schema"]).map(str), ODD))
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", quote(value, safe="") or "1")

        elif parameter["in"] == "query" and draw(st.booleans()):
            query[parameter["name"]] = value
    properties = body_of(served, operation).get("properties", {})
    valid = st.fixed_dictionaries(
        {name: example(schema) for name, schema in properties.items() if "default" not in schema},
        optional={name: example(schema) for name, schema in properties.items() if "default" in schema},
    )
    return method, path, query, draw(valid | JSON)


def test_no_request_that_the_schema_speaks_of_is_answered_with_500(farm_with_rows: Served) -> None:
    served = farm_with_rows
    seen: set[int] = set()

    @given(a_request(served))
    @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
    def check(request: tuple[str, str, dict[str, str], Any]) -> None:
        method, path, query, body = request
        data = json.dumps(body).encode()
        try:
            answer = served.ask(method, path, params=query, content=data, headers={"Content-Type": "application/json"})
        except (httpx.InvalidURL, UnicodeError):
            return
        if answer.status_code == 401:  # it revoked its own token
            served.token = served.new_token(Scope.ADMIN)
        seen.add(answer.status_code)
        assert answer.status_code < 500, (method, path, query, body, answer.text)
        if answer.status_code >= 400 and method != "HEAD":
            assert answer.json()["error"]["message"]

    check()
    served.token = served.new_token(Scope.ADMIN)
    assert {200, 404, 422} <= seen


def test_every_operation_is_described(farm_with_rows: Served) -> None:
    schema = farm_with_rows.ask("GET", "/openapi.json").json()
    for path, entry in schema["paths"].items():
        for method, operation in entry.items():
            assert operation.get("summary"), (method, path)
            assert operation.get("description"), (method, path)


def test_the_schema_says_who_must_ask_and_what_an_error_is(farm_with_rows: Served) -> None:
    schema = farm_with_rows.ask("GET", "/openapi.json").json()
    assert schema["security"] == [{"token": []}, {"session": []}]
    public = {path for path, entry in schema["paths"].items() if any(o.get("security") == [] for o in entry.values())}
    assert public == {"/login", "/login/once/{code}", "/healthz"}
    for path, entry in schema["paths"].items():
        for operation in entry.values():
            error = operation["responses"]["4XX"]["content"]["application/json"]["schema"]
            assert error == {"$ref": "#/components/schemas/Error"}, path
