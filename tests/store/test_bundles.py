"""Bundles, packs and the artifact store: the same content is the same hash, and nothing half is ever there."""

from __future__ import annotations

import hashlib
import io
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.domain.bundles import check_bundle, device_paths
from farm.domain.manifests import ManifestError, is_safe_path
from farm.store import bundles, tables
from farm.store.artifacts import ArtifactStore, WrongContent
from farm.store.db import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BUNDLE = """
format: 1
name: reference
version: 0.1.0
git_sha: null
adapter: events
entry: engine
files: {x86_64: {engine: bin/x86_64/engine}, arm64-v8a: {engine: bin/arm64/engine}}
scripts: [engine]
models: {tiny: models/tiny.gguf}
parameters: {threads: 1}
"""
PACK = """
format: 1
name: mine
suites:
  smoke: {path: smoke, needs: "android>=10", settle: {max_temperature_c: 40, timeout_s: 120}, limits: {suite_s: 60}}
"""


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


@pytest.fixture
def bundle_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    for path, data in (("bin/x86_64/engine", b"x86"), ("bin/arm64/engine", b"arm"), ("models/tiny.gguf", b"weights")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for abi in ("x86_64", "arm64"):
        (folder / "bin" / abi / "engine").chmod(0o775)
    (folder / "bundle.yaml").write_text(BUNDLE)
    return folder


@pytest.fixture
def pack_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    (folder / "smoke" / "__pycache__").mkdir(parents=True)
    (folder / "suite.yaml").write_text(PACK)
    (folder / "smoke" / "test_a.py").write_text("def test_a(): pass\n")
    (folder / "smoke" / "__pycache__" / "x.pyc").write_bytes(b"cache")
    return folder


def test_a_bundle_comes_back_as_it_was_and_has_the_same_hash_again(
    db: Database, store: ArtifactStore, bundle_folder: Path, tmp_path: Path
) -> None:
    with db.session() as session:
        first = bundles.import_bundle(session, store, bundle_folder, NOW, "ada")
    (bundle_folder / "bin/x86_64/engine").chmod(0o711)  # a umask changes no hash
    with db.session() as session:
        again = bundles.import_bundle(session, store, bundle_folder, NOW, "bob")
        bundles.export(session, store, first.hash, tmp_path / "out")
    assert first.new
    assert not again.new
    assert again.hash == first.hash
    assert (tmp_path / "out/models/tiny.gguf").read_bytes() == b"weights"
    assert os.access(tmp_path / "out/bin/x86_64/engine", os.X_OK)
    with db.read() as session:
        row = session.get(tables.Bundle, first.hash)
        assert row is not None
        assert device_paths(row.manifest, "x86_64") == ["bin/x86_64/engine", "models/tiny.gguf"]


def test_another_byte_is_another_bundle(db: Database, store: ArtifactStore, bundle_folder: Path) -> None:
    with db.session() as session:
        first = bundles.import_bundle(session, store, bundle_folder, NOW, None)
        (bundle_folder / "models/tiny.gguf").write_bytes(b"weighty")
        second = bundles.import_bundle(session, store, bundle_folder, NOW, None)
    assert first.hash != second.hash


def test_a_bundle_travels_by_its_missing_files_alone(
    db: Database, store: ArtifactStore, bundle_folder: Path, tmp_path: Path
) -> None:
    with db.session() as session:
        imported = bundles.import_bundle(session, store, bundle_folder, NOW, None)
        row = session.get(tables.Bundle, imported.hash)
        assert row is not None
        manifest = row.manifest
    elsewhere = ArtifactStore(tmp_path / "elsewhere")
    other = Database(f"sqlite:///{tmp_path / 'other.sqlite'}")
    other.migrate()
    elsewhere.put(io.BytesIO(b"weights"))
    with other.session() as session:
        with pytest.raises(bundles.MissingBlobs) as caught:
            bundles.register_bundle(session, elsewhere, manifest, NOW, None)
        assert len(caught.value.hashes) == 2
        for sha256 in caught.value.hashes:
            elsewhere.put(store.open(sha256), expected=sha256)
        assert bundles.register_bundle(session, elsewhere, manifest, NOW, None).hash == imported.hash
    other.close()


def test_a_suite_pack_is_every_file_but_caches(db: Database, store: ArtifactStore, pack_folder: Path) -> None:
    with db.session() as session:
        imported = bundles.import_pack(session, store, pack_folder, NOW, None)
        row = session.get(tables.SuitePack, imported.hash)
        assert row is not None
        assert sorted(row.manifest["content"]) == ["smoke/test_a.py", "suite.yaml"]
        assert row.manifest["suites"]["smoke"]["settle"] == {"max_temperature_c": 40, "timeout_s": 120}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("entry: engine", "entry: engin", "bundle.yaml:8: entry 'engin' is missing for x86_64; did you mean engine?"),
        ("adapter: events", "adapter: event", "unknown adapter 'event'; did you mean events?"),
        ("models/tiny.gguf", "../tiny.gguf", "no relative path"),
        ("models/tiny.gguf", "/etc/passwd", "no relative path"),
        ("models/tiny.gguf", "models/absent.gguf", "'models/absent.gguf' cannot be read"),
        ("format: 1", "format: 2", "this farm reads 1"),
        ("name: reference", "name: a/b", "letters, digits"),
        ("version: 0.1.0", "", "version is missing"),
        ("parameters", "parametres", "did you mean parameters?"),
    ],
)
def test_a_wrong_bundle_says_what_is_wrong(
    db: Database, store: ArtifactStore, bundle_folder: Path, old: str, new: str, words: str
) -> None:
    (bundle_folder / "bundle.yaml").write_text(BUNDLE.replace(old, new))
    with pytest.raises(ManifestError) as caught, db.session() as session:
        bundles.import_bundle(session, store, bundle_folder, NOW, None)
    assert any(words in e.words("bundle.yaml") for e in caught.value.errors)


