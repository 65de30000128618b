"""The artifact store: files addressed by the SHA-256 of their content, over fsspec.

`<root>/ab/abcdef…`: written to a temporary name and renamed, so that a name never stands for half a file. The same
content is kept once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO


class ArtifactStore:
    """A content-addressed store below `root` (a local folder, or any fsspec URL)."""

    def __init__(self, root: str | Path) -> None:
        self.root = str(root)

    def has(self, sha256: str) -> bool:
        raise NotImplementedError

    def put(self, source: IO[bytes], expected: str | None = None, limit: int | None = None) -> tuple[str, int]:
        """Store the stream; returns (sha256, bytes). Raises ValueError for another hash or more than `limit` bytes."""
        raise NotImplementedError

    def put_file(self, path: Path) -> tuple[str, int]:
        """Store a local file (regular, not a link)."""
        raise NotImplementedError

    def open(self, sha256: str) -> IO[bytes]:
        """Raises FileNotFoundError."""
        raise NotImplementedError

    def chunks(self, sha256: str, offset: int = 0, size: int = 1 << 20) -> Iterator[bytes]:
        raise NotImplementedError

    def size(self, sha256: str) -> int:
        raise NotImplementedError

    def local_path(self, sha256: str) -> Path:
        """A local, read-only file with this content (the stored one itself when the store is local)."""
        raise NotImplementedError
