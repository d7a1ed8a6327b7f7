"""Sums and extremes that a loop carries, and how the parts that lanes have of them come together."""

from __future__ import annotations

from dataclasses import dataclass

from experts.source.syntax import Syntax, strip
from tasks.rewrite.rules.lanes.names import Name
from tasks.rewrite.rules.lanes.types import Unclear, common

from .site import SIZES, Site

EXTREMES = ("fmax", "fmin", "max", "min")
_FUSED = ("mad", "fma")
_COLUMNS, _STEP = 120, 4
_LINE = "\n"
SUM = "+"


@dataclass(frozen=True, eq=False)
class Reduction:
    """A scalar that one statement of a loop updates."""

    name: Name
    kind: str
    """`+`, or one of EXTREMES."""
    statement: Syntax


def reduction(site: Site, loop: Syntax, statement: Syntax, name: Name) -> Reduction:
    """How a statement updates a scalar that was declared before the loop. Raises Unclear."""
    scope, variable = site.scope, name.variable
    expression = strip(statement.named[0])
    if name.type.depth or name.type.width > 1:
        raise Unclear(f"{name.text} moves on with each iteration")
    private = variable.address_space == "private" and not variable.storage and name.type.element in SIZES
    inside = name.declaration is not None or name.parameter
    if not private or not inside or variable.is_reference or SIZES[name.type.element] < 4:
        raise Unclear(f"{name.text} is no sum in a variable of its own")
    if any(q.kind == "volatile" for q in variable.qualifiers):
        raise Unclear(f"{name.text} is volatile")
    if any(a.name == name.text and a.operator == "&" for a in site.function.assignments):
        raise Unclear(f"the address of {name.text} is taken")
    left, right, sign = expression.get("left"), expression.get("right"), scope.operator(expression)
    if left is None or right is None:
        raise Unclear(f"{name.text} is no sum")
    kind, own = _kind(site, name, sign, strip(right))
    if kind is None or len(site.uses(name, loop)) != own:
        raise Unclear(f"{name.text} is used otherwise than as a sum or an extreme")
    given = scope.type_of(right)
    if not given.scalar or common(given.element, name.type.element) != name.type.element:
        raise Unclear(f"what comes to {name.text} has another type")
    return Reduction(name, kind, statement)


def _kind(site: Site, name: Name, sign: str, right: Syntax) -> tuple[str | None, int]:
    """The kind of an update, and how often it mentions the scalar."""
    scope = site.scope
    if sign == "+=":
        return SUM, 1
    if sign != "=":
        return None, 0
    if right.type == "call_expression":
        callee, arguments = scope.callee(right), scope.arguments(right)
        if callee in EXTREMES and len(arguments) == 2 and name in [scope.resolve(strip(a)) for a in arguments]:
            return callee, 2
        if callee in _FUSED and len(arguments) == 3 and scope.resolve(strip(arguments[2])) is name:
            return SUM, 2
        return None, 0
    node: Syntax | None = right
    while node is not None and node.type == "binary_expression" and scope.operator(node) in ("+", "-"):
        other = node.get("right")
        if scope.operator(node) == "+" and other is not None and scope.resolve(strip(other)) is name:
            return SUM, 2
        node = node.get("left")
        node = strip(node) if node is not None else None
        if node is not None and scope.resolve(node) is name:
            return SUM, 2
    return None, 0


def neutral(item: Reduction) -> str:
    """What the lanes start from: nothing, or for an extreme the scalar itself."""
    if item.kind != SUM:
        return item.name.text
    return {"float": "0.0f", "double": "0.0"}.get(item.name.type.element, "0")


def is_neutral(site: Site, item: Reduction, node: Syntax) -> bool:
    """Whether lanes that start from this value add nothing to what the scalar has."""
    text = site.scope.spelled(strip(node)).replace(" ", "")
    if item.kind == SUM:
        return text.rstrip("fFuUlL") in ("0", "0.", "0.0", ".0")
    if site.scope.resolve(strip(node)) is item.name:
        return True
    floats = item.name.type.element in ("float", "double")
    return floats and text == ("-INFINITY" if item.kind.endswith("max") else "INFINITY")


def fold(item: Reduction, part: str, width: int, lead: str) -> str:
    """The statement that puts the lanes together, in a tree; on several lines where one would be too long."""
    depth = 0
    while True:
        lines = _tree(item, part, list(range(width)), depth).split("\n")
        if item.kind == SUM:
            lines = f"{item.name.text} += {_LINE.join(lines)[1:-1]};".split(_LINE)
        else:
            gap = _LINE if depth else " "
            lines = f"{item.name.text} = {item.kind}({item.name.text},{gap}{_LINE.join(lines)});".split(_LINE)
        longest = max(len(lead) + (_STEP if number else 0) + len(line) for number, line in enumerate(lines))
        if longest <= _COLUMNS or 2**depth >= width:
            return f"\n{lead}{' ' * _STEP}".join(lines)
        depth += 1


def _tree(item: Reduction, part: str, lanes: list[int], depth: int) -> str:
    """Lanes in pairs, those in reach of half a vector first; a new line between pairs of the upper `depth` levels."""
    if len(lanes) == 1:
        return f"{part}[{lanes[0]}]"
    one, other = (_tree(item, part, half, depth - 1) for half in (lanes[::2], lanes[1::2]))
    gap = _LINE if depth > 0 else " "
    return f"({one} +{gap}{other})" if item.kind == SUM else f"{item.kind}({one},{gap}{other})"


def folded(site: Site, part: Name, statement: Syntax) -> tuple[Name, str, list[int]] | None:
    """The scalar, the kind and the lanes of a statement that puts lanes of `part` together; None for others."""
    scope = site.scope
    expression = strip(statement.named[0]) if statement.type == "expression_statement" and statement.named else None
    if expression is None or expression.type != "assignment_expression":
        return None
    left, right, sign = expression.get("left"), expression.get("right"), scope.operator(expression)
    total = scope.resolve(strip(left)) if left is not None else None
    if total is None or right is None or sign not in ("=", "+="):
        return None
    right = strip(right)
    callee = scope.callee(right)
    kind = callee if callee in EXTREMES and sign == "=" else SUM
    lanes, own, todo = [], 0, [right]
    while todo:
        node = strip(todo.pop())
        if kind == SUM and node.type == "binary_expression" and scope.operator(node) == "+":
            todo.extend(node.named)
        elif kind != SUM and scope.callee(node) == kind and len(scope.arguments(node)) == 2:
            todo.extend(scope.arguments(node))
        elif scope.resolve(node) is total:
            own += 1
        else:
            lane = _lane(site, part, node)
            if lane is None:
                return None
            lanes.append(lane)
    return (total, kind, lanes) if own == (sign == "=") else None


def _lane(site: Site, part: Name, node: Syntax) -> int | None:
    inner, listed = node.get("argument"), node.get("indices")
    if node.type != "subscript_expression" or inner is None or listed is None or len(listed.named) != 1:
        return None
    text = site.scope.spelled(listed.named[0])
    return int(text) if site.scope.resolve(strip(inner)) is part and text.isdigit() else None
