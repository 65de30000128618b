"""The orchestrator of a farm of real devices: its rules, its store, its work and its faces."""
