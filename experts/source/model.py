"""What a view of a kernel consists of. All values are frozen; spans are character offsets into its text.

Nodes (everything with an `anchor`) are also what anchors resolve to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .anchors import Anchor
from .edits import Span

AddressSpace = Literal[
    "global",  # device memory
    "local",  # shared by a work-group (CUDA: __shared__)
    "constant",
    "private",  # of one work-item: registers, stack
    "generic",  # of a pointer: the text does not say
]
QualifierKind = Literal[
    "address_space",
    "access",  # read_only, write_only, read_write; __grid_constant__
    "kernel",  # __kernel, __global__
    "function",  # inlining, __host__
    "const",
    "volatile",
    "restrict",
]
Mode = Literal[
    "read",
    "write",
    "read_write",  # +=, ++
    "address",  # its address is taken, or a reference bound to it: anything may happen to it elsewhere
]
AccessForm = Literal["subscript", "pointer", "vload", "vstore"]  # A[i]; *(A + i); vload4(i, A); vstore4(v, i, A)
MacroShape = Literal[
    "empty",
    "value",  # a number, a name, a type, arithmetic on them: a use hides no access, call or statement
    "code",  # anything else: uses are opaque
]
OpaqueReason = Literal[
    "syntax",  # the parser gave up, or had to invent a token
    "macro",  # a use of a macro that is more than a value
    "conditional",  # code under #if, of which only one branch may stand
    "assembly",
    "pointer",  # a read or write whose base could not be told
    "lambda",
    "cast",  # `(T) - x` with an unknown T: a cast or a subtraction
    "declarator",  # a pointer to a function or to an array, a structured binding
    "name",  # something without a name that an anchor could hold
]


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression as it is written."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One qualifier. Deleting `removal` leaves well-formed text."""

    kind: QualifierKind
    text: str
    space: AddressSpace | None
    """Set for kind address_space only."""
    on_pointer: bool
    """It stands behind a `*`: it qualifies the pointer, not what is pointed to."""
    span: Span
    removal: Span


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute: `reqd_work_group_size`, `__launch_bounds__`, ...; GNU names without outer underscores."""

    name: str
    arguments: str | None
    """The text between its parentheses; None without parentheses."""
    span: Span
    removal: Span
    """Deletes the whole `__attribute__((...))` where it holds nothing else."""
    anchor: Anchor | None = None
    """Set for attributes of functions."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A pragma or an attribute attached to a loop."""

    kind: Literal["pragma", "attribute"]
    name: str
    """`unroll`, `nounroll`, `opencl_unroll_hint`, `ivdep`; the vendor word (clang loop, GCC) is skipped."""
    argument: str | None
    """`4` of `unroll 4` and of `opencl_unroll_hint(4)`; None without one."""
    span: Span
    removal: Span
    anchor: Anchor


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable, array or parameter."""

    anchor: Anchor
    name: str | None
    """None for an unnamed parameter."""
    base_type: str
    """Without qualifiers, stars and storage class, in one spelling: `float4`, `unsigned int`."""
    pointer_depth: int
    dims: tuple[Expr | None, ...]
    """The array dimensions, outermost first; None for `[]`."""
    address_space: AddressSpace
    """Of an array's elements; else of what a pointer points to; else of the variable."""
    is_reference: bool
    qualifiers: tuple[Qualifier, ...]
    attributes: tuple[Attribute, ...]
    storage: tuple[str, ...]
    """static, extern, constexpr, ..."""
    initializer: Expr | None
    span: Span
    """The declaration: its qualifiers and `;` included; of a parameter, what stands between the commas."""
    type_span: Span
    name_span: Span | None
    declarator: Span
    """Stars, name, dimensions, initializer."""
    alone: bool
    """Nothing else is declared by the same declaration."""

    @property
    def type(self) -> str:
        """The type of the variable, or of an array's elements: `float *`."""
        return self.base_type + (" " + "*" * self.pointer_depth if self.pointer_depth else "")

    @property
    def is_array(self) -> bool:
        """Whether it has dimensions."""
        return bool(self.dims)

    @property
    def is_pointer(self) -> bool:
        """Whether it holds an address: a pointer, and no array of them."""
        return self.pointer_depth > 0 and not self.dims

    @property
    def const(self) -> bool:
        """Whether what it holds or points to is const."""
        return any(q.kind == "const" and not q.on_pointer for q in self.qualifiers)

    @property
    def restrict(self) -> bool:
        """Whether it is a restrict pointer."""
        return any(q.kind == "restrict" for q in self.qualifiers)


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of memory through an index or a pointer.

    The element is `base[origin...]`, seen as `cast`, then `[indices...]`:
    `A[i]`: indices (i); `*(A + i)`: indices (i); `(A + i)[j]`: origin (i), indices (j); `*(float4 *)(A + i)`:
    origin (i), cast `float4 *`, no index; `vload4(k, A + i)`: origin (i), indices (k), width 4.
    Without a cast, origin and indices of one dimension add up; `*p` has neither.

    The origin may have several indices, outermost first: `*(float4 *)&t[i][j]`: origin (i, j), cast `float4 *`;
    `(t[i] + j)[k]`: origin (i, j), indices (k), which is `t[i][j + k]`. The index of a vload or vstore counts whole
    vectors of `width` elements of the last dimension: `vload4(k, &t[i][j])` and `vload4(k, t[i] + j)`: origin (i, j),
    indices (k), lane by lane `t[i][j + k * 4 + lane]`. Where the origin has one index less than its base can take,
    it starts at 0 of the last dimension: `vload4(k, t[i])`: origin (i), lane by lane `t[i][k * 4 + lane]`.
    """

    anchor: Anchor
    form: AccessForm
    mode: Mode
    base: str
    """The identifier at the root."""
    base_span: Span
    members: tuple[str, ...]
    """Members between root and index: `p->rows[i]` has base p, members (rows)."""
    origin: tuple[Expr, ...]
    cast: str | None
    indices: tuple[Expr, ...]
    component: str | None
    """The part that is read or written, if not all: `A[i].x`, `acc[r].s01`, `T[i].rows`."""
    width: int | None
    """Elements of a vload or vstore (1 for vload_half); None otherwise: the type of base or cast tells."""
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """A call. Casts and vector literals are none."""

    anchor: Anchor
    callee: str
    """Without template arguments: `mad`, `std::max`, `pipe.wait`."""
    callee_span: Span
    arguments: tuple[Expr, ...]
    statement: Span | None
    """The statement, if it consists of this call alone."""
    span: Span


@dataclass(frozen=True, slots=True)
class Assignment:
    """A change of a plain variable (not of memory behind an index)."""

    anchor: Anchor
    name: str
    component: str | None
    """`x` of `v.x = 0`."""
    operator: str
    """`=`, `+=`, ..., `++`, `--`; `&` where its address is taken, so that it may change elsewhere."""
    value: Expr | None
    statement: Span | None
    """The statement, if it consists of this assignment alone."""
    span: Span


@dataclass(frozen=True, slots=True)
class VectorLiteral:
    """OpenCL's `(float4)(a, b, c, d)`, and a cast `(float4)(x)`, which is written the same way."""

    anchor: Anchor
    type: str
    arguments: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Induction:
    """The header `for (T i = start; i < bound; i += step)`, with an `i` that nothing else in it changes.

    Whether bound and step stay the same during the loop is not checked.
    """

    name: str
    type: str | None
    """None where the variable is declared before the loop."""
    start: Expr
    comparison: Literal["<", "<=", ">", ">=", "!="]
    bound: Expr
    step: str
    """What is added each time, signed: `1`, `BK`, `-1`, `-(s)`."""
    step_span: Span


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop and the loops inside it."""

    anchor: Anchor
    kind: Literal["for", "while", "do", "range"]
    span: Span
    """From its keyword to the end of its body; hints before it are outside."""
    header: Span
    """`for (...)`, `while (...)`; the keyword of a `do`."""
    body: Span
    init: Expr | None
    condition: Expr | None
    update: Expr | None
    induction: Induction | None
    """None where the header is not of that form."""
    hints: tuple[Hint, ...]
    exits: tuple[str, ...]
    """What leaves or shortens an iteration: break, continue, return, goto."""
    children: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a body. The tuples hold what is anywhere inside, in source order; `loops` the outer."""

    anchor: Anchor
    name: str
    is_entry: bool
    """`__kernel`, `__global__`."""
    return_type: str
    span: Span
    """From its first qualifier."""
    body: Span
    parameters: tuple[Variable, ...]
    parameter_list: Span
    """With its parentheses."""
    qualifiers: tuple[Qualifier, ...]
    attributes: tuple[Attribute, ...]
    loops: tuple[Loop, ...]
    variables: tuple[Variable, ...]
    accesses: tuple[Access, ...]
    calls: tuple[Call, ...]
    assignments: tuple[Assignment, ...]
    literals: tuple[VectorLiteral, ...]

    @property
    def arrays(self) -> tuple[Variable, ...]:
        """The arrays declared inside, of any address space."""
        return tuple(v for v in self.variables if v.is_array)

    def walk_loops(self) -> Iterator[Loop]:
        """All loops in source order."""
        todo = list(reversed(self.loops))
        while todo:
            loop = todo.pop()
            yield loop
            todo.extend(reversed(loop.children))

    def parameter(self, name: str) -> Variable | None:
        """The parameter of that name."""
        return next((p for p in self.parameters if p.name == name), None)


@dataclass(frozen=True, slots=True)
class Macro:
    """A `#define`."""

    anchor: Anchor
    name: str
    parameters: tuple[str, ...] | None
    """None for an object-like macro."""
    body: Expr
    shape: MacroShape
    conditional: bool
    """It stands under an #if."""
    span: Span


@dataclass(frozen=True, slots=True)
class MacroUse:
    """A use of a macro in code (uses inside preprocessor lines are not listed)."""

    name: str
    arguments: tuple[Expr, ...] | None
    """None for an object-like macro."""
    opaque: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Opaque:
    """Text that is not understood; a rule declines there."""

    span: Span
    reason: OpaqueReason


Node = Function | Loop | Variable | Attribute | Hint | Access | Call | Assignment | VectorLiteral | Macro
