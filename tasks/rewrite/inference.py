"""The OpenCL type of an expression, where the text tells: enough to tell floating-point from whole numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from experts.kernel import Kernel
from experts.source import Access, Function, SourceView
from experts.source.syntax import Syntax, operator

_VALUE = re.compile(r"(u?char|u?short|u?int|u?long|size_t|half|float|double)(2|3|4|8|16)?")
_FLOATING = ("half", "float", "double")
_ORDER = ("int", "half", "float", "double")
_OF_FIRST = re.compile(
    r"(native_|half_)?(sin|cos|tan|exp|exp2|exp10|log|log2|log10|sqrt|rsqrt|powr|recip|divide)"
    r"|pow|fabs|floor|ceil|fma|mad|fmin|fmax|min|max|clamp"
)
"""Built-in functions whose result has the type of their first argument."""
_CONVERT = re.compile(r"(?:convert|as)_((?:u?char|u?short|u?int|u?long|half|float|double)(?:2|3|4|8|16)?)(?:_\w+)?")
_IDS = re.compile(r"get_\w+")


def is_floating(kind: str | None) -> bool:
    """Whether a type is half, float or double, or a vector of these."""
    return kind is not None and kind.startswith(_FLOATING)


def is_float(kind: str | None) -> bool:
    """Whether a type is float or a vector of floats."""
    return kind is not None and kind.startswith("float")


@dataclass(frozen=True)
class Types:
    """Types of expressions in one function."""

    kernel: Kernel
    view: SourceView
    function: Function

    def of(self, node: Syntax | None) -> str | None:
        """The type, `float4`; every scalar whole number is `int`. None where it is not certain."""
        if node is None:
            return None
        match node.type:
            case "number_literal":
                return _number(self._text(node))
            case "identifier":
                return self._name(self._text(node))
            case "parenthesized_expression":
                return self.of(node.named[0]) if len(node.named) == 1 else None
            case "unary_expression":
                return self.of(node.get("argument")) if operator(node) in ("-", "+") else None
            case "subscript_expression" | "pointer_expression":
                return self._memory(node)
            case "field_expression":
                return self._component(node)
            case "cast_expression":
                written = node.get("type")
                return _known(self._text(written)) if written is not None else None
            case "call_expression":
                return self._memory(node) or self._call(node)
            case "binary_expression" if operator(node) in ("+", "-", "*", "/", "%"):
                return _both(self.of(node.get("left")), self.of(node.get("right")))
            case "conditional_expression":
                kinds = {self.of(node.get("consequence")), self.of(node.get("alternative"))}
                return kinds.pop() if len(kinds) == 1 else None
            case _:
                return None

    def _text(self, node: Syntax) -> str:
        return node.span.of(self.kernel.text)

    def _name(self, name: str) -> str | None:
        if any(m.name == name for m in self.view.macros):
            return None
        inner = [v for v in (*self.function.parameters, *self.function.variables) if v.name == name]
        found = inner or [v for v in self.view.variables if v.name == name]
        if not found:
            return "int" if name in self.kernel.manifest.const else None
        kinds = {_known(v.base_type) if not v.pointer_depth and not v.dims else None for v in found}
        return kinds.pop() if len(kinds) == 1 else None

    def _memory(self, node: Syntax) -> str | None:
        access = next((a for a in self.function.accesses if a.span == node.span), None)
        if access is None or access.members:
            return None
        if access.cast is not None:
            element = access.cast.removesuffix("*").strip() if access.cast.count("*") == 1 else None
        else:
            element = self._element(access)
        if access.width is not None and access.width > 1 and element is not None:
            element = f"{element}{access.width}"
        return _known(element) if element is not None else None

    def _element(self, access: Access) -> str | None:
        declared = [v for v in (*self.function.parameters, *self.function.variables) if v.name == access.base]
        declared = declared or [v for v in self.view.variables if v.name == access.base]
        if len(declared) != 1:
            return None
        depth = declared[0].pointer_depth + len(declared[0].dims)
        if access.width is not None:  # `vload4(0, &t[i][j])`, `vload4(0, t[i])`
            fits = depth in (len(access.origin), len(access.origin) + 1)
        else:
            fits = depth == (len(access.indices) if access.form == "subscript" else 1)
        return declared[0].base_type if fits else None

    def _component(self, node: Syntax) -> str | None:
        name, kind = node.get("field"), self.of(node.get("argument"))
        match = _VALUE.fullmatch(kind or "")
        if name is None or match is None or match[2] is None:
            return None
        one = re.fullmatch(r"[xyzw]|[sS][0-9a-fA-F]", self._text(name))
        return _known(match[1]) if one else None

    def _call(self, node: Syntax) -> str | None:
        function, arguments = node.get("function"), node.get("arguments")
        if function is None or arguments is None or function.type != "identifier":
            return None
        name = self._text(function)
        if any(m.name == name for m in self.view.macros):
            return None
        own = [f for f in self.view.functions if f.name == name]
        if own:
            return _known(own[0].return_type) if len(own) == 1 else None
        if (converted := _CONVERT.fullmatch(name)) is not None:
            return _known(converted[1])
        if _IDS.fullmatch(name):
            return "int"
        if _OF_FIRST.fullmatch(name):
            kinds = [self.of(argument) for argument in arguments.named]
            return kinds[0] if kinds and kinds[0] is not None else None
        return None


def _known(kind: str) -> str | None:
    match = _VALUE.fullmatch(kind.removeprefix("const ").strip())
    if match is None:
        return "int" if kind in ("unsigned int", "unsigned", "bool") else None
    if match[1] in _FLOATING:
        return match[0]
    return match[0] if match[2] else "int"


def _number(text: str) -> str:
    text = text.lower()
    if text.startswith("0x"):
        return "double" if "p" in text else "int"
    if text.endswith("f"):
        return "float"
    if text.endswith("h"):
        return "half"
    return "double" if any(letter in text for letter in ".e") else "int"


def _both(left: str | None, right: str | None) -> str | None:
    """The type of a sum or product."""
    if left is None or right is None:
        return None
    if left == right:
        return left
    vector = [kind for kind in (left, right) if kind[-1].isdigit()]
    if vector:
        return vector[0] if len(vector) == 1 else None
    return max(left, right, key=_ORDER.index) if left in _ORDER and right in _ORDER else None
