"""Bundles travel as a manifest and the blobs that are missing; what arrives is what was announced."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from farm.cli.client import Client
from farm.cli.upload import read_bundle_folder, read_pack_folder, send_bundle, send_pack
from farm.store.bundles import import_bundle, import_pack
from farm.store.people import Scope
from tests.served import Served

BUNDLE = """\
format: 1
name: {name}
version: 1.0.0
adapter: events
entry: engine
files: {{x86_64: {{engine: bin/engine}}}}
scripts: [engine]
models: {{tiny: models/tiny.gguf}}
"""


def bundle_folder(folder: Path, name: str = "demo", model: bytes = b"model") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "models").mkdir()
    (folder / "bin" / "engine").write_bytes(b"#!/bin/sh\n" + name.encode())
    (folder / "bin" / "engine").chmod(0o755)
    (folder / "models" / "tiny.gguf").write_bytes(model)
    (folder / "bundle.yaml").write_text(BUNDLE.format(name=name))
    return folder


def pack_folder(folder: Path) -> Path:
    (folder / "smoke" / "__pycache__").mkdir(parents=True)
    (folder / "smoke" / "test_it.py").write_text("def test_it(): pass\n")
    (folder / "smoke" / "__pycache__" / "test_it.pyc").write_bytes(b"x")
    (folder / "suite.yaml").write_text("format: 1\nname: mine\nsuites: {smoke: {path: smoke}}\n")
    return folder


def client_of(served: Served, token: str | None = None) -> Client:
    return Client(served.origin, token or served.token)


def test_a_blob_comes_back_as_it_was_sent(served: Served) -> None:
    data = os.urandom(3_000_001)
    sha256 = hashlib.sha256(data).hexdigest()
    assert served.ask("HEAD", f"/api/blobs/{sha256}").status_code == 404
    sent = served.ask("PUT", f"/api/blobs/{sha256}", content=data)
    assert (sent.status_code, sent.json()) == (201, {"sha256": sha256, "bytes": len(data)})
    head = served.ask("HEAD", f"/api/blobs/{sha256}")
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(data)))
    assert b"".join(served.farm.app.state.farm.artifacts.chunks(sha256)) == data


def test_an_empty_blob_is_a_blob(served: Served) -> None:
    sha256 = hashlib.sha256(b"").hexdigest()
    assert served.ask("PUT", f"/api/blobs/{sha256}", content=b"").status_code == 201
    assert served.ask("HEAD", f"/api/blobs/{sha256}").status_code == 200


def test_a_blob_with_another_hash_is_refused_and_nothing_of_it_is_kept(served: Served) -> None:
    announced = hashlib.sha256(b"announced").hexdigest()
    answer = served.ask("PUT", f"/api/blobs/{announced}", content=b"something else")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "wrong-hash")
    assert served.ask("HEAD", f"/api/blobs/{announced}").status_code == 404
    assert not list((Path(served.settings.artifacts) / "tmp").iterdir())


@pytest.mark.parametrize("address", ["0" * 63, "G" * 64, "A" * 64, "..%2f" + "0" * 60, "0" * 65])
def test_an_address_that_is_no_hash_is_refused(served: Served, address: str) -> None:
    assert served.ask("PUT", f"/api/blobs/{address}", content=b"x").status_code in (404, 422)


def test_a_manifest_names_what_is_missing_and_is_recorded_when_nothing_is(served: Served, tmp_path: Path) -> None:
    packed = read_bundle_folder(bundle_folder(tmp_path / "b", "missing-first"))
    body = {"manifest": packed.manifest}
    answer = served.ask("POST", "/api/bundles", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (409, "missing-blobs")
    assert sorted(error["detail"]["missing"]) == sorted(packed.paths)
    for sha256 in error["detail"]["missing"]:
        served.ask("PUT", f"/api/blobs/{sha256}", content=packed.paths[sha256].read_bytes())
    made, again = served.ask("POST", "/api/bundles", json=body), served.ask("POST", "/api/bundles", json=body)
    assert (made.status_code, made.json()["new"]) == (201, True)
    assert (again.status_code, again.json()["new"]) == (200, False)
    shown = served.ask("GET", f"/api/bundles/{made.json()['hash']}").json()
    assert shown["row"]["name"] == "missing-first"
    assert shown["row"]["created_by"] == "admin"


def test_the_command_line_sends_only_what_the_farm_lacks(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = os.urandom(100_000)
    client = client_of(served)
    send_bundle(client, bundle_folder(tmp_path / "one", "first", model))
    sent: list[str] = []
    put = Client.put

    def counted(self: Client, path: str, source: Any, size: int) -> Any:
        sent.append(path)
        return put(self, path, source, size)

    monkeypatch.setattr(Client, "put", counted)
    made = send_bundle(client, bundle_folder(tmp_path / "two", "second", model))
    assert made["new"] is True
    assert len(sent) == 1  # its own engine; the model is there
    assert send_bundle(client, tmp_path / "two")["new"] is False
    assert len(sent) == 1


def test_a_folder_has_one_hash_whoever_packs_it(served: Served, tmp_path: Path) -> None:
    client, context = client_of(served), served.farm.app.state.farm
    bundle, pack = bundle_folder(tmp_path / "b", "same"), pack_folder(tmp_path / "p")
    hashes = send_bundle(client, bundle)["hash"], send_pack(client, pack)["hash"]
    with served.farm.db.session() as session:
        stored = import_bundle(session, context.artifacts, bundle, context.now(), None)
        packed = import_pack(session, context.artifacts, pack, context.now(), None)
    assert hashes == (stored.hash, packed.hash)
    assert list(read_pack_folder(pack).manifest["content"]) == ["smoke/test_it.py", "suite.yaml"]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../etc"},
        {"files": {}},
        {"entry": "absent"},
        {"content": {}},
        {"content": {"../../etc/passwd": {"sha256": "0" * 64, "size": 1, "mode": 420}}},
        {"adapter": "unknown"},
        {"format": 2},
    ],
)
def test_a_wrong_manifest_says_what_is_wrong(served: Served, tmp_path: Path, change: dict[str, Any]) -> None:
    manifest = {**read_bundle_folder(bundle_folder(tmp_path / "b")).manifest, **change}
    answer = served.ask("POST", "/api/bundles", json={"manifest": manifest})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad-manifest")
    assert len(answer.json()["error"]["message"]) > 10


def test_a_link_that_leads_out_of_the_folder_is_not_sent(tmp_path: Path) -> None:
    from farm.cli.errors import CliError

    folder = bundle_folder(tmp_path / "b")
    (folder / "models" / "tiny.gguf").unlink()
    (folder / "models" / "tiny.gguf").symlink_to("/etc/hostname")
    with pytest.raises(CliError, match="leads out of"):
        read_bundle_folder(folder)


def test_a_reader_sends_nothing(served: Served, tmp_path: Path) -> None:
    from farm.cli.client import HttpError

    with pytest.raises(HttpError, match="lacks the scope 'submit'"):
        send_bundle(client_of(served, served.new_token(Scope.READ)), bundle_folder(tmp_path / "b", "forbidden"))
