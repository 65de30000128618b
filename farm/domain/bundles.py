"""What a bundle is: an engine build with models, declared by `bundle.yaml`, addressed by hash.

format: 1
name: reference
version: 0.1.0
git_sha: null
adapter: events                     # events, llama-bench, generic, app
entry: farm-engine                  # a name in files
files: {x86_64: {farm-engine: bin/x86_64/farm-engine}}
scripts: []                         # names in files that are scripts on purpose: they fit every ABI
models: {tiny: models/tiny.gguf}
default_model: tiny
parameters: {threads: 1}
budgets: {}
generic: null                       # for the adapter generic: how to start it and what to read
app: null                           # for the adapter app: package, instrumentation, … (see runner/engines/app.py)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from farm.domain.manifests import FORMAT, is_safe_path, read, read_head, verify
from farm.domain.names import did_you_mean
from farm.domain.yaml_lines import Checker, kind

ADAPTERS = ("events", "llama-bench", "generic", "app")
_APP_KEYS = (
    "package",
    "instrumentation",
    "arguments",
    "permissions",
    "apks",
    "models_to",
    "results",
    "metrics",
    "text",
)
_COMPONENT = re.compile(r"[A-Za-z]\w*(?:\.\w+)+(?:/[.\w$]+)?")
_BUNDLE_KEYS = (
    "format", "name", "version", "git_sha", "adapter", "entry", "files", "scripts", "models", "default_model",
    "parameters", "budgets", "generic", "app",
)  # fmt: skip


def read_bundle(text: str) -> dict[str, Any]:
    """`bundle.yaml` checked and with defaults filled in, still without content. Raises ManifestError."""
    return read("bundle.yaml", text, _bundle)


def check_bundle(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A whole manifest with content, from outside: normalised, or ManifestError."""
    return verify("bundle manifest", manifest, _bundle, bundle_paths)


def bundle_paths(manifest: Mapping[str, Any]) -> set[str]:
    """Every file that the declaration names."""
    named = {path for files in manifest["files"].values() for path in files.values()}
    return named | set(manifest["models"].values())


def device_paths(manifest: Mapping[str, Any], abi: str) -> list[str]:
    """The files that a device of this ABI gets: its executables, then the models."""
    return sorted(set(manifest["files"][abi].values()) | set(manifest["models"].values()))


def _bundle(check: Checker, body: Mapping[str, Any]) -> dict[str, Any]:
    check.keys(body, (), _BUNDLE_KEYS, "a bundle")
    name = read_head(check, body)
    adapter = check.text(body.get("adapter"), ("adapter",), "adapter", needed=True) or ""
    if adapter and adapter not in ADAPTERS:
        check.wrong(("adapter",), f"unknown adapter {adapter!r}", did_you_mean(adapter, ADAPTERS) or f"{ADAPTERS}")
    files = {
        abi: _paths(check, names, ("files", abi))
        for abi, names in check.mapping(body.get("files"), ("files",), "files").items()
    }
    if not files:
        check.wrong(("files",), "files names no ABI", "for example files: {x86_64: {engine: bin/x86_64/engine}}")
    entry = check.text(body.get("entry"), ("entry",), "entry", needed=True)
    for abi, names in files.items():
        if entry is not None and entry not in names:
            check.wrong(("files", abi), f"entry {entry!r} is missing for {abi}", did_you_mean(entry, names))
    scripts = _scripts(check, body.get("scripts"), {name for names in files.values() for name in names})
    models = _paths(check, body.get("models"), ("models",))
    default = check.text(body.get("default_model"), ("default_model",), "default_model")
    if default is not None and default not in models:
        check.wrong(("default_model",), f"default_model {default!r} is no model", did_you_mean(default, models))
    generic = body.get("generic")
    if (adapter == "generic") != isinstance(generic, dict):
        check.wrong(("generic",), "generic must be a mapping for the adapter generic and null for the others")
    app = _app(check, body.get("app"), files) if adapter == "app" else None
    if adapter != "app" and body.get("app") is not None:
        check.wrong(("app",), f"app is for the adapter app, and this bundle's is {adapter}")
    return {
        "format": FORMAT,
        "name": name,
        "version": check.text(body.get("version"), ("version",), "version", needed=True, limit=100),
        "git_sha": check.text(body.get("git_sha"), ("git_sha",), "git_sha", limit=64),
        "adapter": adapter,
        "entry": entry,
        "files": files,
        **({"scripts": scripts} if scripts else {}),  # left out where there are none: older bundles keep their hash
        "models": models,
        "default_model": default or next(iter(models), None),
        "parameters": _plain(check, body.get("parameters"), ("parameters",)),
        "budgets": _plain(check, body.get("budgets"), ("budgets",)),
        "generic": _plain(check, generic, ("generic",)) if isinstance(generic, dict) else None,
        **({"app": app} if app is not None else {}),
    }


def _app(check: Checker, value: Any, files: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The part `app`: words that go to `pm` and `am` are names and nothing else."""
    body = _plain(check, value, ("app",))
    check.keys(body, ("app",), _APP_KEYS, "app")
    for key in ("package", "instrumentation"):
        if not isinstance(body.get(key), str) or not _COMPONENT.fullmatch(body[key]):
            hint = "com.example.bench" if key == "package" else "com.example.bench/.BenchInstrumentation"
            check.wrong(("app", key), f"{key} {body.get(key)!r} is no name of a {key}", f"for example {hint}")
    for permission in check.sequence(body.get("permissions"), ("app", "permissions"), "permissions"):
        if not isinstance(permission, str) or not _COMPONENT.fullmatch(permission):
            check.wrong(("app", "permissions"), f"{permission!r} is no permission", "android.permission.WAKE_LOCK")
    for name in check.sequence(body.get("apks"), ("app", "apks"), "apks"):
        for abi, known in files.items():
            if name not in known:
                check.wrong(("app", "apks"), f"{name!r} is missing in files for {abi}", did_you_mean(str(name), known))
    return body


def _scripts(check: Checker, value: Any, names: set[str]) -> list[str]:
    made: list[str] = []
    for index, item in enumerate(check.sequence(value, ("scripts",), "scripts")):
        if isinstance(item, str) and item in names:
            made.append(item)
        else:
            hint = did_you_mean(str(item), names) or f"known here: {', '.join(sorted(names))}"
            check.wrong(("scripts", index), f"{item!r} in scripts is no name in files", hint)
    return sorted(set(made))


def _paths(check: Checker, value: Any, path: tuple[Any, ...]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, item in check.mapping(value, path, str(path[0])).items():
        if isinstance(item, str) and is_safe_path(item):
            made[name] = item
        else:
            check.wrong((*path, name), f"{item!r} is no relative path below the folder")
    return made


def _plain(check: Checker, value: Any, path: tuple[Any, ...]) -> dict[str, Any]:
    """A small tree of plain JSON values, as the adapter will read it."""
    body = check.mapping(value, path, str(path[0]))
    try:
        text = json.dumps(body, allow_nan=False)
    except (TypeError, ValueError):
        check.wrong(path, f"{path[0]} holds {kind(body)} that JSON cannot carry")
        return {}
    if len(text) > 100_000:
        check.wrong(path, f"{path[0]} is longer than 100000 characters")
    return body
