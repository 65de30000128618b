"""Rules without I/O and without a clock: the ground floor, which imports nothing of ours."""
