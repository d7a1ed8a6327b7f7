"""Symbolic whole numbers of a kernel: extents of loops, addresses of accesses, over a case's dimensions and [const]."""

from .access import address_of
from .frame import Frame, Range
from .manifest import value_of
from .parts import Address, Integer
from .scopes import Scopes
from .sets import number_at, numbers_of
from .text import divisibility_terms, expression_text, term_texts
from .types import Element, element
from .values import (
    Counter,
    Operation,
    Symbol,
    Unclear,
    Value,
    counter,
    not_negative,
    number,
    operation,
    substituted,
    symbol,
)

__all__ = [
    "Address",
    "Counter",
    "Element",
    "Frame",
    "Integer",
    "Operation",
    "Range",
    "Scopes",
    "Symbol",
    "Unclear",
    "Value",
    "address_of",
    "counter",
    "divisibility_terms",
    "element",
    "expression_text",
    "not_negative",
    "number",
    "number_at",
    "numbers_of",
    "operation",
    "substituted",
    "symbol",
    "term_texts",
    "value_of",
]
