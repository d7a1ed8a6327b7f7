"""Sizes of the element types of OpenCL C and CUDA."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SIZES = {
    "char": 1,
    "uchar": 1,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "int8_t": 1,
    "uint8_t": 1,
    "short": 2,
    "ushort": 2,
    "unsigned short": 2,
    "int16_t": 2,
    "uint16_t": 2,
    "half": 2,
    "__half": 2,
    "int": 4,
    "uint": 4,
    "unsigned": 4,
    "unsigned int": 4,
    "int32_t": 4,
    "uint32_t": 4,
    "float": 4,
    "long": 8,
    "ulong": 8,
    "unsigned long": 8,
    "long long": 8,
    "unsigned long long": 8,
    "int64_t": 8,
    "uint64_t": 8,
    "size_t": 8,
    "ptrdiff_t": 8,
    "double": 8,
}
_VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|half|float|double)(2|3|4|8|16)")
_COUNTING = frozenset(name for name, size in _SIZES.items() if size >= 4) - {"float", "double"}
_UNSIGNED = re.compile(r"u.*|size_t")
FLOATING = frozenset({"half", "__half", "float", "double"})


@dataclass(frozen=True)
class Element:
    """A type that memory is read or written as."""

    scalar: str
    """`float` of float4."""
    lanes: int
    """Of a vector; 1 of a scalar."""
    scalar_bytes: int

    @property
    def size(self) -> int:
        """Bytes; a vector of three takes the room of four."""
        return self.scalar_bytes * (4 if self.lanes == 3 else self.lanes)


def element(name: str) -> Element | None:
    """The element type of that name, without qualifiers; None where it is not known."""
    if name in _SIZES:
        return Element(name, 1, _SIZES[name])
    found = _VECTOR.fullmatch(name)
    return Element(found[1], int(found[2]), _SIZES[found[1]]) if found else None


def counts(name: str) -> bool:
    """Whether it is a whole number of 32 or 64 bits: what indices are made of."""
    return name in _COUNTING


def is_unsigned(name: str) -> bool:
    """Whether a whole number of that type has no sign."""
    return _UNSIGNED.fullmatch(name) is not None


TYPE_WORDS = frozenset(word for name in _SIZES for word in name.split()) | {"signed"}
QUALIFIER_WORDS = frozenset(
    {
        *("const", "volatile", "restrict", "__restrict", "__restrict__"),
        *("global", "__global", "local", "__local", "constant", "__constant", "private", "__private"),
    }
)


def is_type_word(word: str) -> bool:
    """Whether a word can stand in the name of a type that is known here."""
    return word in TYPE_WORDS or _VECTOR.fullmatch(word) is not None
