"""Trained weights as GGUF, and what PyTorch makes of a few receipts, for the engine to be held against.

    python -m engine.training.export --shape receipt --weights receipt.pt
    python -m engine.training.export --sample tests/engine/receipt_sample.json --engine build/engine/…/farm-engine

The first form writes the float16 file of `engine/models/`; the second reads those files again and lets PyTorch decode
greedily, in float32, with exactly the weights that they hold. The engine only guesses what PyTorch will say, which
saves time and changes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import torch

from engine.models import container, receipt
from engine.models.shape import RECEIPT_SHAPES, Shape
from engine.training import tokenizer
from engine.training.evaluate import ask
from engine.training.model import ReceiptModel
from engine.training.receipts import example

# Short receipts, badly scanned; the last is one that the models cannot get right: its goods have names they never saw.
SAMPLE = (("unseen", 54), ("unseen", 297), ("novel", 3))
MOST_TOKENS = 640


def tensors(weights: dict[str, torch.Tensor], shape: Shape) -> Iterator[tuple[str, container.Weights]]:
    """What PyTorch saved, in float32, as (GGUF name, rows first)."""
    for name in ReceiptModel(shape).state_dict():
        yield name, weights[name].float().numpy()


def loaded(name: str) -> ReceiptModel:
    """The model as its file in `engine/models/` holds it."""
    model = ReceiptModel(RECEIPT_SHAPES[name])
    kept = receipt.tensors(receipt.kept_file(name))
    model.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in kept})
    model.eval()
    return model


def greedy(model: ReceiptModel, prompt: str, guess: str) -> list[int]:
    """Ids of the model's greedy answer, with the end token if it comes.

    `guess` saves evaluations and changes nothing: a token of it counts only where the model, given all before it, says
    the same; the first one that differs is replaced by what the model says, and so on from there.
    """
    known = [tokenizer.BEGIN, *tokenizer.encode(prompt)]
    first, rest = len(known), [*tokenizer.encode(guess), tokenizer.END]
    while len(known) - first < MOST_TOKENS and known[-1] != tokenizer.END:
        with torch.no_grad():
            hidden, _ = model(torch.tensor([known + rest]))
        said = model.logits(hidden[0, len(known) - 1 :]).argmax(-1).tolist()  # one more than `rest`
        agreed = next((i for i, wanted in enumerate(rest) if said[i] != wanted), len(rest))
        ended = rest[:agreed].index(tokenizer.END) + 1 if tokenizer.END in rest[:agreed] else None
        known += rest[:ended] if ended else [*rest[:agreed], said[agreed]]
        rest = rest[agreed + 1 :]
    return known[first:]


def sample(engine: Path) -> dict[str, list[dict[str, object]]]:
    """Per model: split and index of the receipt, and the ids that PyTorch answers with."""
    out: dict[str, list[dict[str, object]]] = {}
    for name in RECEIPT_SHAPES:
        model = loaded(name)
        for split, index in SAMPLE:
            one = example(split, index)
            ids = greedy(model, one.prompt, ask(engine, receipt.kept_file(name), one.prompt))
            out.setdefault(name, []).append({"split": split, "index": index, "ids": ids})
    return out


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a trained model as GGUF, or what PyTorch answers.")
    parser.add_argument("--shape", choices=tuple(RECEIPT_SHAPES))
    parser.add_argument("--weights", type=Path, help="what engine.training.train wrote")
    parser.add_argument("--sample", type=Path, help="write PyTorch's answers to a few receipts here")
    parser.add_argument("--engine", type=Path, help="farm-engine, for --sample")
    arguments = parser.parse_args()
    pairs = ((arguments.shape, arguments.weights), (arguments.sample, arguments.engine))
    if any((a is None) != (b is None) for a, b in pairs) or not (arguments.shape or arguments.sample):
        parser.error("give --shape with --weights, or --sample with --engine")
    if arguments.shape:
        shape = RECEIPT_SHAPES[arguments.shape]
        path = receipt.kept_file(shape.name)
        weights = torch.load(arguments.weights, weights_only=True)
        container.write(path, shape, receipt.KEPT_AS, tensors(weights, shape))
        print(f"{path}: {path.stat().st_size} bytes")
    if arguments.sample:
        arguments.sample.write_text(
            json.dumps(sample(arguments.engine), separators=(",", ":")) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
