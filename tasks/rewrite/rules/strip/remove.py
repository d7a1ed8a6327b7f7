"""Blocks out: a loop over blocks of lanes as a plain loop."""

from __future__ import annotations

from experts.source import Span, TextEdit
from experts.source.syntax import Syntax, strip
from tasks.rewrite.rules.found import indentation
from tasks.rewrite.rules.lanes.names import Name
from tasks.rewrite.rules.lanes.types import Unclear

from .add import summed_index
from .blocks import BlockedLoop, Lanes, lane_of
from .site import Site


def plain_edits(site: Site, blocks: BlockedLoop) -> tuple[TextEdit, ...]:
    """The edits that make a plain loop of blocks. Raises Unclear."""
    return _Writer(site, blocks).edits()


class _Writer:
    def __init__(self, site: Site, blocks: BlockedLoop) -> None:
        self.site, self.blocks = site, blocks
        self.text = site.view.text
        self.counter = blocks.counter
        self.scalars = {n: n.text for n in blocks.declared} | {p.name: p.total.text for p in blocks.parts}
        self.counted: set[int] = set()
        """Uses of the counter and of arrays that go with a lane."""
        self.found: list[TextEdit] = []

    def edits(self) -> tuple[TextEdit, ...]:
        """See `plain_edits`."""
        blocks = self.blocks
        if blocks.loop.update is None:
            raise Unclear("its header is not understood")
        self.found.append(TextEdit.replace(blocks.loop.update.span, f"{self.counter.text}++"))
        for part in blocks.parts:
            for node in part.before:
                self._drop_before(node)
            for node in part.folds:
                self._drop_behind(node)
        if any(len(each.statements) > 1 for each in blocks.lanes):
            self._block()
        else:
            merged = self._declarations()
            for each in blocks.lanes:
                if id(each.node) not in merged:
                    self._unwrap(each)
        for each in blocks.lanes:
            self._lanes(each)
        body = blocks.node.get("body")
        if body is None or any(id(n) not in self.counted for n in self.site.uses(self.counter, body)):
            raise Unclear(f"the start of a block, {self.counter.text}, is used by itself")
        for name in self.scalars:
            if any(id(n) not in self.counted for n in self.site.uses(name, body)):
                raise Unclear(f"{name.text} is indexed by something else than the lane")
        return tuple(self.found)

    # statements

    def _drop_before(self, node: Syntax) -> None:
        """Delete a statement that has others behind it, up to these or to a comment or hint before them."""
        end = node.span.end + _blanks(self.text[node.span.end :])
        if self.text[end] == "#" and indentation(self.text, node.span.start) is None:
            raise Unclear("a hint does not have its line to itself")
        self.found.append(TextEdit(node.span.start, end, ""))

    def _drop_behind(self, node: Syntax) -> None:
        """Delete a statement that has others before it, from these or a comment behind them."""
        siblings = node.parent.named if node.parent is not None else []
        before = siblings[siblings.index(node) - 1]
        start = node.span.start - _blanks(self.text[: node.span.start][::-1])
        line = self.text[node.span.end :].split("\n", 1)[0]
        if start != before.span.end and line.strip():
            raise Unclear("a comment stands between its lanes and where they come together")
        self.found.append(TextEdit(start, node.span.end, ""))

    def _bare(self, start: int, end: int) -> None:
        if self.text[start:end].strip(" \t\n{}"):
            raise Unclear("a comment stands in the loop")

    def _unwrap(self, each: Lanes) -> None:
        """The statement of a loop over lanes without the loop."""
        statement = each.statements[0]
        self._bare(each.loop.header.end, statement.span.start)
        self._bare(statement.span.end, each.node.span.end)
        self.found.append(TextEdit(each.node.span.start, statement.span.start, ""))
        if statement.span.end < each.node.span.end:
            self.found.append(TextEdit(statement.span.end, each.node.span.end, ""))

    def _block(self) -> None:
        """One loop over lanes around several statements: its body is the loop's."""
        blocks = self.blocks
        outer, each = blocks.node.get("body"), blocks.lanes[0]
        inner = each.node.get("body")
        if len(blocks.lanes) != 1 or blocks.declared or outer is None or inner is None:
            raise Unclear("loops over lanes of several statements")
        self._bare(outer.span.start, each.node.span.start)
        self._bare(each.loop.header.end, inner.span.start)
        self._bare(inner.span.end, outer.span.end)
        self.found.append(TextEdit(outer.span.start, inner.span.start, ""))
        if inner.span.end < outer.span.end:
            self.found.append(TextEdit(inner.span.end, outer.span.end, ""))

    def _declarations(self) -> set[int]:
        """Arrays of lanes as scalars; the loops that became their values."""
        merged: set[int] = set()
        for name in self.blocks.declared:
            declaration, span = name.declaration, name.variable.name_span
            assert declaration is not None and span is not None
            if name.value is not None:
                raise Unclear(f"{name.text} has a list of values")
            each = self._setting(name, declaration)
            if each is None:
                end = declaration.span.end - 1
                self._only(span.end, end, "[]" + self.text[span.end : end])
                self.found.append(TextEdit(span.end, end, ""))
                continue
            statement = each.statements[0]
            value = strip(statement.named[0]).get("right")
            assert value is not None
            merged.add(id(each.node))
            self.counted.update(id(n) for n in self.site.uses(name, statement))
            self.found.append(TextEdit(span.end, value.span.start, " = "))
            if statement.span.end < each.node.span.end:
                self._bare(statement.span.end, each.node.span.end)
                self.found.append(TextEdit(statement.span.end, each.node.span.end, ""))
        return merged

    def _only(self, start: int, end: int, text: str) -> None:
        if "/" in text or self.text[end] != ";":
            raise Unclear("a comment stands in the loop")

    def _setting(self, name: Name, declaration: Syntax) -> Lanes | None:
        """The loop right behind a declaration that sets the lanes."""
        after = next((x for x in self.blocks.lanes if x.node.span.start > declaration.span.end), None)
        if after is None or self.text[declaration.span.end : after.node.span.start].strip():
            return None
        statement = after.statements[0]
        node = strip(statement.named[0]) if statement.type == "expression_statement" and statement.named else None
        if node is None or node.type != "assignment_expression" or self.site.scope.operator(node) != "=":
            return None
        left, right = node.get("left"), node.get("right")
        if left is None or right is None or strip(statement.named[0]) is not statement.named[0]:
            return None
        uses = [lane_of(self.site, n, after.lane) for n in self.site.uses(after.lane, left)]
        own = len(uses) == 1 and uses[0] is not None and uses[0] == (left, name)
        between = self.text[after.loop.header.end : statement.span.start] + self.text[left.span.end : right.span.start]
        return after if own and not self.site.uses(name, right) and not between.strip(" \t\n{=") else None

    # lanes

    def _lanes(self, each: Lanes) -> None:
        """`x[j + lane]` as `x[j]`, and `t[lane]` as `t`."""
        done = [Span(e.start, e.end) for e in self.found if e.end > e.start]
        for statement in each.statements:
            for node in self.site.uses(each.lane, statement):
                if not any(s.contains(node.span) for s in done):
                    self.found.append(self._lane(node, each.lane))

    def _lane(self, node: Syntax, lane: Name) -> TextEdit:
        element = lane_of(self.site, node, lane)
        if element is not None and element[1] in self.scalars:
            inner = element[0].get("argument")
            self.counted.add(id(strip(inner)) if inner is not None else 0)
            return TextEdit.replace(element[0].span, self.scalars[element[1]])
        above = node.parent
        moves = f"an index does not move with {self.counter.text} alone"
        if above is None or above.type != "binary_expression" or self.site.scope.operator(above) != "+":
            raise Unclear(moves)
        left, right = above.get("left"), above.get("right")
        other = right if left is node else left
        if other is None:
            raise Unclear(moves)
        uses = self.site.uses(self.counter, other)
        if len(uses) != 1:
            raise Unclear(moves)
        if strip(other) is uses[0]:
            self.counted.add(id(uses[0]))
            if summed_index(self.site, above) is above:
                return self._without(above, other)
            around = above.parent
            whole = around if around is not None and around.type == "parenthesized_expression" else above
            return TextEdit.replace(whole.span, self.counter.text)
        index = summed_index(self.site, uses[0])
        if index is not above or len(self.site.uses(lane, other)) > 0:
            raise Unclear(moves)
        self.counted.add(id(uses[0]))
        return self._without(above, other)

    def _without(self, total: Syntax, kept: Syntax) -> TextEdit:
        if kept.span.start == total.span.start:
            return TextEdit(kept.span.end, total.span.end, "")
        return TextEdit(total.span.start, kept.span.start, "")


def _blanks(text: str) -> int:
    """How much white space a text starts with."""
    return len(text) - len(text.lstrip())
