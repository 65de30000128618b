"""Dimensions of a decoder, and the constants that all models of the project share."""

from __future__ import annotations

from dataclasses import dataclass

ROPE_BASE = 10000.0
NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions of a decoder; head size is `embedding / heads`, an even number.

    With experts, `feed_forward` is the width of one of them.
    """

    name: str
    layers: int
    embedding: int
    feed_forward: int
    heads: int
    heads_kv: int
    context: int = 2048
    experts: int = 0  # 0: one feed-forward part, always used
    experts_used: int = 0

    @property
    def kv(self) -> int:
        """Elements of all keys of one position in one layer."""
        return self.embedding // self.heads * self.heads_kv


# The receipt models: one feed-forward part per layer, or sixteen of which each token uses two.
RECEIPT_SHAPES = {
    shape.name: shape
    for shape in (
        Shape("receipt", layers=6, embedding=192, feed_forward=512, heads=6, heads_kv=2),
        Shape("receipt-moe", layers=6, embedding=192, feed_forward=96, heads=6, heads_kv=2, experts=16, experts_used=2),
    )
}
