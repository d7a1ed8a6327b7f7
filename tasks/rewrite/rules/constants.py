"""`shrink-constant`: a tunable of `[const]` at the smallest value that the manifest allows; one place a constant.

Tried are 1, 2, 3, ... up to the value before the current one (beyond 1,024 only powers of two), and the first is taken
with which every expression of the manifest that needs no more than `[const]` keeps its promise: each `[require]`
holds, each grid, block and workspace dimension is positive. What the code itself needs of a constant (a factor of a
vector's width, say) is not understood here: the gate finds out. A constant that is only ever added is padding, and
goes down to 0; where it stands in nothing but dimensions that end in `+ NAME`, and the rule `pad-array` can take it
out of all of these arrays, it is left to that rule.

Growing doubles the value, again and again until the manifest allows it.

Parameters: `value`, the new one; `text`, where it is not spelled as a plain number.
"""

from __future__ import annotations

from collections.abc import Iterator

from experts.expressions import ExpressionError
from experts.kernel import Kernel
from experts.source import FILE, Anchor, StepKind
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar
from tasks.rewrite.manifest import constant, with_constant
from tasks.rewrite.roles import Roles, roles
from tasks.rewrite.rules.found import Found, anchor_of, int_param, inverse, needed, opencl, require, text_param
from tasks.rewrite.rules.padding import takes_out

_EACH_UP_TO = 1024
_GROWN_UP_TO = 4096


class ShrinkConstant:
    """See the module's docstring."""

    name = "shrink-constant"

    def removable(self, kernel: Kernel) -> Places:
        """Every constant that could be smaller."""
        found, view = Found(self.name), opencl(kernel)
        for name, value in kernel.manifest.const.items() if view is not None else ():
            assert view is not None
            role = roles(kernel, view, name)
            fault = _fault(kernel, name, role)
            low = 0 if role.padding else 1
            if fault is None and value <= low:
                continue  # there is nothing to take out
            smallest = _first(kernel, name, _smaller(low, value)) if fault is None else None
            if fault is None and smallest is None:
                fault = "the manifest allows no smaller value"
            if fault is not None or smallest is None:
                found.decline(intent_of(role), _place(name), fault or "")
            else:
                found.edit("remove", intent_of(role), _place(name), {"value": smallest})
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every constant that could be larger."""
        found, view = Found(self.name), opencl(kernel)
        for name, value in kernel.manifest.const.items() if view is not None else ():
            assert view is not None
            role = roles(kernel, view, name)
            fault = _fault(kernel, name, role)
            if fault is None and value < (0 if role.padding else 1):
                fault = "it is not positive"
            larger = _first(kernel, name, _larger(value)) if fault is None else None
            if fault is None and larger is None:
                fault = "the manifest allows no larger value"
            if fault is not None or larger is None:
                found.decline(intent_of(role), _place(name), fault or "")
            else:
                found.edit("add", intent_of(role), _place(name), {"value": larger})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        needed(kernel)
        place = anchor_of(edit)
        name = place.steps[-1].label if place.root == FILE and place.steps else ""
        was, value = kernel.manifest.const.get(name), int_param(edit, "value")
        standing = constant(kernel, name)
        if was is None or standing is None:
            raise NotApplicable("there is no such constant")
        require(value < was if edit.action == "remove" else value > was, f"{name} is {was} already")
        text = text_param(edit, "text", str(value))
        back: dict[str, Scalar] = {"value": was}
        if standing.text != str(was):
            back["text"] = standing.text
        return with_constant(kernel, name, value, text), inverse(edit, back)


def intent_of(role: Roles) -> str:
    """What the optimization is that gave a constant its value."""
    if role.padding:
        return "pad-array"
    if role.private_dims:
        return "tile-registers"
    if role.loop_step or role.local_dims or role.loop_bound:
        return "block-loop"
    if role.hint_argument:
        return "unroll-loop"
    if role.grid and not role.block:
        return "coarsen-work"
    return "tune-constant"


def _place(name: str) -> Anchor:
    return Anchor(FILE).child(StepKind.CONST, name)


def _fault(kernel: Kernel, name: str, role: Roles) -> str | None:
    if not role.in_code and not role.in_manifest:
        return "nothing uses it"
    if role.only_dims and takes_out(kernel, name):
        return "it pads arrays, which is for the rule pad-array"
    if constant(kernel, name) is None:
        return "where its value stands is not certain"
    return None


def _smaller(low: int, value: int) -> Iterator[int]:
    yield from range(low, min(value, _EACH_UP_TO + 1))
    power = 2 * _EACH_UP_TO
    while power < value:
        yield power
        power *= 2


def _larger(value: int) -> Iterator[int]:
    value = max(2 * value, 1)
    while value <= _GROWN_UP_TO:
        yield value
        value *= 2


def _first(kernel: Kernel, name: str, values: Iterator[int]) -> int | None:
    return next((value for value in values if _allowed(kernel, {**kernel.manifest.const, name: value})), None)


def _allowed(kernel: Kernel, const: dict[str, int]) -> bool:
    """Whether what the manifest says of constants alone still holds."""
    manifest, known = kernel.manifest, const.keys()
    positive = [dim for space in manifest.workspace.values() for dim in space.shape]
    positive += [axis for launch in manifest.launch for axis in (*launch.grid, *launch.block)]
    try:
        holds = all(e.holds(const) for e in manifest.require.values() if e.names <= known)
        return holds and all(e.evaluate(const) > 0 for e in positive if e.names <= known)
    except ExpressionError:
        return False
