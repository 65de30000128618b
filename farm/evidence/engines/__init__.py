"""What inference engines print → figures: one pure, streaming, bounded parser per kind of engine."""

from farm.evidence.engines.registry import UnknownTool, parse, tools

__all__ = ["UnknownTool", "parse", "tools"]
