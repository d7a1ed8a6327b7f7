"""Text edits: character ranges of a text and what stands there afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """The characters `text[start:end]`: offsets into the `str`, never bytes."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """The characters of `text` that the span covers."""
        return text[self.start : self.end]

    def contains(self, other: Span) -> bool:
        """Whether `other` lies wholly inside (equal spans contain each other)."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: Span) -> bool:
        """Whether a character is shared; an empty span shares one where it lies strictly inside."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace `text[start:end]` by `replacement`; an insertion has start == end."""

    start: int
    end: int
    replacement: str

    @classmethod
    def replace(cls, span: Span, replacement: str) -> TextEdit:
        """An edit of the characters of `span`."""
        return cls(span.start, span.end, replacement)


def apply_edits(text: str, edits: Iterable[TextEdit]) -> tuple[str, tuple[TextEdit, ...]]:
    """Apply non-overlapping edits at once; all offsets refer to `text`.

    Insertions at one offset keep the order in which they are given and stand before a replacement that
    starts there. Returns the new text and the edits (with offsets into it) that give `text` back.
    Raises ValueError where two edits overlap or one lies outside the text.
    """
    pieces: list[str] = []
    inverse: list[TextEdit] = []
    done = 0  # how much of `text` is copied
    length = 0  # how much is written
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if not 0 <= edit.start <= edit.end <= len(text):
            raise ValueError(f"{edit} lies outside a text of {len(text)} characters")
        if edit.start < done:
            raise ValueError(f"{edit} overlaps the edit that ends at {done}")
        pieces += (text[done : edit.start], edit.replacement)
        length += edit.start - done
        end = length + len(edit.replacement)
        inverse.append(TextEdit(length, end, text[edit.start : edit.end]))
        done, length = edit.end, end
    pieces.append(text[done:])
    return "".join(pieces), tuple(inverse)
