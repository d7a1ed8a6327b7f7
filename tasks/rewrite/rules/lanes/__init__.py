"""The rule `vector-lanes`: vectors as loops over lanes, and back."""

from .rule import VectorLanes

__all__ = ["VectorLanes"]
