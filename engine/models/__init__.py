"""Models of the reference engine: small decoders made by a seeded script."""
