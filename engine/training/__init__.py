"""The receipt model: made-up receipts, training, export to GGUF, and its accuracy in the engine."""
