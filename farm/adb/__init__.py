"""The only door to a device: tracker, connection, push cache, lens, health and recovery."""
