"""Trains a receipt model on made-up receipts.

    python -m engine.training.train --shape receipt --corpus corpus.npz --steps 20000 --out receipt.pt

Only the answer's tokens count in the loss. From `--coarse-from` (a share of the steps) on, every second step computes
with the weights as Q4_0 would keep them, so that one set of weights serves both forms. The same seed, corpus and steps
give the same batches; the arithmetic of a GPU is not the same to the last bit from run to run.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from engine.models.shape import RECEIPT_SHAPES
from engine.training import corpus as corpora
from engine.training.corpus import Corpus
from engine.training.model import ReceiptModel

UNEVEN_WEIGHT = 0.01  # of the experts' balance in the loss
PAD_TO = 64
HELD_BACK = 500
Batch = tuple[torch.Tensor, torch.Tensor]


def padded(length: int) -> int:
    """The width of a batch whose longest receipt has this many tokens."""
    return -(-length // PAD_TO) * PAD_TO


def gather(corpus: Corpus, rows: npt.NDArray[np.int64], device: str) -> Batch:
    """Tokens [rows, positions] padded with 0, and targets: the next token where it is the answer's, else -100."""
    width = padded(int((corpus.starts[rows + 1] - corpus.starts[rows]).max()))
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    targets = np.full((len(rows), width), -100, dtype=np.int64)
    for i, row in enumerate(rows):
        ids = corpus.tokens[corpus.starts[row] : corpus.starts[row + 1]]
        prompt = int(corpus.prompts[row])
        tokens[i, : len(ids)] = ids
        targets[i, prompt - 1 : len(ids) - 1] = ids[prompt:]
    return torch.from_numpy(tokens).to(device), torch.from_numpy(targets).to(device)


def batches(corpus: Corpus, budget: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Rows for ever: shuffled, then put together with others of their length, at most `budget` padded tokens each."""
    dice, lengths = np.random.default_rng(seed), corpus.lengths
    while True:
        order = dice.permutation(len(corpus))
        made: list[npt.NDArray[np.int64]] = []
        for begin in range(0, len(order), 20000):
            piece = order[begin : begin + 20000]
            piece = piece[np.argsort(lengths[piece], kind="stable")]
            first = 0
            for last, length in enumerate(lengths[piece].tolist()):
                if padded(length) * (last + 1 - first) > budget and last > first:
                    made.append(piece[first:last])
                    first = last
            made.append(piece[first:])
        for i in dice.permutation(len(made)):
            yield made[i]


def loss_of(model: ReceiptModel, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy of the answers' tokens, plus the experts' balance."""
    tokens, targets = batch
    hidden, uneven = model(tokens)
    wanted = targets >= 0
    return functional.cross_entropy(model.logits(hidden[wanted]), targets[wanted]) + UNEVEN_WEIGHT * uneven


def exact(model: ReceiptModel, corpus: Corpus, device: str) -> tuple[float, float]:
    """Share of receipts whose greedy answer is right in every byte, and share of right bytes.

    Greedy decoding gives the wanted answer exactly when each of its tokens is the most likely one behind those before
    it, so one evaluation per receipt is enough.
    """
    right = bytes_right = bytes_all = 0
    for begin in range(0, len(corpus), 50):
        tokens, targets = gather(corpus, np.arange(begin, min(begin + 50, len(corpus))), device)
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model.logits(model(tokens)[0])
        good = (logits.argmax(-1) == targets) | (targets < 0)
        right += int(good.all(dim=1).sum())
        bytes_right += int((good & (targets >= 0)).sum())
        bytes_all += int((targets >= 0).sum())
    return right / len(corpus), bytes_right / bytes_all


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear rise over the first 2 %, then a half cosine down to 1 % of the peak."""
    rise = max(1, steps // 50)
    if step < rise:
        return peak * (step + 1) / rise
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise))))


def report(model: ReceiptModel, held_back: Corpus, device: str, head: str) -> None:
    """Prints how well the model does, with its weights as they are and as Q4_0 would keep them."""
    model.eval()
    parts = []
    for name, coarse in (("plain", False), ("q4_0", True)):
        model.set_coarse(coarse)
        whole, single = exact(model, held_back, device)
        parts.append(f"{name}: exact {whole:.3f}, bytes {single:.5f}")
    print(f"{head}  {'  '.join(parts)}", flush=True)
    model.train()


def save(model: ReceiptModel, path: Path) -> None:
    """Writes the weights, float32. The file appears whole or not at all."""
    part = path.with_name(path.name + ".part")
    torch.save({name: value.float().cpu() for name, value in model.state_dict().items()}, part)
    part.replace(path)


def train(
    model: ReceiptModel, corpus: Corpus, held_back: Corpus, *, steps: int, peak: float, budget: int, coarse_from: float,
    seed: int, device: str, say_every: int, out: Path,
) -> None:  # fmt: skip
    """Trains in place; what there is so far is in `out` after each report."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=peak, betas=(0.9, 0.98), fused=device == "cuda",
    )  # fmt: skip
    began = time.monotonic()
    for step, rows in zip(range(steps), batches(corpus, budget, seed), strict=False):
        rate = learning_rate(step, steps, peak)
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.set_coarse(step >= coarse_from * steps and step % 2 == 1)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_of(model, gather(corpus, rows, device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % say_every == 0:
            head = f"step {step + 1}/{steps}  {time.monotonic() - began:.0f} s  loss {loss.item():.4f}"
            report(model, held_back, device, head)
            save(model, out)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train a receipt model.")
    parser.add_argument("--shape", choices=tuple(RECEIPT_SHAPES), required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="made by engine.training.corpus")
    parser.add_argument("--out", type=Path, required=True, help="the weights, float32, as torch.save writes them")
    parser.add_argument("--start", type=Path, help="weights to go on from")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--peak", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--budget", type=int, default=65536, help="padded tokens per step")
    parser.add_argument("--coarse-from", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--say-every", type=int, default=1000)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(arguments.seed)
    corpus, held_back = corpora.load(arguments.corpus), corpora.make("unseen", HELD_BACK)
    seen = int(np.isin(held_back.answers, corpus.answers).sum())
    print(f"{len(corpus)} receipts; answers of the {HELD_BACK} held-back ones that occur in them: {seen}", flush=True)
    model = ReceiptModel(RECEIPT_SHAPES[arguments.shape])
    if arguments.start:
        model.load_state_dict(torch.load(arguments.start, weights_only=True))
    model.to(device)
    print(f"{arguments.shape}: {sum(p.numel() for p in model.parameters())} parameters on {device}", flush=True)
    train(
        model, corpus, held_back, steps=arguments.steps, peak=arguments.peak, budget=arguments.budget,
        coarse_from=arguments.coarse_from, seed=arguments.seed, device=device, say_every=arguments.say_every,
        out=arguments.out,
    )  # fmt: skip
    save(model, arguments.out)


if __name__ == "__main__":
    main()
