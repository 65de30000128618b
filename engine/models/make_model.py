"""Writes the models: llama-like decoders with a byte vocabulary, as GGUF.

`receipt` and `receipt-moe` have trained weights (see `receipt.py`), `tiny` and `small` made-up ones: from a seeded bit
generator whose raw output NumPy guarantees for ever, so that the same arguments give the same bytes everywhere. They
are scaled like a freshly initialised network: activations stay of order one through all layers, and greedy decoding
wanders through the vocabulary. The text is noise; speed and arithmetic are real.

    python -m engine.models.make_model [--out DIR]
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from engine.models import container, receipt, shape
from engine.models.container import VOCABULARY, Weights
from engine.models.shape import RECEIPT_SHAPES, Shape

SHAPES = {
    made_up.name: made_up
    for made_up in (
        Shape("tiny", layers=4, embedding=256, feed_forward=704, heads=4, heads_kv=2),  # 3.1 million parameters
        Shape("small", layers=7, embedding=512, feed_forward=1408, heads=8, heads_kv=4),  # 20.9 million parameters
    )
}
# What each model comes in. The made-up ones are for speed and arithmetic: two types are enough.
WEIGHT_TYPES = dict.fromkeys(SHAPES, ("f32", "q4_0")) | {name: tuple(container.WEIGHT_TYPES) for name in RECEIPT_SHAPES}


def uniform(bits: np.random.PCG64, rows: int, columns: int, gain: float = 1.0) -> Weights:
    """A matrix with mean 0 and variance `gain² / columns`, from raw bits (NumPy may change its distributions)."""
    raw = bits.random_raw(rows * columns)
    unit = (raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return (unit * np.float32(gain * np.sqrt(3.0 / columns))).reshape(rows, columns)


def tensors(shape: Shape, seed: int) -> Iterator[tuple[str, Weights]]:
    """All tensors in file order, in float32, as (name, [rows, columns] or, of experts, [experts, rows, columns])."""
    bits = np.random.PCG64(seed)
    n, ff = shape.embedding, shape.feed_forward
    ones = np.ones(n, dtype=np.float32)
    yield "token_embd.weight", uniform(bits, VOCABULARY, n, gain=float(np.sqrt(n)))
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", ones
        yield block + "attn_q.weight", uniform(bits, n, n)
        yield block + "attn_k.weight", uniform(bits, shape.kv, n)
        yield block + "attn_v.weight", uniform(bits, shape.kv, n)
        yield block + "attn_output.weight", uniform(bits, n, n)
        yield block + "ffn_norm.weight", ones
        if shape.experts:
            yield block + "ffn_gate_inp.weight", uniform(bits, shape.experts, n)
        for name, rows, columns in (("gate", ff, n), ("up", ff, n), ("down", n, ff)):
            if shape.experts:
                all_of_them = uniform(bits, shape.experts * rows, columns)
                yield f"{block}ffn_{name}_exps.weight", all_of_them.reshape(shape.experts, rows, columns)
            else:
                yield f"{block}ffn_{name}.weight", uniform(bits, rows, columns)
    yield "output_norm.weight", ones
    yield "output.weight", uniform(bits, VOCABULARY, n)


def write_model(path: Path, shape: Shape, weight_type: str, seed: int) -> None:
    """Writes one model. The file appears whole or not at all."""
    container.write(path, shape, weight_type, tensors(shape, seed))


def cache_folder() -> Path:
    """Where the project keeps its models; named after what they are made of, so that a change makes new ones."""
    here = Path(__file__).resolve()
    sources = [here, *(Path(module.__file__ or "") for module in (container, receipt, shape))]
    sources += [receipt.kept_file(name) for name in RECEIPT_SHAPES]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return here.parents[2] / "build" / "models" / digest[:12]


def make_models(out: Path, seed: int = 1, names: Iterable[str] = tuple(SHAPES)) -> dict[str, Path]:
    """Writes what is not there yet, by default the made-up models; returns model name → file."""
    made = {}
    for name in names:
        for weight_type in WEIGHT_TYPES[name]:
            path = out / f"{name}-{weight_type}.gguf"
            if path.exists():
                pass
            elif name in SHAPES:
                write_model(path, SHAPES[name], weight_type, seed)
            else:
                receipt.write_model(path, name, weight_type)
            made[f"{name}-{weight_type}"] = path
    return made


def main() -> None:
    """Command line: writes all models into a folder and prints their names and sizes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=cache_folder(), help="folder to write into")
    parser.add_argument("--seed", type=int, default=1, help="of the made-up weights")
    arguments = parser.parse_args()
    for name, path in make_models(arguments.out, arguments.seed, WEIGHT_TYPES).items():
        print(f"{name}: {path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
