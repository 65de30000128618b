"""The parts of `benchmarks/leases.py`: the farm that is measured, its clients, its watchers; each a process."""