def test_a_link_out_of_the_folder_is_not_followed(
    db: Database, store: ArtifactStore, bundle_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (bundle_folder / "models/tiny.gguf").unlink()
    (bundle_folder / "models/tiny.gguf").symlink_to(tmp_path / "secret")
    with pytest.raises(ManifestError, match="leads out of the folder"), db.session() as session:
        bundles.import_bundle(session, store, bundle_folder, NOW, None)


def test_a_suite_without_files_or_with_a_wrong_selector_is_refused(
    db: Database, store: ArtifactStore, pack_folder: Path
) -> None:
    for old, new, words in (("path: smoke", "path: smok", "no file below 'smok'"), ("android>=10", "a==1", "write a=")):
        (pack_folder / "suite.yaml").write_text(PACK.replace(old, new))
        with pytest.raises(ManifestError, match=words), db.session() as session:
            bundles.import_pack(session, store, pack_folder, NOW, None)


def test_manifests_from_outside_are_checked_like_files() -> None:
    base = {
        "format": 1, "name": "x", "version": "1", "adapter": "events", "entry": "e",
        "files": {"x86_64": {"e": "bin/e"}},
    }  # fmt: skip
    good = {"bin/e": {"sha256": "0" * 64, "size": 1, "mode": 0o755}}
    assert check_bundle({**base, "content": good})["content"] == good
    for content in (
        {},
        {"other": good["bin/e"]},
        {"../e": good["bin/e"], **good},
        {"bin/e": {"sha256": "0" * 63, "size": 1, "mode": 0o755}},
        {"bin/e": {"sha256": "0" * 64, "size": -1, "mode": 0o755}},
        {"bin/e": {"sha256": "0" * 64, "size": 1, "mode": 0o4755}},
        {"bin/e": {"sha256": "0" * 64, "size": 1 << 50, "mode": 0o755}},
        [1],
        None,
    ):
        with pytest.raises(ManifestError):
            check_bundle({**base, "content": content})


@given(st.text(max_size=30) | st.text("./a\\", max_size=12))
def test_a_safe_path_stays_below_its_folder(path: str) -> None:
    if is_safe_path(path):
        joined = os.path.normpath(os.path.join("/farm/x", path))
        assert joined.startswith("/farm/x/")


def test_the_store_keeps_whole_files_only_and_the_same_content_once(store: ArtifactStore) -> None:
    sha256, size = store.put(io.BytesIO(b"abc"))
    assert (sha256, size) == (hashlib.sha256(b"abc").hexdigest(), 3)
    assert store.put(io.BytesIO(b"abc")) == (sha256, 3)
    for kept in ({"expected": "0" * 64}, {"limit": 2}):
        with pytest.raises(WrongContent):
            store.put(io.BytesIO(b"abcd"), **kept)  # type: ignore[arg-type]
    files = [p for p in Path(store.root).rglob("*") if p.is_file()]
    assert files == [store.local_path(sha256)]
    assert b"".join(store.chunks(sha256, offset=1)) == b"bc"
    assert store.missing([sha256, "1" * 64, "1" * 64]) == ["1" * 64]
    assert not store.has("../../etc/passwd")
    with pytest.raises(FileNotFoundError):
        store.open("../../etc/passwd")


def test_the_store_takes_regular_files_alone(store: ArtifactStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(WrongContent, match="no regular file"):
        store.put_file(tmp_path / "fifo")
    with pytest.raises(OSError):
        store.put_file(tmp_path / "link")


def test_the_store_works_over_any_filesystem_that_fsspec_knows() -> None:
    store = ArtifactStore("memory://farm-test")
    sha256, _ = store.put(io.BytesIO(b"remote"))
    assert store.has(sha256)
    assert store.local_path(sha256).read_bytes() == b"remote"


def test_a_program_of_another_abi_is_refused_by_the_store_whatever_its_sender_checked(
    bundle_folder: Path, store: ArtifactStore, db: Database
) -> None:
    arm64 = b"\x7fELF\x02\x01\x01" + b"\0" * 11 + (183).to_bytes(2, "little") + b"\0" * 44
    (bundle_folder / "bin/x86_64/engine").write_bytes(arm64)
    with pytest.raises(ManifestError, match="declared for x86_64 but built for arm64-v8a"), db.session() as session:
        bundles.import_bundle(session, store, bundle_folder, NOW, None)
    with db.read() as session:
        assert session.query(tables.Bundle).count() == 0
