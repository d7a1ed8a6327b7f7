"""Facts: named values about a place in a kernel, its case and its platform, so that they carry over to other kernels.

A number is the set of all values that it takes at a case's dimensions: a loop inside others may have several extents.
A fact that cannot be told from the text is absent: unknown. With more than 16384 combinations of loops and work-items,
those at the ends of their ranges (first three, last two) stand for the others.
"""

from skill_library.facts.resolve import FACTS, divisibility_terms, expressions_at, facts_at
from skill_library.facts.site import Place, Scalar
from skill_library.predicates import Facts, FactValue

__all__ = ["FACTS", "FactValue", "Facts", "Place", "Scalar", "divisibility_terms", "expressions_at", "facts_at"]
