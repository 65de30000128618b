"""What inference engines print → figures: one pure, streaming, bounded parser per kind of engine."""
