"""Plain loops: which there are, and whether their iterations could be lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experts.source import Loop, Span
from experts.source.syntax import Syntax, strip
from tasks.rewrite.ranges import Ranges
from tasks.rewrite.rules.lanes.names import Name
from tasks.rewrite.rules.lanes.types import Unclear

from .reductions import Reduction, reduction
from .site import SIZES, Site
from .traffic import Independence, place, reads

_COMPOUND = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})


@dataclass(frozen=True, eq=False)
class PlainLoop:
    """`for (int j = A; j < N; j++)`, with a body of assignments that each iteration could do by itself."""

    loop: Loop
    node: Syntax
    counter: Name
    statements: tuple[Syntax, ...]
    private: tuple[Name, ...]
    """Scalars that the body declares."""
    reductions: tuple[Reduction, ...]
    width: int
    """Lanes that fill a vector of 64 bytes."""


def plain_loops(site: Site) -> Iterator[Loop]:
    """The innermost loops of the form, but for those over lanes."""
    for loop, step in site.counted():
        if step == 1 and not loop.children and site.lanes(loop) is None:
            yield loop


def plain_loop(site: Site, loop: Loop, width: int = 0) -> PlainLoop:
    """What the rule has to know about a loop, for blocks of `width` (0: as many as suit). Raises Unclear."""
    node = site.node(loop)
    counter = site.counter(node) if node is not None else None
    if node is None or counter is None:
        raise Unclear("its header is not understood")
    if (why := site.view.why_opaque(Span(hinted(loop), loop.span.end))) is not None:
        raise Unclear(f"code that is not understood ({why})")
    check_hints(site, loop)
    if loop.exits:
        raise Unclear(f"it is left by {loop.exits[0]}")
    return _Reader(site, loop, node, counter).read(width)


def hinted(loop: Loop) -> int:
    """Where a loop starts, with the hints before it: they stay with it."""
    return min((hint.span.start for hint in loop.hints), default=loop.span.start)


def check_hints(site: Site, loop: Loop) -> None:
    """Raises Unclear for hints inside a loop, and for pragmas near it that are about something else."""
    text, start = site.view.text, loop.span.start
    if any(hint.span.start > start for hint in loop.hints):
        raise Unclear("a hint stands behind the loop's header")
    own = [hint.span for hint in loop.hints]
    for pragma in site.view.pragmas:
        span = pragma.span
        near = span.end <= start and not text[span.end : start].strip()
        if loop.span.contains(span) or (near and not any(span.overlaps(hint) for hint in own)):
            raise Unclear("a hint stands in the loop")


def body_of(node: Syntax) -> list[Syntax]:
    """The statements of a loop's body."""
    body = node.get("body")
    if body is None:
        return []
    return body.named if body.type == "compound_statement" else [body]


