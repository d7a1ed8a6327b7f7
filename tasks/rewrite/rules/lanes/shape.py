"""Text around expressions: precedence, layout, fresh names."""

from __future__ import annotations

import re
from collections.abc import Callable

from experts.source.syntax import Syntax, strip

from .names import Scope

_PRIMARY = frozenset(
    {
        "identifier",
        "number_literal",
        "char_literal",
        "parenthesized_expression",
        "call_expression",
        "subscript_expression",
        "field_expression",
    }
)
_PREFIXED = frozenset({"cast_expression", "unary_expression", "pointer_expression", "sizeof_expression"})
_HEADER = re.compile(r"for \(int (\w+) = 0; \w+ < (2|4|8|16); \w+\+\+\)")


def is_primary(node: Syntax) -> bool:
    """Whether an index can follow without parentheses."""
    return node.type in _PRIMARY


def is_factor(scope: Scope, node: Syntax) -> bool:
    """Whether `* W` can follow without parentheses."""
    product = node.type == "binary_expression" and scope.operator(node) in ("*", "/", "%")
    return is_primary(node) or node.type in _PREFIXED or product


def is_term(scope: Scope, node: Syntax) -> bool:
    """Whether `+ lane` can follow without parentheses."""
    return is_factor(scope, node) or (node.type == "binary_expression" and scope.operator(node) in ("+", "-"))


def patched(scope: Scope, node: Syntax, change: Callable[[Syntax], str]) -> str:
    """The text of a node with each part written by `change`; what stands between them is kept."""
    out, at = "", node.span.start
    for part in node.children:
        if not part.is_named:
            continue
        out += scope.text[at : part.span.start] + change(part)
        at = part.span.end
    return out + scope.text[at : node.span.end]


def indent_of(text: str, offset: int) -> str | None:
    """The white space before `offset`, if it is the first on its line."""
    start = text.rfind("\n", 0, offset) + 1
    lead = text[start:offset]
    return lead if not lead.strip(" \t") else None


def header(lane: str, width: int) -> str:
    """The header of a lane loop."""
    return f"for (int {lane} = 0; {lane} < {width}; {lane}++)"


def nested(text: str, offset: int, statement: str, lane: str, width: int) -> str:
    """A lane loop whose loop keyword stands at `offset`."""
    indent = indent_of(text, offset)
    step = "\t" if indent and indent.endswith("\t") else "    "
    gap = " " if indent is None else f"\n{indent}{step}"
    return f"{header(lane, width)}{gap}{statement}"


def fresh_lane(scope: Scope, units: tuple[Syntax, ...], wanted: str) -> str:
    """A name for the lanes: one that means something else nowhere in the function.

    Lane loops that stand already share it, so that it does not depend on the order of removals.
    """
    function = scope.function
    fixed = {m.name for m in scope.view.macros} | set(scope.kernel.manifest.const) | scope.enumerators
    fixed |= {v.name for v in scope.view.variables if v.name} | {f.name for f in scope.view.functions}
    stem, count = re.sub(r"\d+$", "", wanted) or "lane", 0
    candidate = wanted
    while True:
        loops = [
            loop
            for loop in function.walk_loops()
            if loop.header.of(scope.text) == header(candidate, _width(loop.header.of(scope.text)))
        ]
        inside = [loop.span for loop in loops]
        uses = scope.view.occurrences(candidate, function.span)
        taken = any(not any(s.contains(use) for s in inside) for use in uses)
        shadowed = any(s.contains(unit.span) for s in inside for unit in units)
        if candidate not in fixed and not taken and not shadowed and not scope.view.macros_that_mention(candidate):
            return candidate
        count += 1
        candidate = f"{stem}{count}"


def _width(text: str) -> int:
    match = _HEADER.fullmatch(text)
    return int(match[2]) if match is not None else 0


def unparenthesized(scope: Scope, node: Syntax, text: str) -> str:
    """The text of `(x)` without the parentheses, where the node has some."""
    return text[1:-1].strip() if node.type == "parenthesized_expression" and strip(node) is not node else text
