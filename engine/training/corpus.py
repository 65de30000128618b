"""Receipts as arrays of tokens, made once by all cores.

python -m engine.training.corpus --receipts 1000000 --out corpus.npz
"""

from __future__ import annotations

import argparse
import hashlib
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.training import tokenizer
from engine.training.receipts import example

CHUNK = 2000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Receipts one behind the other: begin token, prompt, answer, end token."""

    tokens: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]  # [receipts + 1]; where each begins
    prompts: npt.NDArray[np.int32]  # [receipts]; tokens before the answer
    answers: npt.NDArray[np.uint64]  # [receipts]; hash of each answer, to tell whether two are the same

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens per receipt."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.prompts)


def _chunk(split: str, first: int, count: int) -> list[tuple[bytes, int, int]]:
    out = []
    for index in range(first, first + count):
        one = example(split, index)
        prompt = [tokenizer.BEGIN, *tokenizer.encode(one.prompt)]
        ids = [*prompt, *tokenizer.encode(one.answer), tokenizer.END]
        digest = int.from_bytes(hashlib.sha256(one.answer.encode()).digest()[:8], "little")
        out.append((np.array(ids, dtype=np.uint16).tobytes(), len(prompt), digest))
    return out


def make(split: str, count: int, processes: int = 1) -> Corpus:
    """The first `count` receipts of a split."""
    jobs = [(split, first, min(CHUNK, count - first)) for first in range(0, count, CHUNK)]
    if processes > 1:
        with ProcessPoolExecutor(processes) as pool:
            chunks = list(pool.map(_chunk, *zip(*jobs, strict=True)))
    else:
        chunks = [_chunk(*job) for job in jobs]
    rows = [row for chunk in chunks for row in chunk]
    tokens = np.frombuffer(b"".join(row[0] for row in rows), dtype=np.uint16)
    starts = np.concatenate(([0], np.cumsum([len(row[0]) // 2 for row in rows]))).astype(np.int64)
    prompts = np.array([row[1] for row in rows], dtype=np.int32)
    return Corpus(tokens, starts, prompts, np.array([row[2] for row in rows], dtype=np.uint64))


def save(corpus: Corpus, path: Path) -> None:
    """Writes the arrays, uncompressed."""
    np.savez(path, tokens=corpus.tokens, starts=corpus.starts, prompts=corpus.prompts, answers=corpus.answers)


def load(path: Path) -> Corpus:
    """Reads what `save` wrote."""
    with np.load(path) as arrays:
        return Corpus(arrays["tokens"], arrays["starts"], arrays["prompts"], arrays["answers"])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Make training receipts as arrays of tokens.")
    parser.add_argument("--receipts", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    corpus = make("train", arguments.receipts, os.cpu_count() or 1)
    save(corpus, arguments.out)
    print(f"{len(corpus)} receipts, {len(corpus.tokens)} tokens, longest {corpus.lengths.max()}")


if __name__ == "__main__":
    main()
