"""OpenCL C's types, as far as vectors and their lanes need them."""

from __future__ import annotations

import re
from dataclasses import dataclass

WIDTHS = (2, 4, 8, 16)
NARROW = frozenset({"bool", "char", "uchar", "short", "ushort"})
"""What C promotes to int and a vector does not."""
_RANKS = ("int", "uint", "long", "ulong", "float", "double")
_INTEGERS = frozenset({"int", "uint", "long", "ulong"})
_VECTOR = re.compile(r"(u?(?:char|short|int|long)|float|double|half)(2|3|4|8|16)")
_SPELLINGS = {
    "unsigned char": "uchar",
    "signed char": "char",
    "unsigned short": "ushort",
    "unsigned": "uint",
    "unsigned int": "uint",
    "signed int": "int",
    "signed": "int",
    "unsigned long": "ulong",
    "long int": "long",
    "size_t": "ulong",
    "ptrdiff_t": "long",
    "uintptr_t": "ulong",
    "intptr_t": "long",
}
_SCALARS = frozenset(_RANKS) | NARROW | {"half", "void"}
_FLOATS = frozenset({"float", "double"})

# of one value for each lane, the same for a scalar as for a lane of a vector
_MATH = (
    "fabs fmax fmin exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan asin acos atan atan2 sinh "
    "cosh tanh pow powr ceil floor rint round trunc fmod hypot erf erfc fma mad fdim copysign "
    "native_exp native_exp2 native_exp10 native_log native_log2 native_log10 native_sqrt native_rsqrt native_recip "
    "native_divide native_sin native_cos native_tan native_powr half_exp half_exp2 half_log half_log2 half_sqrt "
    "half_rsqrt half_recip half_divide mix step radians degrees sign"
)
ELEMENTWISE = {name: _FLOATS for name in _MATH.split()}
"""Builtins, and the elements that they are known for."""
ELEMENTWISE |= {name: _FLOATS | _INTEGERS for name in ("max", "min", "clamp")}
ELEMENTWISE |= {name: frozenset({"int", "uint"}) for name in ("mul24", "mad24")}
SCALAR_ARGUMENTS = frozenset({"fmax", "fmin", "max", "min", "clamp"})
"""Builtins that take a scalar for every argument but the first."""
GEOMETRY = frozenset(
    {
        "get_global_id",
        "get_local_id",
        "get_group_id",
        "get_global_size",
        "get_local_size",
        "get_num_groups",
        "get_global_offset",
    }
)


class Unclear(Exception):
    """Something that the rule does not understand, or must not change; the message says what."""


@dataclass(frozen=True, slots=True)
class Type:
    """A value's type; `element` is "" where it is not known, and then it may be a vector."""

    element: str
    width: int = 1
    """Lanes; 1 for a scalar."""
    depth: int = 0
    """How often it can be indexed: stars and dimensions."""

    @property
    def vector(self) -> bool:
        """Whether it is a vector value."""
        return self.width > 1 and self.depth == 0

    @property
    def scalar(self) -> bool:
        """Whether it is known to be one number."""
        return bool(self.element) and self.width == 1 and self.depth == 0

    @property
    def target(self) -> Type:
        """What an index or a star leads to."""
        return Type(self.element, self.width, self.depth - 1) if self.depth else UNKNOWN


UNKNOWN = Type("")
INT = Type("int")


def read_type(words: str) -> Type:
    """The type that is spelled so, UNKNOWN for a name of the kernel's own."""
    base = words.rstrip("* ")
    depth = words.count("*")
    match = _VECTOR.fullmatch(base)
    if match is not None:
        return Type(match[1], int(match[2]), depth)
    base = _SPELLINGS.get(base, base)
    return Type(base, 1, depth) if base in _SCALARS else UNKNOWN


def number(text: str) -> Type:
    """The type of a literal."""
    lower = text.lower()
    if lower.startswith("'"):
        return INT
    hexadecimal = lower.startswith("0x")
    if ("." in lower or "e" in lower or "p" in lower) if not hexadecimal else "p" in lower:
        return Type("float" if lower.endswith("f") else "half" if lower.endswith("h") else "double")
    suffix = lower.lstrip("0123456789abcdefx") if hexadecimal else lower.lstrip("0123456789")
    if suffix not in ("", "u", "l", "ul", "lu"):
        return UNKNOWN
    digits = lower.rstrip("ul")
    try:
        value = int(digits, 16 if hexadecimal else 8 if len(digits) > 1 and digits.startswith("0") else 10)
    except ValueError:
        return UNKNOWN
    if value > 0x7FFFFFFF and not (suffix == "u" and value <= 0xFFFFFFFF):
        return Type("ulong" if "u" in suffix else "long")
    return Type({"": "int", "u": "uint", "l": "long"}.get(suffix, "ulong"))


def common(left: str, right: str) -> str:
    """C's usual arithmetic conversions of two elements; "" where they are not known."""
    left, right = (("int" if e in NARROW else e) for e in (left, right))
    if left not in _RANKS or right not in _RANKS:
        return ""
    return max(left, right, key=_RANKS.index)


def is_float(element: str) -> bool:
    """Whether it is float or double."""
    return element in _FLOATS


def lane_index(component: str, width: int) -> int | None:
    """The lane that `.x`, `.s3` or `.sF` names; None for several lanes and for anything else."""
    if len(component) == 1 and component in "xyzw"[: min(width, 4)]:
        return "xyzw".index(component)
    if len(component) == 2 and component[0] in "sS" and component[1] in "0123456789abcdefABCDEF":
        lane = int(component[1], 16)
        return lane if lane < width else None
    return None


def component(lane: int, width: int, letters: bool) -> str:
    """How a lane is named."""
    return "xyzw"[lane] if letters and width <= 4 else f"s{lane:x}"
