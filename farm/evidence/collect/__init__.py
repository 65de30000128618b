"""What our own collectors on a device write → facts: the streams whose grammar is ours."""
