"""Blocks in: a plain loop as one over blocks with loops over lanes inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from experts.source import TextEdit
from experts.source.syntax import Syntax, strip
from tasks.rewrite.rules.found import line_start
from tasks.rewrite.rules.lanes.names import Name, walk
from tasks.rewrite.rules.lanes.scalars import index_node
from tasks.rewrite.rules.lanes.shape import fresh_lane, header, indent_of, nested
from tasks.rewrite.rules.lanes.types import Unclear
from tasks.rewrite.tree import SUM, slot

from .plain import PlainLoop, hinted
from .reductions import fold, neutral
from .site import Site

_EQUALS = re.compile(r"\s*=\s*")


@dataclass(frozen=True)
class Wish:
    """What decides the names in the blocks."""

    width: int
    lane: str = "lane"
    step: str = ""
    """How the width is spelled in the loop's header; empty for the number."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Arrays for the lanes of a sum, by the sum; others have usual names."""


def blocked(site: Site, plain: PlainLoop, wish: Wish) -> tuple[TextEdit, ...]:
    """The edits that make blocks of a loop. Raises Unclear."""
    return _Writer(site, plain, wish).edits()


def usual_part(site: Site, name: Name) -> str:
    """The name for the lanes of a sum: one that stands nowhere in the file."""
    taken = {n.text for n in site.scope.names} | set(site.kernel.manifest.const)
    stem = candidate = f"{name.text}_part"
    count = 1
    while candidate in taken or site.view.occurrences(candidate) or site.view.macros_that_mention(candidate):
        count += 1
        candidate = f"{stem}{count}"
    return candidate


class _Writer:
    def __init__(self, site: Site, plain: PlainLoop, wish: Wish) -> None:
        self.site, self.plain, self.wish = site, plain, wish
        self.text = site.view.text
        self.width = wish.width
        self.lane = fresh_lane(site.scope, (plain.node,), wish.lane)
        self.parts = {r.name: wish.parts.get(r.name.text) or usual_part(site, r.name) for r in plain.reductions}
        if len(set(self.parts.values())) != len(self.parts):
            raise Unclear("two sums would share their lanes")

    def edits(self) -> tuple[TextEdit, ...]:
        """See `blocked`."""
        plain, loop = self.plain, self.plain.loop
        if loop.update is None:
            raise Unclear("its header is not understood")
        start = hinted(loop)
        lead = indent_of(self.text, start)
        gap = " " if lead is None else f"\n{lead}"
        before, behind = "", ""
        for item in plain.reductions:
            part = self.parts[item.name]
            set_to = f"{part}[{self.lane}] = {neutral(item)};"
            step = " " if lead is None else f"{gap}    "
            before += f"{item.name.variable.base_type} {part}[{self.width}];{gap}"
            before += f"{header(self.lane, self.width)}{step}{set_to}{gap}"
            behind += gap + fold(item, part, self.width, self._indent(start))
        step_text = self.wish.step or str(self.width)
        found = [TextEdit.replace(loop.update.span, f"{plain.counter.text} += {step_text}")]
        if before:
            found += [TextEdit(start, start, before)]
            found += [TextEdit(loop.span.end, loop.span.end, behind)]
        for statement in plain.statements:
            if statement.type == "declaration":
                found += self._declaration(statement)
            else:
                start = statement.span.start
                found += [TextEdit(start, start, nested(self.text, start, "", self.lane, self.width))]
                found += self._lanes(statement)
        return tuple(found)

    def _indent(self, offset: int) -> str:
        """What the line of `offset` starts with."""
        line = self.text[line_start(self.text, offset) :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _declaration(self, node: Syntax) -> list[TextEdit]:
        """`float d = E;` as an array, and a loop that sets it."""
        name = next(n for n in self.plain.private if n.declaration is node)
        value, span = name.value, name.variable.name_span
        assert span is not None
        found = [TextEdit.replace(q.removal, "") for q in name.variable.qualifiers if q.kind == "const"]
        if value is None:
            return [*found, TextEdit(span.end, span.end, f"[{self.width}]")]
        if not _EQUALS.fullmatch(self.text[span.end : value.span.start]):
            raise Unclear(f"something stands between {name.text} and its value")
        lead = indent_of(self.text, node.span.start)
        gap = " " if lead is None else f"\n{lead}"
        loop = nested(self.text, node.span.start, f"{name.text}[{self.lane}] = ", self.lane, self.width)
        return [*found, TextEdit(span.end, value.span.start, f"[{self.width}];{gap}{loop}"), *self._lanes(value)]

    def _lanes(self, node: Syntax) -> list[TextEdit]:
        """What one lane does."""
        scope, found = self.site.scope, []
        for inner in walk(node):
            name = scope.resolve(inner) if inner.type == "identifier" else None
            if name is None:
                continue
            if name is self.plain.counter:
                found.append(self._counter(inner))
            elif name in self.plain.private or name in self.parts:
                found.append(TextEdit.replace(inner.span, f"{self.parts.get(name, name.text)}[{self.lane}]"))
        return found

    def _counter(self, node: Syntax) -> TextEdit:
        """`j` as `j + lane`; in the sum that is an index, the lane comes last, as vectors have it."""
        index = summed_index(self.site, node)
        if index is not None and len(self.site.uses(self.plain.counter, index)) == 1:
            return TextEdit(index.span.end, index.span.end, f" + {self.lane}")
        written = f"{self.plain.counter.text} + {self.lane}"
        return TextEdit.replace(node.span, f"({written})" if slot(node, self.site.view) > SUM else written)


def summed_index(site: Site, node: Syntax) -> Syntax | None:
    """The index of an element that is a sum with `node` as one of its terms; None where there is none."""
    above = node.parent
    while above is not None and above.type != "subscript_argument_list":
        sign = site.scope.operator(above) if above.type == "binary_expression" else ""
        if above.type != "parenthesized_expression" and not (sign == "+" or (sign == "-" and node.field == "left")):
            return None
        node, above = above, above.parent
    element = above.parent if above is not None else None
    outer = element.parent if element is not None else None
    if element is None or index_node(element) is not node:
        return None
    row = outer is not None and outer.type == "subscript_expression" and strip(outer.get("argument") or outer)
    return None if row is element else node
