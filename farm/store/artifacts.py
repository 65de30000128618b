"""The artifact store: files addressed by the SHA-256 of their content, over fsspec.

`<root>/ab/abcdef…`: written to a temporary name and renamed, so that a name never stands for half a file. The same
content is kept once. Stored files are read-only; nobody but this module writes below the root.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import fsspec

_HASH = re.compile(r"[0-9a-f]{64}")
BLOCK = 1 << 20


class WrongContent(ValueError):
    """The stream is not what it was announced to be (another hash, or too long); nothing was kept."""


class ArtifactStore:
    """A content-addressed store below `root`: a local folder, or any URL that fsspec knows."""

    def __init__(self, root: str | Path) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(str(root))
        self.root = str(root)
        protocol = self._fs.protocol
        self._local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)
        self._fs.makedirs(self._root, exist_ok=True)

    def has(self, sha256: str) -> bool:
        return bool(_HASH.fullmatch(sha256)) and bool(self._fs.exists(self._path(sha256)))

    def missing(self, hashes: Iterator[str] | list[str]) -> list[str]:
        """Those of `hashes` that are not stored yet, each once."""
        return [h for h in dict.fromkeys(hashes) if not self.has(h)]

    def put(self, source: IO[bytes], expected: str | None = None, limit: int | None = None) -> tuple[str, int]:
        """Store the stream; returns (sha256, bytes). WrongContent: another hash, or more than `limit` bytes."""
        temporary = f"{self._root}/tmp/{uuid.uuid4().hex}"
        self._fs.makedirs(f"{self._root}/tmp", exist_ok=True)
        digest, size = hashlib.sha256(), 0
        try:
            with self._fs.open(temporary, "wb") as target:
                while block := source.read(BLOCK):
                    size += len(block)
                    if limit is not None and size > limit:
                        raise WrongContent(f"more than {limit} bytes")
                    digest.update(block)
                    target.write(block)
            sha256 = digest.hexdigest()
            if expected is not None and sha256 != expected:
                raise WrongContent(f"the content has the hash {sha256}, announced was {expected}")
            self._keep(temporary, sha256)
        except BaseException:
            self._discard(temporary)
            raise
        return sha256, size

    def put_file(self, path: Path, limit: int | None = None) -> tuple[str, int]:
        """Store a local regular file; a link is not followed. Raises OSError, WrongContent."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as source:
            if not os.path.isfile(descriptor):
                raise WrongContent(f"{path.name} is no regular file")
            return self.put(source, limit=limit)

    def open(self, sha256: str) -> IO[bytes]:
        """The stored file, readable and seekable. Raises FileNotFoundError."""
        return cast(IO[bytes], self._fs.open(self._path(sha256), "rb"))

    def chunks(self, sha256: str, offset: int = 0, size: int = BLOCK) -> Iterator[bytes]:
        """The stored bytes from `offset` on, in blocks."""
        with self.open(sha256) as source:
            source.seek(offset)
            while block := source.read(size):
                yield block

    def size(self, sha256: str) -> int:
        """Bytes. Raises FileNotFoundError."""
        return int(cast(Any, self._fs.size(self._path(sha256))))

    def local_path(self, sha256: str) -> Path:
        """A local, read-only file with this content: the stored one itself, or a copy in a cache when it is remote."""
        if self._local:
            path = Path(self._path(sha256))
            if not path.exists():
                raise FileNotFoundError(f"artifact {sha256} is not in the store")
            return path
        cache = Path(tempfile.gettempdir()) / "farm-artifacts" / sha256
        if not cache.exists():
            cache.parent.mkdir(parents=True, exist_ok=True)
            partial = cache.with_suffix(f".{uuid.uuid4().hex}")
            with self.open(sha256) as source, partial.open("wb") as target:
                shutil.copyfileobj(source, target, BLOCK)
            partial.replace(cache)
        return cache

    def _path(self, sha256: str) -> str:
        if not _HASH.fullmatch(sha256):
            raise FileNotFoundError(f"{sha256[:80]!r} is no artifact hash")
        return f"{self._root}/{sha256[:2]}/{sha256}"

    def _keep(self, temporary: str, sha256: str) -> None:
        path = self._path(sha256)
        if self._fs.exists(path):
            self._discard(temporary)
            return
        self._fs.makedirs(f"{self._root}/{sha256[:2]}", exist_ok=True)
        if self._local:
            os.chmod(temporary, 0o444)
            os.replace(temporary, path)
        else:
            self._fs.mv(temporary, path)

    def _discard(self, temporary: str) -> None:
        if self._fs.exists(temporary):
            self._fs.rm(temporary)
