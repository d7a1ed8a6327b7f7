"""The rule `strip-mine`: plain loops as blocks of lanes, and back."""

from .rule import StripMine

__all__ = ["StripMine"]
