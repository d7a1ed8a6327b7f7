"""What the names of one function mean, in one of its launches at one case: values, addresses, counters of loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from experts.case import Case
from experts.expressions import Expression
from experts.kernel import Kernel, Launch
from experts.source import Assignment, Expr, Function, Loop, Macro, SourceView, Span, Variable

from . import reader
from .enumerators import enumerators
from .history import before
from .inline import Inlined, returned
from .manifest import value_of
from .parts import Address, Integer, Part
from .scopes import Scopes
from .sets import number_at
from .types import Element, counts, element, is_unsigned
from .values import Unclear, Value, cdiv, counter, not_negative, number, operation, symbol

_CUDA_IDS = {"threadIdx": "local_id", "blockIdx": "group_id", "blockDim": "local_size", "gridDim": "num_groups"}
_MAX_READS = 50_000
_AXES = {"x": 0, "y": 1, "z": 2}
_WORK_ITEM = re.compile(r"get_(global_id|local_id|group_id|global_size|local_size|num_groups|global_offset|work_dim)")


@dataclass(frozen=True)
class Range:
    """How a loop counts: its variable is `start + step * counter`."""

    start: Value
    step: Value
    counter: Value
    """0 where there is one iteration only."""
    trips: Value
    extent: Value
    """From start to bound, in steps of 1; below zero where the loop does not run."""


class Frame:
    """Reads expressions, addresses and loops of `function`. Every read raises Unclear for what is not understood."""

    label = ""

    def __init__(
        self,
        kernel: Kernel,
        view: SourceView,
        function: Function,
        launch: Launch | None,
        case: Case,
        scopes: Scopes | None = None,
    ) -> None:
        self.kernel = kernel
        self.view = view
        self.function = function
        self.launch = launch
        """None: what a launch decides is unknown, as in functions that are no kernels."""
        self.case = case
        self.scopes = scopes if scopes is not None else Scopes(view, function)
        scalars = {s.name: s.value for s in case.workload.scalars if isinstance(s.value, int)}
        self.symbols: dict[str, int] = {**case.dims, **scalars, **kernel.manifest.const}
        """The numbers that symbols have at this case."""
        self.positive = frozenset(name for name, value in self.symbols.items() if value >= 1) | {"SMS", "WARP"}
        self.addresses: dict[Span, Address | Unclear] = {}
        """Kept by `address_of`, by the span of the access."""
        self._ranges: dict[Span, Range | Unclear] = {}
        self._initial: dict[Span, Part | Unclear] = {}
        self._reads = 0
        if view.occurrences("goto", function.body):
            raise Unclear("a jump")

    def value(self, expr: Expr) -> Value:
        """The whole number that an expression stands for."""
        return reader.integer(reader.read(expr.text, expr.span.start, self)).value

    def part(self, expr: Expr) -> Part:
        """What an expression stands for."""
        return reader.read(expr.text, expr.span.start, self)

    def loop(self, loop: Loop) -> Range:
        """How a loop counts."""
        known = self._ranges.get(loop.span)
        if known is None:
            self._ranges[loop.span] = Unclear("a loop that depends on itself")
            try:
                known = self._range(loop)
            except Unclear as reason:
                known = reason
            self._ranges[loop.span] = known
        if isinstance(known, Unclear):
            raise Unclear(*known.args)
        return known

    def _range(self, loop: Loop) -> Range:
        header = loop.induction
        if header is None or self.view.is_opaque(loop.header):
            raise Unclear("a loop that does not count")
        kind = header.type
        if kind is None:
            outer = self.scopes.visible(header.name, loop.header.start)
            kind = outer.base_type if outer is not None and not outer.pointer_depth and not outer.dims else ""
        kind = self.type_name(kind)
        if not counts(kind):
            raise Unclear(f"a loop variable of type {kind or 'unknown'}")
        ends = [reader.integer(self.part(end)) for end in (header.start, header.bound)]
        if is_unsigned(kind) or ends[1].unsigned:
            ends = [Integer(end.value, True) for end in ends]
        start, bound = self._compared(ends)
        step = reader.integer(reader.read(header.step, header.step_span.start, self)).value
        by = number_at(step, self.symbols)
        down = by < 0
        if (header.comparison in ("<", "<=") and by <= 0) or (header.comparison in (">", ">=") and by >= 0):
            raise Unclear("a loop that runs away from its bound")
        if header.comparison == "!=" and abs(by) != 1:
            raise Unclear("a loop that may step over its bound")
        if is_unsigned(kind) and down and (header.comparison == ">=" or by != -1):
            raise Unclear("a loop that may count below zero")
        extent = start - bound if down else bound - start
        if header.comparison in ("<=", ">="):
            extent += number(1)
        trips = cdiv(extent, -step if down else step)
        return Range(start, step, counter(self._key(loop), trips), trips, extent)

    def _key(self, loop: Loop) -> str:
        return f"{loop.anchor} {self._launched}"

    @cached_property
    def _launched(self) -> int:
        return self.kernel.manifest.launch.index(self.launch) if self.launch is not None else -1

    def groups(self, axis: int) -> Value:
        """The number of work-groups along an axis."""
        if self.launch is None:
            raise Unclear("it depends on the launch")
        return self._axis(self.launch.grid, axis)

    def group_size(self, axis: int) -> Value:
        """The number of work-items of a group along an axis."""
        if self.launch is None:
            raise Unclear("it depends on the launch")
        return self._axis(self.launch.block, axis)

    def _count(self) -> None:
        self._reads += 1
        if self._reads > _MAX_READS:
            raise Unclear("names that stand for too much")

    def _axis(self, sizes: Sequence[Expression], axis: int) -> Value:
        return value_of(sizes[axis], {*self.symbols, "SMS", "WARP"}) if axis < len(sizes) else number(1)

    def macro(self, name: str) -> tuple[tuple[str, ...] | None, str] | None:
        """See Names."""
        found = self._macros.get(name, ())
        if not found:
            return None
        if len(found) > 1 or found[0].conditional or name in self.kernel.manifest.const:
            raise Unclear(f"{name} is defined more than once, or under a condition")
        return found[0].parameters, found[0].body.text

    @cached_property
    def _macros(self) -> dict[str, list[Macro]]:
        named: dict[str, list[Macro]] = {}
        for macro in self.view.macros:
            named.setdefault(macro.name, []).append(macro)
        return named

    def name(self, name: str, at: int, depth: int) -> Part:
        """See Names."""
        self._count()
        variable = self.scopes.visible(name, at)
        if variable is not None:
            return self._variable(variable, at, depth)
        outside = [v for v in self.view.variables if v.name == name]
        if outside:
            if len(outside) > 1:
                raise Unclear(f"{name} is declared more than once")
            return self._outside(outside[0], depth)
        if name in self._enumerators:
            text, where = self._enumerators[name]
            return reader.read(text, where, self, depth)
        if name in self.kernel.manifest.const:
            return Integer(symbol(name))
        raise Unclear(f"{name} is not known")

    def _outside(self, variable: Variable, depth: int) -> Part:
        kind = element(self.type_name(variable.base_type))
        if variable.pointer_depth or kind is None:
            raise Unclear(f"{variable.name} is not understood")
        if variable.dims:
            return self._array(variable, kind, depth)
        fixed = variable.const or variable.address_space == "constant"
        if not fixed or variable.initializer is None:
            raise Unclear(f"{variable.name} may change")
        return self._typed(
            variable, reader.read(variable.initializer.text, variable.initializer.span.start, self, depth)
        )

    def _variable(self, variable: Variable, at: int, depth: int) -> Part:
        if variable.is_reference:
            raise Unclear(f"{variable.name} is a reference")
        if variable.dims:
            kind = element(self.type_name(variable.base_type))
            if kind is None or variable.pointer_depth:
                raise Unclear(f"an array of {variable.type}")
            return self._array(variable, kind, depth)
        place = Span(at, at)
        if any(loop.header.contains(place) and self._counts(loop, variable) for loop in self.scopes.loops):
            raise Unclear(f"{variable.name} in the header of its loop")
        for loop in reversed(self.scopes.loops_around(place)):
            if self._counts(loop, variable):
                changes = self.scopes.changes(variable)
                if any(c.operator == "&" or (loop.body.contains(c.span)) for c in changes):
                    raise Unclear(f"{variable.name} is changed in its loop")
                counted = self.loop(loop)
                return Integer(
                    counted.start + counted.step * counted.counter, is_unsigned(self.type_name(variable.base_type))
                )
        changes = self.scopes.changes(variable)
        if not changes:
            return self._start(variable, variable.initializer, depth)
        return self._changed(variable, changes, at, depth)

    def _counts(self, loop: Loop, variable: Variable) -> bool:
        """Whether it is the variable of a loop."""
        if loop.induction is None or loop.induction.name != variable.name:
            return False
        return self.scopes.visible(loop.induction.name, loop.header.end) is variable

    def _is_parameter(self, variable: Variable) -> bool:
        return any(p is variable for p in self.function.parameters)

    def _start(self, variable: Variable, initializer: Expr | None, depth: int) -> Part:
        """What a variable is declared as."""
        if self._is_parameter(variable):
            return self._parameter(variable)
        if initializer is None:
            raise Unclear(f"{variable.name} has no value that is known")
        known = self._initial.get(initializer.span)
        if known is None:
            try:
                known = self._typed(variable, reader.read(initializer.text, initializer.span.start, self, depth))
            except Unclear as reason:
                known = reason
            self._initial[initializer.span] = known
        if isinstance(known, Unclear):
            raise Unclear(*known.args)
        return known

    def _typed(self, variable: Variable, part: Part) -> Part:
        """A part as the type of the variable that holds it."""
        kind = self.type_name(variable.base_type)
        if variable.pointer_depth:
            held = element(kind)
            if variable.pointer_depth > 1 or held is None or not isinstance(part, Address):
                raise Unclear(f"{variable.name} is not understood")
            if part.dims or part.element.scalar_bytes != held.scalar_bytes:
                raise Unclear(f"{variable.name} points to another type than it is given")
            return part.seen_as(held)
        if not counts(kind):
            raise Unclear(f"{variable.name} is of type {kind}")
        return Integer(reader.integer(part).value, is_unsigned(kind))

    def _parameter(self, variable: Variable) -> Part:
        index = next(i for i, p in enumerate(self.function.parameters) if p is variable)
        if self.launch is None or index >= len(self.launch.args) or not self.function.is_entry:
            raise Unclear(f"{variable.name} is a parameter")
        given = self.launch.args[index]
        if variable.pointer_depth:
            kind = element(self.type_name(variable.base_type))
            named = {t.name for t in self.case.tensors} | set(self.kernel.manifest.workspace)
            if variable.pointer_depth > 1 or kind is None or given not in named:
                raise Unclear(f"{variable.name} is not understood")
            space = "constant" if variable.address_space == "constant" else "global"
            return Address(given, space, number(0), kind)  # type: ignore[arg-type]
        kind_name = self.type_name(variable.base_type)
        if given not in self.symbols or given in self.kernel.manifest.const or not counts(kind_name):
            raise Unclear(f"{variable.name} is a parameter")
        return Integer(symbol(given), is_unsigned(kind_name))

    def _array(self, variable: Variable, kind: Element, depth: int) -> Part:
        if variable.address_space not in ("global", "constant", "local", "private"):
            raise Unclear(f"the memory of {variable.name} is not known")
        dims = tuple(self._size(d, depth) for d in variable.dims[1:])
        return Address(str(variable.anchor), variable.address_space, number(0), kind, dims)

    def _size(self, dim: Expr | None, depth: int) -> Value:
        if dim is None:
            raise Unclear("an array of unknown size")
        return reader.integer(reader.read(dim.text, dim.span.start, self, depth)).value

    def _changed(self, variable: Variable, changes: Sequence[Assignment], at: int, depth: int) -> Part:
        """A variable that changes, at a place: where each change ran once before, or once in each iteration."""
        history = before(self.scopes, variable, changes, at)
        initializer = variable.initializer if history.start is None else history.start.value
        part = self._start(variable, initializer, depth)
        for move in history.once:
            part = _moved(part, self._step(move, depth))
        if history.repeated is None:
            return part
        loop, move = history.repeated
        counted = self.loop(loop)
        step = self._step(move, depth)
        if step.counters & counted.counter.counters:
            raise Unclear(f"{variable.name} moves on by another step each time")
        passed = counted.counter + number(1 if at >= move.span.end else 0)
        return _moved(part, step * passed)

    def _step(self, change: Assignment, depth: int) -> Value:
        if change.value is None:
            return number(1 if change.operator == "++" else -1)
        step = reader.integer(reader.read(change.value.text, change.value.span.start, self, depth)).value
        return step if change.operator == "+=" else -step

    def call(self, name: str, arguments: Sequence[Part], depth: int) -> Part:
        """See Names."""
        self._count()
        own = [f for f in self.view.functions if f.name == name]
        if own:
            return self._inlined(own, arguments, depth)
        whole = [reader.integer(a) for a in arguments]
        values = [a.value for a in whole]
        work_item = _WORK_ITEM.fullmatch(name)
        if work_item is not None and self.kernel.surface == "opencl" and len(values) <= 1:
            axis = values[0].number if values else 0
            if axis is None or not 0 <= axis < 3:
                raise Unclear("an axis that is not known")
            return Integer(self._work_item(work_item[1], axis), True)
        unsigned = any(a.unsigned for a in whole)
        if name in ("min", "max") and len(values) == 2:
            return Integer(operation(name, *self._compared(whole)), unsigned)  # type: ignore[arg-type]
        if name == "clamp" and len(values) == 3:
            value, low, high = self._compared(whole)
            return Integer(operation("min", operation("max", value, low), high), unsigned)
        if name == "mul24" and len(values) == 2:
            return Integer(values[0] * values[1], unsigned)
        if name == "mad24" and len(values) == 3:
            return Integer(values[0] * values[1] + values[2], unsigned)
        raise Unclear(f"a call of {name}")

    def _compared(self, whole: Sequence[Integer]) -> list[Value]:
        unsigned = any(a.unsigned for a in whole)
        return [
            a.value if not unsigned or not_negative(a.value, self.positive) else Integer(a.value, True).checked
            for a in whole
        ]

    def _work_item(self, what: str, axis: int) -> Value:
        if what == "global_offset":
            return number(0)
        if what == "work_dim":
            raise Unclear("the number of axes")
        if what == "global_size":
            return self.groups(axis) * self.group_size(axis)
        if what == "global_id":
            return self._work_item("group_id", axis) * self.group_size(axis) + self._work_item("local_id", axis)
        if what in ("num_groups", "local_size"):
            return self.groups(axis) if what == "num_groups" else self.group_size(axis)
        trips = self.groups(axis) if what == "group_id" else self.group_size(axis)
        return counter(f"{what} {axis} {self._launched}", trips)

    def member(self, name: str, member: str) -> Part:
        """See Names."""
        if (
            self.kernel.surface == "cuda"
            and name in _CUDA_IDS
            and member in _AXES
            and not self.scopes.is_declared(name)
        ):
            return Integer(self._work_item(_CUDA_IDS[name], _AXES[member]), True)
        raise Unclear(f"{name}.{member}")

    def _inlined(self, own: Sequence[Function], arguments: Sequence[Part], depth: int) -> Part:
        body = returned(self.view, own[0]) if len(own) == 1 else None
        parameters = own[0].parameters
        if body is None or len(parameters) != len(arguments) or not counts(self.type_name(own[0].return_type)):
            raise Unclear(f"a call of {own[0].name}")
        known: dict[str, Part] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if parameter.name is None or parameter.pointer_depth or not counts(self.type_name(parameter.base_type)):
                raise Unclear(f"a call of {own[0].name}")
            known[parameter.name] = Integer(
                reader.integer(argument).value, is_unsigned(self.type_name(parameter.base_type))
            )
        result = reader.integer(reader.read(body.text, body.span.start, Inlined(self, known), depth))
        return Integer(result.value, is_unsigned(self.type_name(own[0].return_type)))

    def type_name(self, name: str) -> str:
        """A type with macros replaced."""
        words = name.split()
        for index, word in enumerate(words):
            if word in self._macros:
                macro = self.macro(word)
                if macro is None or macro[0] is not None:
                    raise Unclear(f"the type {name}")
                words[index] = macro[1].strip()
        return " ".join(words).removeprefix("const ").strip()

    @cached_property
    def _enumerators(self) -> Mapping[str, tuple[str, int]]:
        """Names of enumerations: what each is, as text, and where it stands."""
        return enumerators(self.view.text)


def _moved(part: Part, step: Value) -> Part:
    if isinstance(part, Address):
        return part.moved(step)
    whole = reader.integer(part)
    return Integer(whole.value + step, whole.unsigned)
