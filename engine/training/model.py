"""The receipt decoder in PyTorch: what the engine computes, in a form that can be trained.

RMS norm, rotary attention over neighbouring pairs with grouped heads, SwiGLU; in the sparse form the feed-forward part
is `experts` small ones of which the router takes the best `experts_used` per token, weighted by the softmax over those.
Parameters carry the names of the GGUF tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.shape import NORM_EPSILON, ROPE_BASE, Shape
from engine.training.tokenizer import VOCABULARY

Q4_BLOCK = 32


def q4_0(weight: Tensor) -> Tensor:
    """The weights as ggml's Q4_0 keeps them: blocks of 32 along the last dimension, 4 bits, one 16-bit scale each."""
    blocks = weight.detach().float().reshape(-1, Q4_BLOCK)
    extreme = blocks.gather(1, blocks.abs().argmax(dim=1, keepdim=True))
    scale = extreme / -8
    inverse = torch.where(scale == 0, 0.0, 1 / scale)
    levels = torch.clamp(torch.floor(blocks * inverse + 8.5), max=15) - 8
    return (levels * scale.half().float()).reshape(weight.shape).to(weight.dtype)


class Matrix(nn.Module):
    """Weights without a bias. While `coarse` is set they act as if they were Q4_0, and the gradient passes."""

    def __init__(self, *shape: int, deviation: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(*shape) * deviation)
        self.coarse = False

    def value(self) -> Tensor:
        """The weights to compute with."""
        return self.weight + (q4_0(self.weight) - self.weight).detach() if self.coarse else self.weight

    def forward(self, x: Tensor) -> Tensor:
        """x [..., columns] → [..., rows]."""
        return functional.linear(x, self.value())


def rotate(x: Tensor, base: float = ROPE_BASE) -> Tensor:
    """Rotary embedding over neighbouring pairs; x: [batch, heads, positions, head size]."""
    positions, size = x.shape[-2:]
    steps = torch.arange(0, size, 2, device=x.device, dtype=torch.float32) / size
    angle = torch.arange(positions, device=x.device, dtype=torch.float32)[:, None] * base**-steps
    cos, sin = angle.cos(), angle.sin()
    even, odd = x.float()[..., 0::2], x.float()[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        n, self.shape = shape.embedding, shape
        narrow, out = n**-0.5, (2 * shape.layers * n) ** -0.5
        self.attn_norm = nn.RMSNorm(n, eps=NORM_EPSILON)
        self.attn_q = Matrix(n, n, deviation=narrow)
        self.attn_k = Matrix(shape.kv, n, deviation=narrow)
        self.attn_v = Matrix(shape.kv, n, deviation=narrow)
        self.attn_output = Matrix(n, n, deviation=out)
        self.ffn_norm = nn.RMSNorm(n, eps=NORM_EPSILON)
        ff, experts = shape.feed_forward, shape.experts
        if experts:
            self.ffn_gate_inp = Matrix(experts, n, deviation=narrow)
            self.ffn_gate_exps = Matrix(experts, ff, n, deviation=narrow)
            self.ffn_up_exps = Matrix(experts, ff, n, deviation=narrow)
            self.ffn_down_exps = Matrix(experts, n, ff, deviation=out)
        else:
            self.ffn_gate = Matrix(ff, n, deviation=narrow)
            self.ffn_up = Matrix(ff, n, deviation=narrow)
            self.ffn_down = Matrix(n, ff, deviation=(2 * shape.layers * ff) ** -0.5)

    def attention(self, x: Tensor) -> Tensor:
        """Causal self-attention over [batch, positions, embedding]."""
        batch, positions, n = x.shape
        size = n // self.shape.heads

        def heads(t: Tensor) -> Tensor:
            return t.reshape(batch, positions, -1, size).transpose(1, 2)

        q, k, v = rotate(heads(self.attn_q(x))), rotate(heads(self.attn_k(x))), heads(self.attn_v(x))
        group = self.shape.heads // self.shape.heads_kv
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.attn_output(mixed.transpose(1, 2).reshape(batch, positions, n))
        return out

    def routing(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weight of each expert per token, zero for those that are not taken, and the full softmax; [..., experts]."""
        scores = self.ffn_gate_inp(x).float()
        best = scores.topk(self.shape.experts_used, dim=-1)
        weights = torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(dim=-1))
        return weights, scores.softmax(dim=-1)

    def feed_forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The result, and how unevenly the experts were used: 1 when each got an equal share; None when dense.

        All experts are computed, those not taken with weight 0: more arithmetic than needed, and no gathering.
        """
        if not self.shape.experts:
            return self.ffn_down(functional.silu(self.ffn_gate(x)) * self.ffn_up(x)), None
        weights, soft = self.routing(x)
        experts, ff = self.shape.experts, self.shape.feed_forward
        gate = functional.linear(x, self.ffn_gate_exps.value().flatten(0, 1))
        up = functional.linear(x, self.ffn_up_exps.value().flatten(0, 1))
        hidden = (functional.silu(gate) * up).unflatten(-1, (experts, ff)) * weights.to(x.dtype)[..., None]
        down = self.ffn_down_exps.value().transpose(0, 1).flatten(1)  # [n, experts * ff]
        share = (weights > 0).float().flatten(0, -2).mean(0) / self.shape.experts_used
        uneven = experts * (share * soft.flatten(0, -2).mean(0)).sum()
        return functional.linear(hidden.flatten(-2), down), uneven

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Both residual steps."""
        x = x + self.attention(self.attn_norm(x))
        step, uneven = self.feed_forward(self.ffn_norm(x))
        return x + step, uneven


class ReceiptModel(nn.Module):
    """Tokens in, a hidden state per position out; `logits` makes them scores of the next token."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(VOCABULARY, shape.embedding)
        nn.init.normal_(self.token_embd.weight, std=0.5)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.embedding, eps=NORM_EPSILON)
        self.output = Matrix(VOCABULARY, shape.embedding, deviation=shape.embedding**-0.5)

    def set_coarse(self, coarse: bool) -> None:
        """Whether the matrices of the blocks act as if they were Q4_0; what the file keeps exact stays exact."""
        for block in self.blk:
            for name, part in block.named_children():
                if isinstance(part, Matrix) and name != "ffn_gate_inp":
                    part.coarse = coarse

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, positions] → [batch, positions, embedding], and mean unevenness of the experts (dense: 0)."""
        x = self.token_embd(tokens)
        uneven = []
        for block in self.blk:
            x, of_layer = block(x)
            uneven += [] if of_layer is None else [of_layer]
        return x, torch.stack(uneven).mean() if uneven else x.new_zeros(())

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., embedding] → [..., vocabulary]."""
        out: Tensor = self.output(self.output_norm(hidden))
        return out.float()
