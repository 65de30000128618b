"""Lays out the reference engine as an unpacked bundle: programs, models and `bundle.yaml`.

    python -m engine.package --out DIR [--models tiny-q4_0,small-q4_0] [--jobs 2]

Builds what is missing. The folder is ready for `farm bundle build DIR`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from engine import build, sources, toolchain
from engine.models import make_model

PREFERRED_MODEL = "small-q4_0"
NOTICES = "THIRD-PARTY-NOTICES"


def git_commit() -> str | None:
    """The commit that the engine's folder is at; None where git cannot say or the folder differs from the commit."""
    here = str(build.HERE)
    try:
        changed = subprocess.run(
            ["git", "-C", here, "status", "--porcelain", "--", "."],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        commit = subprocess.run(
            ["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if changed.stdout.strip() else commit.stdout.strip()


def write_bundle(
    out: Path,
    *,
    name: str,
    adapter: str,
    entry: str,
    abi: str,
    programs: Mapping[str, Path],
    models: Mapping[str, Path],
    version: str = build.VERSION,
    git_sha: str | None = None,
    generic: Mapping[str, object] | None = None,
    app: Mapping[str, object] | None = None,
    notices: str | None = None,
) -> Path:
    """Copies programs and models below `out` and writes `bundle.yaml` beside them; returns its path.

    `notices`: licences of others' code in the programs; a file of the bundle, so that it goes wherever they go.

    Files that are not of this bundle are left alone; those that are there with the same size and time are not copied.
    """
    files = {program: f"bin/{abi}/{program}" for program in programs}
    model_files = {model: f"models/{path.name}" for model, path in models.items()}
    for source, target in [
        *((path, files[program]) for program, path in programs.items()),
        *((path, model_files[model]) for model, path in models.items()),
    ]:
        _copy(source, out / target)
    if notices is not None:
        files[NOTICES] = f"{NOTICES}.txt"
        _write(out / files[NOTICES], notices)
    manifest = {
        "format": 1,
        "name": name,
        "version": version,
        "git_sha": git_sha,
        "adapter": adapter,
        "entry": entry,
        "files": {abi: files},
        "models": model_files,
        "default_model": PREFERRED_MODEL if PREFERRED_MODEL in models else next(iter(models)),
        "parameters": {"threads": 1, "ctx": 512},
        "budgets": {},
        "generic": dict(generic) if generic is not None else None,
        **({"app": dict(app)} if app is not None else {}),
    }
    path = out / "bundle.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return path


def _write(target: Path, text: str) -> None:
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    wanted = source.stat()
    if target.is_file():
        found = target.stat()
        if (found.st_size, found.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns):
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".part")
    shutil.copy2(source, temporary)
    os.replace(temporary, target)


def package(out: Path, jobs: int, say: sources.Say, models: Sequence[str] | None = None) -> Path:
    """The reference bundle below `out`: static x86-64 programs and the named models (all by default).

    Errors: those of `engine.build.build`; ValueError for a model that does not exist.
    """
    shapes = tuple(make_model.SHAPES)
    if models is not None:
        shapes = tuple(
            shape for shape in make_model.WEIGHT_TYPES if any(model.startswith(f"{shape}-") for model in models)
        )
    say("writing models")
    made = make_model.make_models(make_model.cache_folder(), names=shapes)
    if models is not None:
        unknown = [model for model in models if model not in made]
        if unknown or not models:
            raise ValueError(
                f"no such model: {', '.join(unknown) or '(none named)'}; there are "
                + "; ".join(f"{name} as {', '.join(types)}" for name, types in make_model.WEIGHT_TYPES.items())
                + "; for example small-q4_0"
            )
        made = {model: made[model] for model in models}
    built = build.build("static-x86_64", build.DEFAULT_OUT, jobs, say)
    return write_bundle(
        out,
        name="reference",
        adapter="events",
        entry="farm-engine",
        abi=built.abi,
        programs={name: built.programs[name] for name in ("farm-engine", "farm-devtool")},
        models=made,
        git_sha=git_commit(),
        notices=sources.ensure(say).notices(),
    )


def main() -> int:
    """Command line; prints the path of `bundle.yaml`."""
    parser = argparse.ArgumentParser(prog="python -m engine.package", description="Lay out the reference bundle.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", help="comma-separated names; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    models = None if arguments.models is None else arguments.models.split(",")
    try:
        print(package(arguments.out.resolve(), arguments.jobs, build.printer(time.monotonic()), models))
    except (sources.SourceError, toolchain.ToolchainError, build.BuildError, ValueError) as error:
        print(f"engine.package: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