class _Reader:
    def __init__(self, site: Site, loop: Loop, node: Syntax, counter: Name) -> None:
        self.site, self.loop, self.node, self.counter = site, loop, node, counter
        self.private: list[Name] = []
        self.reductions: list[Reduction] = []
        self.elements: set[str] = set()

    def read(self, width: int) -> PlainLoop:
        statements = body_of(self.node)
        if not statements:
            raise Unclear("its body is empty")
        body = self.node.get("body")
        self.private = [n for n in self.site.scope.names if body is not None and self._declared_in(n, body)]
        self.traffic = Independence(self.site, self.counter, frozenset(self.private))
        for statement in statements:
            if statement.type == "declaration":
                self._declaration(statement)
            elif statement.type == "expression_statement" and statement.named:
                self._assignment(statement)
            else:
                raise Unclear(_fault(statement))
        self._names()
        self._header()
        self.traffic.check()
        if not (self.traffic.stores or self.reductions):
            raise Unclear("it neither writes nor sums up anything")
        if not self.elements <= SIZES.keys():
            raise Unclear("elements of a size that is not known")
        width = width or (8 if any(SIZES[e] == 8 for e in self.elements) else 16)
        self._extent(width)
        if self.reductions and (self.node.parent is None or self.node.parent.type != "compound_statement"):
            raise Unclear("the loop is no statement of a block")
        return PlainLoop(
            self.loop,
            self.node,
            self.counter,
            tuple(statements),
            tuple(self.private),
            tuple(self.reductions),
            width,
        )

    def _declared_in(self, name: Name, body: Syntax) -> bool:
        return name.declaration is not None and body.span.contains(name.declaration.span)

    def _declaration(self, node: Syntax) -> None:
        names = [n for n in self.private if n.declaration is node]
        if len(names) != 1 or len(node.all("declarator")) != 1:
            raise Unclear("several names in one declaration of its body")
        name = names[0]
        variable = name.variable
        if name.type.width > 1:
            raise Unclear("it computes with vectors already")
        plain = name.type.scalar and variable.address_space == "private" and not variable.is_reference
        if not plain or variable.storage or variable.attributes or name.type.element not in SIZES:
            raise Unclear(f"{name.text} is more than a number")
        if any(q.kind not in ("const", "address_space") for q in variable.qualifiers):
            raise Unclear(f"{name.text} is more than a number")
        self.elements.add(name.type.element)
        if name.value is not None:
            self._right(name.value)

    def _assignment(self, statement: Syntax) -> None:
        scope = self.site.scope
        node = strip(statement.named[0])
        left, right, sign = node.get("left"), node.get("right"), scope.operator(node)
        if node.type != "assignment_expression" or left is None or right is None:
            called = node.type == "call_expression"
            raise Unclear("a call of something with an effect" if called else "a statement that assigns nothing")
        if sign != "=" and sign not in _COMPOUND:
            raise Unclear("a statement that assigns nothing")
        left = strip(left)
        if left.type == "identifier":
            name = scope.resolve(left)
            if name is None:
                raise Unclear("it assigns to what is not known")
            self._right(right)
            if name not in self.private:
                self.reductions.append(reduction(self.site, self.node, statement, name))
                self.elements.add(name.type.element)
            return
        if left.type != "subscript_expression":
            raise Unclear("memory is accessed through an expression")
        target = place(self.site, left)
        self.traffic.stores.append(target)
        if sign != "=":
            self.traffic.loads.append(target)
        for index in target.indices:
            self._reads(index)
        self._right(right)
        self.elements.add(target.base.type.element)

    def _right(self, node: Syntax) -> None:
        self._reads(node)
        if not self.site.scope.type_of(node).scalar:
            raise Unclear("a part whose type is not known")

    def _reads(self, node: Syntax) -> None:
        for found in reads(self.site, node):
            self.traffic.loads.append(found)
            self.elements.add(found.base.type.element)

    def _names(self) -> None:
        """Whether all uses of the names that change are seen."""
        names = (self.counter, *self.private, *(r.name for r in self.reductions))
        if len({r.name for r in self.reductions}) != len(self.reductions):
            raise Unclear("two statements update one sum")
        for name in names:
            if self.site.view.macros_that_mention(name.text):
                raise Unclear(f"a macro mentions {name.text}")

    def _header(self) -> None:
        """Whether the bound stays the same: sums are mentioned nowhere else, so that memory could change it only."""
        site = self.site
        condition = self.node.get("condition")
        bound = condition.get("right") if condition is not None else None
        if bound is None:
            raise Unclear("its header is not understood")
        for found in reads(site, bound):
            if any(not site.memory.distinct(s.roots, found.roots) for s in self.traffic.stores):
                raise Unclear("its bound may change in the loop")

    def _extent(self, width: int) -> None:
        """Whether the number of iterations, where it is a constant, makes whole blocks."""
        at = self.loop.induction
        assert at is not None
        ranges = Ranges(self.site.kernel, self.site.view, self.site.function)
        start, bound = ranges.of(at.start.text, at.start.span), ranges.of(at.bound.text, at.bound.span)
        if start is None or bound is None or start[0] != start[1] or bound[0] != bound[1]:
            return
        if (bound[0] - start[0]) % width or bound[0] - start[0] < width:
            raise Unclear(f"it always runs {max(bound[0] - start[0], 0)} times, which makes no blocks of {width}")


def _fault(statement: Syntax) -> str:
    if statement.type in ("if_statement", "switch_statement"):
        return "its body has a choice"
    if statement.type == "compound_statement":
        return "its body has a block of its own"
    return "its body is more than assignments"
