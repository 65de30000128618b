"""The decoder once more, in NumPy and float64: what the engine's logits are held against."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class ReferenceModel:
    """A llama-like decoder read from a GGUF file with the `gguf` package, evaluated without a cache."""

    def __init__(self, path: Path) -> None:
        reader = gguf.GGUFReader(path)
        self.weights: dict[str, Array] = {
            tensor.name: np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float64)
            for tensor in reader.tensors
        }

        def number(key: str) -> float:
            return float(reader.fields[key].contents())

        self.layers = int(number("llama.block_count"))
        self.heads = int(number("llama.attention.head_count"))
        self.heads_kv = int(number("llama.attention.head_count_kv"))
        used = reader.fields.get("llama.expert_used_count")
        self.experts_used = int(used.contents()) if used else 0
        self.rope_base = number("llama.rope.freq_base")
        self.epsilon = number("llama.attention.layer_norm_rms_epsilon")

    def _norm(self, x: Array, name: str) -> Array:
        scale: Array = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon)
        return scale * self.weights[name]

    def _rotate(self, x: Array) -> Array:
        """Rotary embedding over neighbouring pairs; x: [positions, heads, head size]."""
        n, _, size = x.shape
        angle = np.arange(n)[:, None] * self.rope_base ** (-np.arange(0, size, 2) / size)[None, :]
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out

    def _attention(self, x: Array, block: str) -> Array:
        n = len(x)
        size = x.shape[1] // self.heads
        q = self._rotate((x @ self.weights[block + "attn_q.weight"].T).reshape(n, self.heads, size))
        k = self._rotate((x @ self.weights[block + "attn_k.weight"].T).reshape(n, self.heads_kv, size))
        v = (x @ self.weights[block + "attn_v.weight"].T).reshape(n, self.heads_kv, size)
        group = self.heads // self.heads_kv
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(size)
        scores += np.triu(np.full((n, n), -np.inf), 1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hij,jhd->ihd", weights, v).reshape(n, -1)
        out: Array = mixed @ self.weights[block + "attn_output.weight"].T
        return out

    def _feed_forward(self, x: Array, block: str) -> Array:
        if self.experts_used:
            return self._experts(x, block)
        gate = x @ self.weights[block + "ffn_gate.weight"].T
        up = x @ self.weights[block + "ffn_up.weight"].T
        out: Array = (gate / (1 + np.exp(-gate)) * up) @ self.weights[block + "ffn_down.weight"].T
        return out

    def _experts(self, x: Array, block: str) -> Array:
        """Each token's best experts, weighted by the softmax over them."""
        scores = x @ self.weights[block + "ffn_gate_inp.weight"].T
        out = np.zeros_like(x)
        for token, row in enumerate(x):
            best = np.argsort(-scores[token])[: self.experts_used]
            shares = np.exp(scores[token][best] - scores[token].max())
            for expert, share in zip(best, shares / shares.sum(), strict=True):
                gate = self.weights[block + "ffn_gate_exps.weight"][expert] @ row
                up = self.weights[block + "ffn_up_exps.weight"][expert] @ row
                down = self.weights[block + "ffn_down_exps.weight"][expert]
                out[token] += share * (down @ (gate / (1 + np.exp(-gate)) * up))
        return out

    def logits(self, tokens: list[int]) -> Array:
        """Logits of every position: [positions, vocabulary]."""
        x = self.weights["token_embd.weight"][tokens]
        for layer in range(self.layers):
            block = f"blk.{layer}."
            x = x + self._attention(self._norm(x, block + "attn_norm.weight"), block)
            x = x + self._feed_forward(self._norm(x, block + "ffn_norm.weight"), block)
        out: Array = self._norm(x, "output_norm.weight") @ self.weights["output.weight"].T
        return out
