"""Where evidence lives: what is shipped, read-only, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.evidence.errors import StoreError

_CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Roots:
    """The two roots. In each: `evidence/<dataset>/*.parquet`; in the user's also `journal/*.jsonl`."""

    user: Path
    """Everything is written here; created by the first row."""
    shipped: Path | None = None
    """None where there is no checkout and none was named."""

    @property
    def note(self) -> str | None:
        """What readers say where nothing shipped is read."""
        if self.shipped is not None:
            return None
        return "no shipped evidence: this is not a checkout; --shipped DIR names a folder that has it"

    @classmethod
    def find(
        cls, *, data: Path | None = None, shipped: Path | None = None, environ: Mapping[str, str] = os.environ
    ) -> Roots:
        """The roots for `--data` and `--shipped`, `KLINEAGE_DATA`, `./.klineage`, and the checkout's `data/`.

        Absolute, so that a later change of folder does not move them. Raises StoreError where `shipped` is given and
        does not exist.
        """
        if shipped is not None and not shipped.is_dir():
            raise StoreError("the folder given by --shipped does not exist")
        if shipped is None and (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "data").is_dir():
            shipped = _CHECKOUT / "data"
        user = data or Path(environ.get("KLINEAGE_DATA") or ".klineage")
        return cls(user.absolute(), shipped.absolute() if shipped is not None else None)
