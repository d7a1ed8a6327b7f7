"""The evidence: every row that a run records, kept durably and read as one; input and output only.

    with Evidence(Roots.find()) as evidence:
        evidence.append(kernel_row(kernel), attempt_row(report, run_id=run, purpose="gate"))
        attempts = evidence.read("attempts")

Rows go to an append journal (journal.py) and from there into Parquet (compaction.py, parquet.py).
"""

from tasks.evidence.checks import Finding, Wrong
from tasks.evidence.compaction import Compaction, compact
from tasks.evidence.errors import PromotionRefused, StoreError
from tasks.evidence.roots import Roots
from tasks.evidence.store import Evidence

__all__ = [
    "Compaction",
    "Evidence",
    "Finding",
    "PromotionRefused",
    "Roots",
    "StoreError",
    "Wrong",
    "compact",
]
