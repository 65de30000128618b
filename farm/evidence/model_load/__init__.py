"""Whether a model was loaded, by which engine, and if not, why: one error of a closed list."""

from farm.evidence.model_load.report import NEEDLES, ModelLoad

__all__ = ["NEEDLES", "ModelLoad"]
