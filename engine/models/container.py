"""Decoders as GGUF files: metadata, the byte vocabulary, and the weights in one of the types that the engine reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from engine.models.shape import NORM_EPSILON, ROPE_BASE, Shape

Weights = npt.NDArray[np.float32]

SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
VOCABULARY = len(SPECIAL_TOKENS) + 256
WEIGHT_TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_1": gguf.GGMLQuantizationType.Q4_1,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}
FILE_TYPES = {
    "f32": gguf.LlamaFileType.ALL_F32,
    "f16": gguf.LlamaFileType.MOSTLY_F16,
    "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "q4_1": gguf.LlamaFileType.MOSTLY_Q4_1,
    "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
}
EXACT = ("f32", "f16")  # the types in which embedding and output are kept as well


def add_metadata(writer: gguf.GGUFWriter, shape: Shape, weight_type: str) -> None:
    """Hyperparameters, under the names that llama.cpp gave them."""
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
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)


def add_vocabulary(writer: gguf.GGUFWriter) -> None:
    """One token per byte value behind the special ones."""
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


def type_of(name: str, weights: Weights, weight_type: str) -> gguf.GGMLQuantizationType:
    """The type that a tensor is written in.

    Norms and routers stay in float32; embedding and output do where the rest is quantised: they are small, and the ones
    that quantisation hurts most.
    """
    stays = weights.ndim < 2 or name.endswith("ffn_gate_inp.weight")
    if stays or not (name.startswith("blk.") or weight_type in EXACT):
        return WEIGHT_TYPES["f32"]
    return WEIGHT_TYPES[weight_type]


def write(path: Path, shape: Shape, weight_type: str, tensors: Iterable[tuple[str, Weights]]) -> None:
    """Writes one model; `tensors` are float32 in file order, rows first. The file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    os.close(handle)
    try:
        writer = gguf.GGUFWriter(temporary, "llama")
        add_metadata(writer, shape, weight_type)
        add_vocabulary(writer)
        for name, weights in tensors:
            kind = type_of(name, weights, weight_type)
            writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
