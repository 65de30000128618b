"""The part `app` of a bundle: what goes to the device's package manager are names, and they are all there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farm.domain.bundles import read_bundle
from farm.domain.manifests import ManifestError

APP = {"package": "com.example.bench", "instrumentation": "com.example.bench/.Runner"}


def declared(adapter: str = "app", app: Any = APP) -> dict[str, Any]:
    body = {
        "format": 1, "name": "b", "version": "1", "git_sha": None, "adapter": adapter, "entry": "app.apk",
        "files": {"arm64-v8a": {"app.apk": "app.apk"}}, "models": {}, "app": app,
    }  # fmt: skip
    return read_bundle(json.dumps(body))


def test_an_app_is_read_as_it_is_written() -> None:
    assert declared()["app"] == APP
    assert "app" not in declared("events", None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"package": "com.example; reboot"}, "no name of a package"),
        ({"package": "bench"}, "no name of a package"),
        ({"instrumentation": "com.example/.R --user 10"}, "no name of a instrumentation"),
        ({"permissions": ["a.b; c"]}, "is no permission"),
        ({"apks": ["test.apk"]}, "'test.apk' is missing in files for arm64-v8a"),
        ({"pakage": "x.y"}, "pakage"),
    ],
)
def test_what_is_no_name_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        declared(app={**APP, **change})


def test_the_part_belongs_to_its_adapter() -> None:
    with pytest.raises(ManifestError, match="app is for the adapter app"):
        declared("events")
