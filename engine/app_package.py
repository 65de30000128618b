"""Lays out the reference engine as an app's bundle: an APK for virtual devices, models and `bundle.yaml`.

    python -m engine.app_package --out DIR [--jobs 2]

The APK's manifest is plain text and its code a program (`engine/app`): real phones need one that is built with the
Android SDK, and the bundle's part `app` is the same for both.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import zipfile
from pathlib import Path

from engine import build, sources, toolchain
from engine.models import make_model
from engine.package import PREFERRED_MODEL, write_bundle

PACKAGE = "com.farm.bench"
PERMISSION = "android.permission.POST_NOTIFICATIONS"
MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="{package}">
  <uses-permission android:name="{permission}"/>
  <instrumentation android:name=".BenchInstrumentation" android:targetPackage="{package}"/>
  <meta-data android:name="farm.virtual.program" android:value="{program}"/>
</manifest>
"""
#: The same date in every archive: the same program gives the same bytes.
_DATE = (2020, 1, 1, 0, 0, 0)


def write_apk(path: Path, program: Path, abi: str) -> Path:
    """An APK that a virtual device installs."""
    inside = f"lib/{abi}/libfarmapp.so"
    text = MANIFEST.format(package=PACKAGE, permission=PERMISSION, program=inside)
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("AndroidManifest.xml", _DATE), text)
        archive.writestr(zipfile.ZipInfo(inside, _DATE), program.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def write_app_bundle(out: Path, app: Path, devtool: Path, models: dict[str, Path], abi: str = "x86_64") -> Path:
    """`bundle.yaml` and what it names, below `out`."""
    apk = write_apk(out / "built" / "app.apk", app, abi)
    return write_bundle(
        out,
        name="reference-app",
        adapter="app",
        entry="app.apk",
        abi=abi,
        programs={"app.apk": apk, "farm-devtool": devtool},
        models=models,
        app={
            "package": PACKAGE,
            "instrumentation": f"{PACKAGE}/.BenchInstrumentation",
            "permissions": [PERMISSION],
            "arguments": {
                key: f"{{{key}}}"
                for key in (
                    "model",
                    "prompt",
                    "prompt_tokens",
                    "n_predict",
                    "threads",
                    "ctx",
                    "seed",
                    "repeat",
                    "warmup",
                )
            },
        },
    )


def main() -> int:
    """Command line; prints the path of `bundle.yaml`."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.app_package", description="Lay out the reference app's bundle."
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    say = build.printer(time.monotonic())
    try:
        models = make_model.make_models(make_model.cache_folder())
        programs = build.build("static-x86_64", build.DEFAULT_OUT, arguments.jobs, say).programs
        chosen = {PREFERRED_MODEL: models[PREFERRED_MODEL]}
        print(write_app_bundle(arguments.out.resolve(), programs["farm-app"], programs["farm-devtool"], chosen))
    except (sources.SourceError, toolchain.ToolchainError, build.BuildError) as error:
        print(f"engine.app_package: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
