"""Writes the reference models: llama-like decoders with a byte vocabulary and made-up weights, as GGUF.

The weights come from a seeded bit generator whose raw output NumPy guarantees for ever, so that the same arguments give
the same bytes everywhere. They are scaled like a freshly initialised network: activations stay of order one through all
layers, and greedy decoding wanders through the vocabulary. The text is noise; speed and arithmetic are real.

    python -m engine.models.make_model [--out DIR]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]

SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
VOCABULARY = len(SPECIAL_TOKENS) + 256
ROPE_BASE = 10000.0
NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions of a decoder; head size is `embedding / heads`, an even number."""

    name: str
    layers: int
    embedding: int
    feed_forward: int
    heads: int
    heads_kv: int
    context: int = 2048

    @property
    def kv(self) -> int:
        """Elements of all keys of one position in one layer."""
        return self.embedding // self.heads * self.heads_kv


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("tiny", layers=4, embedding=256, feed_forward=704, heads=4, heads_kv=2),  # 3.1 million parameters
        Shape("small", layers=7, embedding=512, feed_forward=1408, heads=8, heads_kv=4),  # 20.9 million parameters
    )
}
WEIGHT_TYPES = {"f32": gguf.GGMLQuantizationType.F32, "q4_0": gguf.GGMLQuantizationType.Q4_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}


def uniform(bits: np.random.PCG64, rows: int, columns: int, gain: float = 1.0) -> Matrix:
    """A matrix with mean 0 and variance `gain² / columns`, from raw bits (NumPy may change its distributions)."""
    raw = bits.random_raw(rows * columns)
    unit = (raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return (unit * np.float32(gain * np.sqrt(3.0 / columns))).reshape(rows, columns)


def tensors(shape: Shape, seed: int) -> Iterator[tuple[str, Matrix]]:
    """All tensors in file order, in float32, as (name, [rows, columns])."""
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
        yield block + "ffn_gate.weight", uniform(bits, ff, n)
        yield block + "ffn_up.weight", uniform(bits, ff, n)
        yield block + "ffn_down.weight", uniform(bits, n, ff)
    yield "output_norm.weight", ones
    yield "output.weight", uniform(bits, VOCABULARY, n)


def _add_metadata(writer: gguf.GGUFWriter, shape: Shape, weight_type: str) -> None:
    writer.add_name(f"farm-{shape.name}")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads_kv)
    writer.add_rope_dimension_count(shape.embedding // shape.heads)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(FILE_TYPES[weight_type])


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*SPECIAL_TOKENS, *(f"<0x{value:02X}>" for value in range(256))])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([*kinds, *([gguf.TokenType.BYTE] * 256)])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def _quantised(name: str, weights: Matrix, weight_type: str) -> bool:
    """Embedding, output and norms stay in float32: they are small and the ones that quantisation hurts most."""
    return weight_type != "f32" and name.startswith("blk.") and weights.ndim == 2


def write_model(path: Path, shape: Shape, weight_type: str, seed: int) -> None:
    """Writes one model. The file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    os.close(handle)
    try:
        writer = gguf.GGUFWriter(temporary, "llama")
        _add_metadata(writer, shape, weight_type)
        _add_vocabulary(writer)
        for name, weights in tensors(shape, seed):
            if _quantised(name, weights, weight_type):
                kind = WEIGHT_TYPES[weight_type]
                writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
            else:
                writer.add_tensor(name, weights)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where the project keeps its models; named after this script, so that a changed script makes new ones."""
    script = Path(__file__).resolve()
    return script.parents[2] / "build" / "models" / hashlib.sha256(script.read_bytes()).hexdigest()[:12]


def make_models(out: Path, seed: int = 1, names: tuple[str, ...] = ("tiny", "small")) -> dict[str, Path]:
    """Writes what is not there yet; returns model name → file."""
    made = {}
    for name in names:
        for weight_type in WEIGHT_TYPES:
            path = out / f"{name}-{weight_type}.gguf"
            if not path.exists():
                write_model(path, SHAPES[name], weight_type, seed)
            made[f"{name}-{weight_type}"] = path
    return made


def main() -> None:
    """Command line: writes all models into a folder and prints their names and sizes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=cache_folder(), help="folder to write into")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name, path in make_models(arguments.out, arguments.seed).items():
        print(f"{name}: {path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
