"""Builds llama.cpp's own `llama-bench` and lays it out as a bundle: a foreign engine that proves the contract.

    python -m engine.llama_bench --out DIR [--jobs 2]

The same pinned source as the reference engine, the same toolchain, static. The first build takes several minutes. The
bundle holds the tiny models of the reference engine, which are plain llama models with a byte vocabulary.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from engine import build, package, sources, toolchain
from engine.models import make_model

PROGRAM = "llama-bench"
OFF = (
    *(
        "GGML_NATIVE",
        "GGML_OPENMP",
        "GGML_LLAMAFILE",
        "GGML_CCACHE",
        "BUILD_SHARED_LIBS",
        "LLAMA_CURL",
        "LLAMA_OPENSSL",
    ),
    *("LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_SERVER", "LLAMA_BUILD_UI", "LLAMA_BUILD_APP"),
)
ON = ("GGML_STATIC", "GGML_SSE42", "GGML_AVX", "GGML_AVX2", "GGML_FMA", "GGML_F16C", "GGML_BMI2", "LLAMA_BUILD_TOOLS")


def build_llama_bench(out: Path, jobs: int, say: sources.Say) -> Path:
    """The program; incremental. Errors as of `engine.build.build`."""
    own = out / PROGRAM  # with a lock of its own: builds of the reference engine do not wait for this long one
    with build.locked(own):
        source = sources.ensure(say)
        tools = toolchain.find_toolchain("x86_64", own / "toolchain")
        folder = own / tools.name
        folder.mkdir(parents=True, exist_ok=True)
        flags = f"-fno-omit-frame-pointer -ffile-prefix-map={source.path}=llama.cpp"
        configure = [tools.cmake, "-S", str(source.path), "-B", str(folder), *tools.cmake_arguments()]
        configure += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXE_LINKER_FLAGS=-static"]
        configure += [f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"]
        configure += [f"-D{name}=OFF" for name in OFF] + [f"-D{name}=ON" for name in ON]
        build.run_tool(configure, build.PROJECT, say)
        build.compile_targets(tools, folder, jobs, [PROGRAM], say)
        return folder / "bin" / PROGRAM


def package_llama_bench(out: Path, jobs: int, say: sources.Say) -> Path:
    """The bundle below `out`; returns its `bundle.yaml`."""
    program = build_llama_bench(build.DEFAULT_OUT, jobs, say)
    devtool = build.build("static-x86_64", build.DEFAULT_OUT, jobs, say).programs["farm-devtool"]
    return package.write_bundle(
        out,
        name=PROGRAM,
        adapter=PROGRAM,
        entry=PROGRAM,
        abi="x86_64",
        programs={PROGRAM: program, "farm-devtool": devtool},
        models=make_model.make_models(make_model.cache_folder(), names=("tiny",)),
        version=f"llama-cpp-python-{sources.read_pin().version}",
        notices=sources.ensure(say).notices(whole=True),
    )


def main() -> int:
    """Command line; prints the path of `bundle.yaml`."""
    parser = argparse.ArgumentParser(prog="python -m engine.llama_bench", description=f"Lay out a {PROGRAM} bundle.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    try:
        print(package_llama_bench(arguments.out.resolve(), arguments.jobs, build.printer(time.monotonic())))
    except (sources.SourceError, toolchain.ToolchainError, build.BuildError) as error:
        print(f"engine.llama_bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
