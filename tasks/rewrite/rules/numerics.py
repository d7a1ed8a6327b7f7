"""Rules about arithmetic: the same values by other operations, within the case's error bound, which the gate judges.

A place is a function and a name that it calls, `gemm/call[native_exp]#0`: one edit takes all its calls, those in loops
too. A single call would be numbered anew whenever another edit takes one before it; this place stays the same.

`native-function`: `native_exp(x)` -> `exp(x)`, `half_exp(x)` -> `exp(x)`, `native_recip(x)` -> `1.0f / x`,
`native_divide(a, b)` -> `a / b`. Put in for arguments that are known to be float.
`fuse-call`: `mad(a, b, c)`, `fma(a, b, c)` -> `a * b + c`, where the product is known not to be one of whole numbers;
put in where all three are known to be of one float type. `mad24`, `mad_hi` and `mad_sat` are for whole numbers only.

Parameters, of what is put in: `sites`, the numbers of the calls of the plain function, or of the expressions of that
form, in the function; `text:N`, the Nth call where it is not spelled plainly.
"""

from __future__ import annotations

from collections.abc import Iterator

from experts.kernel import Kernel
from experts.source import Anchor, Function, SourceView, StepKind, TextEdit
from experts.source.syntax import Syntax
from tasks.rewrite.calls import MULTIPLY_ADD, QUOTIENT, RECIPROCAL, Form, calls, closed, fault_of, opened, places
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar
from tasks.rewrite.inference import Types, is_float, is_floating
from tasks.rewrite.rules.found import Found, anchor_of, inverse, needed, opencl, require, text_param
from tasks.rewrite.text import rewritten

_PLAIN = ("cos", "exp", "exp2", "exp10", "log", "log2", "log10", "powr", "rsqrt", "sin", "sqrt", "tan")
RENAMED = {f"{kind}_{name}": name for kind in ("native", "half") for name in _PLAIN}
OPERATORS: dict[str, Form] = {
    "native_recip": RECIPROCAL,
    "half_recip": RECIPROCAL,
    "native_divide": QUOTIENT,
    "half_divide": QUOTIENT,
}
FUSED: dict[str, Form] = {"mad": MULTIPLY_ADD, "fma": MULTIPLY_ADD}


