"""Names in a function, with their scopes, and the types of its expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from experts.kernel import Kernel
from experts.source import Function, SourceView, Span, Variable
from experts.source.syntax import Syntax, commas, strip

from .types import (
    ELEMENTWISE,
    GEOMETRY,
    INT,
    NARROW,
    UNKNOWN,
    Type,
    Unclear,
    common,
    lane_index,
    number,
    read_type,
)

_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"})
_BITS = frozenset({"%", "&", "|", "^", "<<", ">>"})
_FLOAT_NAMES = re.compile(r"INFINITY|NAN|MAXFLOAT|HUGE_VALF|FLT_(MAX|MIN|EPSILON)|M_\w+_F")
_INT_NAMES = re.compile(r"INT_(MAX|MIN)|CHAR_BIT|FLT_(DIG|MANT_DIG|MAX_EXP|MIN_EXP)")
_MEMORY = re.compile(r"v(load|store)(2|4|8|16)")
_CONVERSION = re.compile(r"(convert|as)_(u?(?:char|short|int|long)|float|double)(2|4|8|16)?")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class Name:
    """A declared variable, array, pointer or parameter."""

    variable: Variable
    type: Type
    """With dimensions and stars as depth."""
    parameter: bool
    declarator: Syntax | None
    """In the declaration; None for parameters and what stands outside functions."""
    visible: Span

    @property
    def text(self) -> str:
        """The identifier."""
        return self.variable.name or ""

    @property
    def declaration(self) -> Syntax | None:
        """The declaration that the declarator stands in."""
        return self.declarator.parent if self.declarator is not None else None

    @property
    def value(self) -> Syntax | None:
        """The initializer."""
        node = self.declarator
        return node.get("value") if node is not None and node.type == "init_declarator" else None


@dataclass(frozen=True, slots=True)
class Cast:
    """`(T)(x)`; also with a T that is a macro or a typedef, which reads as a call."""

    type: Type
    type_span: Span
    """The words between the parentheses, as far as the parser sees them."""
    arguments: tuple[Syntax, ...]
    operand: Syntax


class Scope:
    """What a function's names mean."""

    def __init__(self, kernel: Kernel, view: SourceView, function: Function, root: Syntax) -> None:
        self.kernel = kernel
        self.view = view
        self.function = function
        self.text = view.text
        self.body = next(
            n for n in walk(root) if n.type == "compound_statement" and n.span.start == function.body.start
        )
        self.nodes = tuple(walk(self.body))
        self._identifiers = {n.span.start: n for n in self.nodes if n.type == "identifier"}
        self.names = tuple(self._declared())
        self._by_text: dict[str, list[Name]] = {}
        for name in self.names:
            self._by_text.setdefault(name.text, []).append(name)
        self._known: dict[int, Type] = {}

    @cached_property
    def aliases(self) -> dict[str, Type]:
        """Macros and typedefs that stand for a type; UNKNOWN where there is more than one, or a condition."""
        found: dict[str, Type] = {}
        for macro in self.view.macros:
            meant = read_type(self.view.words(macro.body.span) or macro.body.text.strip())
            plain = macro.parameters is None and macro.shape == "value" and not macro.conditional
            known = plain and macro.name not in found
            found[macro.name] = meant if known else UNKNOWN
        for node in walk(self.view.tree):
            if node.type == "type_definition" and (written := node.get("type")) is not None:
                for declared in node.all("declarator"):
                    label = declared.span.of(self.text)
                    plain = declared.type == "type_identifier" and label not in found
                    found[label] = read_type(self.view.words(written.span)) if plain else UNKNOWN
        return found

    @cached_property
    def unsettled(self) -> frozenset[str]:
        """Names of types that may be vectors, depending on conditions."""
        vague = {name for name, meant in self.aliases.items() if not meant.element}
        bodies = [(m.name, m.body.text.strip()) for m in self.view.macros]
        for node in walk(self.view.tree):
            if node.type == "type_definition" and (written := node.get("type")) is not None:
                bodies += [(self.spelled(d), self.view.words(written.span)) for d in node.all("declarator")]
        return frozenset(name for name, body in bodies if name in vague and read_type(body).width > 1)

    def read(self, words: str) -> Type:
        """The type of that spelling; looks through macros and typedefs."""
        meant = read_type(words)
        base = words.rstrip("* ")
        if meant is UNKNOWN and base in self.aliases:
            inner = self.aliases[base]
            return Type(inner.element, inner.width, inner.depth + words.count("*")) if inner.element else UNKNOWN
        return meant

    def _declared(self) -> Iterator[Name]:
        for variable in self.view.variables:
            yield Name(variable, self._type(variable), False, None, Span(variable.span.end, len(self.text)))
        for variable in self.function.parameters:
            yield Name(variable, self._type(variable), True, None, self.body.span)
        for variable in self.function.variables:
            node = self._identifiers.get(variable.name_span.start) if variable.name_span else None
            declarator = node
            while declarator is not None and declarator.parent is not None and declarator.parent.type != "declaration":
                declarator = declarator.parent
            if node is None or declarator is None or declarator.parent is None:
                continue
            around = declarator.inside(lambda n: n.type in ("compound_statement", "for_statement")) or self.body
            yield Name(variable, self._type(variable), False, declarator, Span(node.span.end, around.span.end))

    def _type(self, variable: Variable) -> Type:
        base = self.read(variable.base_type)
        if not base.element or variable.is_reference:
            return UNKNOWN
        return Type(base.element, base.width, base.depth + variable.pointer_depth + len(variable.dims))

    def spelled(self, node: Syntax) -> str:
        """The text of a node."""
        return node.span.of(self.text)

    def resolve(self, node: Syntax) -> Name | None:
        """What an identifier names; None for what is not declared in the file."""
        at = node.span.start
        seen = [
            n
            for n in self._by_text.get(self.spelled(node), ())
            if n.visible.start <= at < n.visible.end
            or (n.variable.name_span is not None and n.variable.name_span.start == at)
        ]
        return max(seen, key=lambda n: n.visible.start, default=None) if node.type == "identifier" else None

    def identifier(self, offset: int) -> Syntax | None:
        """The identifier that starts there."""
        return self._identifiers.get(offset)

    def declares(self, node: Syntax) -> bool:
        """Whether an identifier is the one that a declaration introduces."""
        name = self.resolve(node)
        return name is not None and name.variable.name_span == node.span

    def operator(self, node: Syntax) -> str:
        """The operator, as it is written."""
        sign = next((c for c in node.children if not c.is_named and c.type not in "()"), None)
        return self.spelled(sign) if sign is not None else ""

    def callee(self, node: Syntax) -> str:
        """The name of the called function; "" where it is not a plain name."""
        function = node.get("function") if node.type == "call_expression" else None
        return self.spelled(function) if function is not None and function.type == "identifier" else ""

    def arguments(self, node: Syntax) -> list[Syntax]:
        """The arguments of a call."""
        listed = node.get("arguments")
        return listed.named if listed is not None else []

    def memory_call(self, node: Syntax) -> tuple[bool, int] | None:
        """Whether a vloadN stores, and its N; None for other nodes."""
        match = _MEMORY.fullmatch(self.callee(node))
        return (match[1] == "store", int(match[2])) if match is not None else None

    def conversion(self, node: Syntax) -> tuple[str, Type] | None:
        """`convert` or `as`, and the type, of such a builtin."""
        match = _CONVERSION.fullmatch(self.callee(node))
        return (match[1], Type(match[2], int(match[3] or 1))) if match is not None else None

    def cast(self, node: Syntax) -> Cast | None:
        """A cast or vector literal taken apart."""
        if node.type == "cast_expression":
            written, value = node.get("type"), node.get("value")
            if written is None or value is None:
                return None
            inner = commas(value.named) if value.type == "parenthesized_expression" else [value]
            return Cast(self.read(self.view.words(written.span)), written.span, tuple(inner), value)
        function = node.get("function") if node.type == "call_expression" else None
        if function is None or function.type != "parenthesized_expression":
            return None
        word, listed = strip(function), node.get("arguments")
        meant = self.aliases.get(self.spelled(word), UNKNOWN)
        if word.type != "identifier" or not meant.element or listed is None:
            return None
        return Cast(meant, word.span, tuple(listed.named), listed)

    def type_of(self, node: Syntax) -> Type:
        """The type of an expression, UNKNOWN where it is not clear.

        Raises Unclear for operations on vectors that do something else than the same to each lane.
        """
        key = id(node)
        if key not in self._known:
            self._known[key] = self._infer(node)
        return self._known[key]

    def _infer(self, node: Syntax) -> Type:
        if node.type in ("number_literal", "char_literal"):
            return number(self.spelled(node))
        if node.type in ("true", "false"):
            return INT
        if node.type == "identifier":
            name = self.resolve(node)
            return name.type if name is not None else self._constant(self.spelled(node), frozenset())
        if node.type == "parenthesized_expression" and len(node.named) == 1:
            return self.type_of(node.named[0])
        if node.type == "sizeof_expression":
            return Type("ulong")
        cast = self.cast(node)
        if cast is not None:
            return cast.type
        first = node.get("argument")
        if node.type == "subscript_expression" and first is not None:
            return self.type_of(first).target
        if node.type == "pointer_expression" and first is not None:
            inner = self.type_of(first)
            if self.operator(node) == "*":
                return inner.target
            return Type(inner.element, inner.width, inner.depth + 1) if inner.element else UNKNOWN
        if node.type == "field_expression" and first is not None:
            return self._member(node, first)
        if node.type == "unary_expression" and first is not None:
            return self._unary(node, first)
        if node.type == "update_expression" and first is not None:
            return self.type_of(first)
        if node.type == "binary_expression":
            return self._binary(node)
        if node.type == "conditional_expression":
            return self._choice(node)
        if node.type == "assignment_expression" and (left := node.get("left")) is not None:
            return self.type_of(left)
        return self._call(node) if node.type == "call_expression" else UNKNOWN

    def _constant(self, word: str, seen: frozenset[str]) -> Type:
        """The type of a name that no declaration introduces: a macro, an enumerator, a constant of the manifest."""
        if word in self.kernel.manifest.const or word in self.enumerators or _INT_NAMES.fullmatch(word):
            return INT
        if _FLOAT_NAMES.fullmatch(word):
            return Type("float")
        macros = [m for m in self.view.macros if m.name == word]
        if len(macros) != 1 or macros[0].shape != "value" or macros[0].parameters is not None or word in seen:
            return UNKNOWN
        body = macros[0].body.text
        elements: list[Type] = [number(n) for n in re.findall(r"(?<![\w.])\.?\d(?:[eEpP][+-]|[\w.])*", body)]
        elements += [self._constant(w, seen | {word}) for w in _WORD.findall(re.sub(r"\.?\d[\w.]*", "", body))]
        result = elements[0] if elements else UNKNOWN
        for other in elements[1:]:
            result = Type(common(result.element, other.element)) if other.scalar else UNKNOWN
        return result

    @cached_property
    def enumerators(self) -> frozenset[str]:
        """The names of all enumerations."""
        named = (n.get("name") for n in walk(self.view.tree) if n.type == "enumerator")
        return frozenset(self.spelled(n) for n in named if n is not None)

    def _member(self, node: Syntax, first: Syntax) -> Type:
        inner, part = self.type_of(first), node.get("field")
        if not inner.vector:
            return UNKNOWN
        label = self.spelled(part) if part is not None else ""
        if self.operator(node) != "." or lane_index(label, inner.width) is None:
            raise Unclear(f"a swizzle of several components: .{label}")
        return Type(inner.element)

    def _unary(self, node: Syntax, first: Syntax) -> Type:
        inner, sign = self.type_of(first), self.operator(node)
        if inner.vector:
            if sign not in "+-~" or (sign == "~" and inner.element in ("float", "double", "half")):
                raise Unclear(f"{sign} of a vector")
            self._arithmetic(inner)
            return inner
        if sign == "!":
            return INT
        return Type(common(inner.element, "int")) if inner.scalar else UNKNOWN

    def _arithmetic(self, value: Type) -> None:
        if value.element in NARROW:
            raise Unclear(f"arithmetic on {value.element}, which a scalar does in int")
        if value.element == "half":
            raise Unclear("arithmetic on half")

    def _binary(self, node: Syntax) -> Type:
        left, right = node.get("left"), node.get("right")
        if left is None or right is None:
            return UNKNOWN
        sign, a, b = self.operator(node), self.type_of(left), self.type_of(right)
        if not (a.vector or b.vector):
            if a.depth or b.depth:
                pointer = a if a.depth else b
                return pointer if sign in ("+", "-") and not (a.depth and b.depth) else INT
            if sign in _ARITHMETIC:
                shift = sign in ("<<", ">>")
                element = common(a.element, "int" if shift else b.element) if a.scalar and b.scalar else ""
                return Type(element) if element else UNKNOWN
            return INT
        if sign not in _ARITHMETIC:
            raise Unclear(f"a comparison or choice of vectors: {sign}")
        for side in (a, b):
            if not (side.vector or side.scalar):
                raise Unclear("a part of a vector expression whose type is not known")
        vector = a if a.vector else b
        if a.vector and b.vector and a != b:
            raise Unclear("vectors of two types in one operation")
        if sign in ("<<", ">>") and not a.vector:
            raise Unclear("a scalar shifted by a vector")
        if sign in _BITS and vector.element in ("float", "double"):
            raise Unclear(f"{sign} of float vectors")
        self._arithmetic(vector)
        return vector

    def _choice(self, node: Syntax) -> Type:
        parts = [self.type_of(n) for n in node.named]
        if any(p.vector for p in parts):
            raise Unclear("a comparison or choice of vectors: ?:")
        a, b = parts[-2:] if len(parts) == 3 else (UNKNOWN, UNKNOWN)
        if a.scalar and b.scalar and common(a.element, b.element):
            return Type(common(a.element, b.element))
        return a if a == b else UNKNOWN

    def _call(self, node: Syntax) -> Type:
        name = self.callee(node)
        mine = any(f.name == name for f in self.view.functions)
        if mine or any(m.name == name for m in self.view.macros):
            owner = next((f for f in self.view.functions if f.name == name), None)
            return self.read(owner.return_type) if owner is not None else UNKNOWN
        if name in GEOMETRY:
            return Type("ulong")
        memory, conversion = self.memory_call(node), self.conversion(node)
        arguments = self.arguments(node)
        if memory is not None:
            stores, width = memory
            pointer = self.type_of(arguments[-1]) if arguments else UNKNOWN
            if stores or pointer.depth != 1 or pointer.width != 1:
                return UNKNOWN
            return Type(pointer.element, width)
        if conversion is not None:
            return conversion[1]
        if name not in ELEMENTWISE or not arguments:
            return UNKNOWN
        types = [self.type_of(a) for a in arguments]
        vectors = {t for t in types if t.vector}
        if not vectors:
            first = next(
                (t for a, t in zip(arguments, types, strict=True) if strip(a).type != "number_literal"), types[0]
            )
            return first if first.scalar and first.element in ELEMENTWISE[name] else UNKNOWN
        vector = vectors.pop()
        if vectors or not all(t.vector or t.scalar for t in types):
            raise Unclear(f"arguments of {name}() of several types")
        if vector.element not in ELEMENTWISE[name]:
            raise Unclear(f"{name}() of {vector.element}")
        return vector


def walk(node: Syntax) -> Iterator[Syntax]:
    """A node and everything inside it, in source order."""
    todo = [node]
    while todo:
        inner = todo.pop()
        yield inner
        todo.extend(reversed(inner.children))
