"""The receipt models in every weight type: the float16 files of this folder, converted.

They read the scanned text of a shop receipt and answer with JSON and a sentence; `engine/training/` made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np

from engine.models import container
from engine.models.shape import RECEIPT_SHAPES

KEPT_AS = "f16"


def kept_file(name: str) -> Path:
    """The file of the repository that holds a model (`receipt`, `receipt-moe`)."""
    return Path(__file__).resolve().parent / f"{name}-{KEPT_AS}.gguf"


def tensors(path: Path) -> Iterator[tuple[str, container.Weights]]:
    """All tensors of a GGUF file in file order, in float32, rows first."""
    for tensor in gguf.GGUFReader(path).tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        yield str(tensor.name), np.ascontiguousarray(weights, dtype=np.float32)


def write_model(path: Path, name: str, weight_type: str) -> None:
    """Writes one model in one weight type. The file appears whole or not at all."""
    container.write(path, RECEIPT_SHAPES[name], weight_type, tensors(kept_file(name)))