class _CallRule:
    """One place for each function and name."""

    name: str
    intent: str
    operators: dict[str, Form]
    renamed: dict[str, str]

    def removable(self, kernel: Kernel) -> Places:
        """Every function that calls such a name."""
        found, view = Found(self.name), opencl(kernel)
        for function, callee in self._names(view):
            assert view is not None
            if not calls(kernel, function, callee):
                continue
            try:
                self._removed(kernel, view, function, callee)
            except NotApplicable as error:
                found.decline(self.intent, _place(function, callee), str(error))
            else:
                found.edit("remove", self.intent, _place(function, callee))
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every function with arithmetic of that form, on operands that are known to be float."""
        found, view = Found(self.name), opencl(kernel)
        for function, callee in self._names(view):
            assert view is not None
            sites = self._sites(kernel, view, function, callee)
            if not sites:
                continue
            given: dict[str, Scalar] = {"sites": ",".join(map(str, sites))}
            try:
                self._added(kernel, view, function, callee, sites, ())
            except NotApplicable as error:
                found.decline(self.intent, _place(function, callee), str(error))
            else:
                found.edit("add", self.intent, _place(function, callee), given)
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        view, place = needed(kernel), anchor_of(edit)
        function = view.find(place.parent) if place.parent is not None else None
        callee = place.steps[-1].label if place.steps else ""
        if not isinstance(function, Function) or callee not in (*self.operators, *self.renamed):
            raise NotApplicable("there is no such function")
        if edit.action == "remove":
            removed, back = self._removed(kernel, view, function, callee)
            return removed, inverse(edit, back)
        numbers = text_param(edit, "sites").split(",")
        require(all(number.isdecimal() for number in numbers), "'sites' is no list of numbers")
        sites = [int(number) for number in numbers]
        count = sum(name.startswith("text:") for name, _ in edit.params)
        texts = tuple(text_param(edit, f"text:{number}") for number in range(count))
        return self._added(kernel, view, function, callee, sites, texts), inverse(edit)

    def _names(self, view: SourceView | None) -> Iterator[tuple[Function, str]]:
        for function in view.functions if view is not None else ():
            for callee in (*self.renamed, *self.operators):
                yield function, callee

    def _removed(
        self, kernel: Kernel, view: SourceView, function: Function, callee: str
    ) -> tuple[Kernel, dict[str, Scalar]]:
        self._check_names(view, function, callee)
        if callee in self.operators:
            form = self.operators[callee]
            self._check_types(kernel, view, function, callee, form)
            result = opened(kernel, function, callee, form)
            back: dict[str, Scalar] = {"sites": ",".join(map(str, result.sites))}
            back |= {f"text:{number}": text for number, text in enumerate(result.texts)}
            return result.kernel, back
        plain = self.renamed[callee]
        sites = calls(kernel, function, callee)
        require(sites, f"{callee} is not called")
        named = [c for c in function.calls if c.callee in (callee, plain)]
        for site in sites:
            fault = fault_of(kernel, view, site)
            require(fault is None, fault or "")
        changes = [TextEdit.replace(c.callee_span, plain) for c in named if c.callee == callee]
        spelled = all(change.end - change.start == len(callee) for change in changes)
        require(spelled, "a call is not spelled plainly")
        numbers = [str(number) for number, c in enumerate(named) if c.callee == callee]
        return rewritten(kernel, changes), {"sites": ",".join(numbers)}

    def _added(
        self,
        kernel: Kernel,
        view: SourceView,
        function: Function,
        callee: str,
        sites: list[int],
        texts: tuple[str, ...],
    ) -> Kernel:
        self._check_names(view, function, callee)
        # The way back takes all calls of the name: there must be no others.
        require(not calls(kernel, function, callee), f"{callee} is called already")
        if callee in self.operators:
            form = self.operators[callee]
            if texts:
                try:
                    added = closed(kernel, function, callee, form, sites, texts)
                    again = needed(added).find(function.anchor)
                    if isinstance(again, Function) and opened(added, again, callee, form).kernel.text == kernel.text:
                        return added
                except NotApplicable:
                    pass  # operands changed since: the calls are spelled anew
            return closed(kernel, function, callee, form, sites)
        plain = self.renamed[callee]
        named = [c for c in function.calls if c.callee == plain]
        require(all(0 <= site < len(named) for site in sites), "a call is gone")
        for site in sites:
            fault = view.why_opaque(named[site].span)
            require(fault is None, f"code that is not understood ({fault})")
            require(named[site].callee_span.of(kernel.text) == plain, "a call is not spelled plainly")
        return rewritten(kernel, [TextEdit.replace(named[site].callee_span, callee) for site in sites])

    def _sites(self, kernel: Kernel, view: SourceView, function: Function, callee: str) -> list[int]:
        """The places where the name may be put in: operands of one float type, all understood."""
        types = Types(kernel, view, function)
        if calls(kernel, function, callee):
            return []
        found: list[Syntax]
        parts: list[list[Syntax]]
        if callee in self.operators:
            form = self.operators[callee]
            found = places(kernel, function, form)
            parts = [form.parts(node, kernel.text) or [] for node in found]
        else:
            found = calls(kernel, function, self.renamed[callee])
            parts = [node.get("arguments").named for node in found]  # type: ignore[union-attr]
        sites = []
        for number, (node, operands) in enumerate(zip(found, parts, strict=True)):
            kinds = {types.of(operand) for operand in operands}
            kind = kinds.pop() if len(kinds) == 1 else None
            if is_float(kind) and fault_of(kernel, view, node) is None:
                sites.append(number)
        return sites

    def _check_names(self, view: SourceView, function: Function, callee: str) -> None:
        for name in filter(None, (callee, self.renamed.get(callee))):
            own = any(f.name == name for f in view.functions) or any(m.name == name for m in view.macros)
            own = own or any(v.name == name for v in (*view.variables, *function.parameters, *function.variables))
            require(not own, f"the kernel has a {name} of its own")

    def _check_types(self, kernel: Kernel, view: SourceView, function: Function, callee: str, form: Form) -> None:
        """That no product or quotient of whole numbers comes out, which the call would not have made."""
        types = Types(kernel, view, function)
        for site in calls(kernel, function, callee) if form.shape != "reciprocal" else ():
            arguments = site.get("arguments")
            operands = arguments.named[:2] if arguments is not None else []
            known = any(is_floating(types.of(operand)) for operand in operands)
            require(known, f"whether {callee} has floating-point operands is not known")


class NativeFunction(_CallRule):
    """See the module's docstring."""

    name = "native-function"
    intent = "approximate-function"
    operators = OPERATORS
    renamed = RENAMED


class FuseCall(_CallRule):
    """See the module's docstring."""

    name = "fuse-call"
    intent = "fuse-multiply-add"
    operators = FUSED
    renamed: dict[str, str] = {}  # noqa: RUF012


def _place(function: Function, callee: str) -> Anchor:
    return function.anchor.child(StepKind.CALL, callee)
