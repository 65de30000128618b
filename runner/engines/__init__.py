"""Engine adapters: each knows how to start one kind of engine and which parser reads its output."""
