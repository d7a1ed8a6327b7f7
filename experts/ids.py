"""Content ids: the first 16 hex digits of SHA-256 over canonical JSON, or over text.

Ids are derived, never assigned; which fields go into which id is said where each id is made.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence


def text_id(text: str) -> str:
    """Id of a text, taken over its UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def content_id(value: Mapping[str, object] | Sequence[object]) -> str:
    """Id of a JSON value: sorted keys, no spaces, UTF-8, no NaN.

    Raises TypeError for a value that JSON does not have, ValueError for NaN and infinities.
    """
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text_id(canonical)
