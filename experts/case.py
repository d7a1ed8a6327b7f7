"""A case: what a kernel of one workload computes at one set of dimensions and dtypes, and how its output is judged.

A workload is a folder with a `case.py` that assigns a `Workload` to the name `WORKLOAD`; that file is trusted code and
runs in the parent. The case, not the kernel, owns tensor names, shapes, dtypes, roles and scalar parameters. Tensors
are contiguous, last dimension fastest, and start at a multiple of 128 bytes. Inputs are finite.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

import ml_dtypes
import numpy as np

from experts.expressions import FUNCTION_NAMES, Expression, ExpressionError
from experts.ids import content_id
from experts.judge import Array, Expected, Judgement, largest_finite, within
from experts.kernel import Dtype, Surface

Role = Literal["in", "out", "inout"]
Dims = Mapping[str, int]
Arrays = dict[str, Array]

NUMPY_TYPES: dict[Dtype, np.dtype[np.generic]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8),
    "u64": np.dtype(np.uint64),
    "u32": np.dtype(np.uint32),
    "u16": np.dtype(np.uint16),
    "u8": np.dtype(np.uint8),
}
ITEM_BYTES: dict[Dtype, int] = {name: dtype.itemsize for name, dtype in NUMPY_TYPES.items()}


class CaseError(ValueError):
    """A case that does not exist, or a case.py that does not declare one; the message is one line."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a case. `shape` holds expressions over the dimensions."""

    name: str
    dtype: Dtype
    shape: tuple[str, ...]
    role: Role = "in"


@dataclass(frozen=True)
class Parameter:
    """One scalar of a case that is not a dimension, passed by value."""

    name: str
    dtype: Dtype
    value: int | float


@dataclass(frozen=True)
class Workload:
    """What a `case.py` declares. Callables get the bound Case, so that they know dimensions and dtypes."""

    name: str
    dimensions: tuple[str, ...]
    tensors: Mapping[str, tuple[Tensor, ...]]
    """By dtype name (`f32`): the part of a case's name after the last dash."""
    shapes: Mapping[str, Dims]
    """The named sizes: `512` in `gemm/512-f32`."""
    default: Mapping[Surface, str]
    """The case that the bare workload name means, by surface."""
    domain: tuple[str, ...]
    """The minimal domain, as expressions over the dimensions: a kernel must accept every shape where all hold."""
    family: tuple[Dims, ...]
    """Shapes beside the timed one that a kernel is checked at wherever its `[require]` lets it: tails, primes, 1."""
    sanitize: Dims
    """A tiny shape for the sanitizer, inside the minimal domain so that every kernel accepts it."""
    distributions: Mapping[str, Callable[[np.random.Generator, Case], Arrays]]
    """Inputs by name of a distribution; the first is the one that is timed. Values are finite."""
    reference: Callable[[Mapping[str, Array], Case], dict[str, Expected]]
    """The outputs in float64 (or exact), with tolerances."""
    one_below: Callable[[Mapping[str, Array], Case], Arrays]
    """The outputs at one precision below the legal one, in NumPy: must fail, at four times the bound or more."""
    honest: Callable[[Mapping[str, Array], Case], Arrays]
    """The outputs at the legal precision, in NumPy: must stay below an eighth of the bound."""
    operations: str
    """Mandatory arithmetic operations, as an expression."""
    scalars: tuple[Parameter, ...] = ()
    judge: Callable[[Mapping[str, Array], Mapping[str, Expected]], Judgement] = within
    bitwise: bool = False
    """Whether repeats on the same input must agree bit for bit."""


@dataclass(frozen=True)
class BoundTensor:
    """A tensor at a case's dimensions."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    role: Role

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Case:
    """A workload at given dimensions and dtypes."""

    workload: Workload
    shape_name: str
    dtype: str
    dims: Dims
    source: str = field(repr=False, compare=False)
    """The text of the case.py, which is part of the id."""

    @property
    def name(self) -> str:
        """`gemm/512-f32`."""
        return f"{self.workload.name}/{self.shape_name}-{self.dtype}"

    @cached_property
    def case_id(self) -> str:
        """Hash of the declaration and of the case.py's source."""
        return content_id(
            {
                "workload": self.workload.name,
                "dims": dict(self.dims),
                "dtype": self.dtype,
                "tensors": [[t.name, t.dtype, list(t.shape), t.role] for t in self.tensors],
                "scalars": [[s.name, s.dtype, s.value] for s in self.workload.scalars],
                "domain": list(self.workload.domain),
                "source": self.source,
            }
        )

    @cached_property
    def tensors(self) -> tuple[BoundTensor, ...]:
        """In the order of the declaration."""
        return tuple(
            BoundTensor(t.name, t.dtype, tuple(Expression(part).integer(self.dims) for part in t.shape), t.role)
            for t in self.workload.tensors[self.dtype]
        )

    @property
    def inputs(self) -> tuple[BoundTensor, ...]:
        """Tensors with a content that the case gives."""
        return tuple(tensor for tensor in self.tensors if tensor.role != "out")

    @property
    def outputs(self) -> tuple[BoundTensor, ...]:
        """Tensors that are judged."""
        return tuple(tensor for tensor in self.tensors if tensor.role != "in")

    @property
    def in_domain(self) -> bool:
        """Whether the minimal domain holds here."""
        return all(Expression(text).holds(self.dims) for text in self.workload.domain)

    @property
    def mandatory_bytes(self) -> int:
        """Each tensor crosses memory once."""
        return sum(tensor.nbytes * (2 if tensor.role == "inout" else 1) for tensor in self.tensors)

    @property
    def mandatory_operations(self) -> int:
        return Expression(self.workload.operations).integer(self.dims)

    @property
    def timed_distribution(self) -> str:
        return next(iter(self.workload.distributions))

    def at(self, dims: Dims) -> Case:
        """The same case at other dimensions."""
        return Case(self.workload, _shape_text(self.workload, dims), self.dtype, dict(dims), self.source)

    def draw(self, rng: np.random.Generator, distribution: str) -> Arrays:
        """Inputs, by tensor name. Raises CaseError for other names, shapes, dtypes, or values that are not finite."""
        with self._declared(f"distribution {distribution!r}"):
            arrays = self.workload.distributions[distribution](rng, self)
        wanted = {tensor.name: tensor for tensor in self.inputs}
        if arrays.keys() != wanted.keys():
            raise CaseError(f"distribution {distribution!r} gives {sorted(arrays)}, the case wants {sorted(wanted)}")
        for name, array in arrays.items():
            tensor = wanted[name]
            if array.shape != tensor.shape or array.dtype != NUMPY_TYPES[tensor.dtype]:
                raise CaseError(f"distribution {distribution!r} gives {name} as {array.dtype}{list(array.shape)}")
            if not np.isfinite(array).all():
                raise CaseError(f"distribution {distribution!r} gives {name} a value that is not finite")
        return arrays

    def expect(self, inputs: Mapping[str, Array]) -> dict[str, Expected]:
        """The reference of these inputs. Raises CaseError where it fails, or gives other outputs or shapes."""
        with self._declared("reference"):
            expected = self.workload.reference(inputs, self)
        if expected.keys() != {tensor.name for tensor in self.outputs}:
            raise CaseError(f"the reference of {self.name} gives {sorted(expected)}")
        for tensor in self.outputs:
            if {expected[tensor.name].value.shape, expected[tensor.name].tolerance.shape} != {tensor.shape}:
                raise CaseError(f"the reference of {self.name} gives {tensor.name} another shape than {tensor.shape}")
        return expected

    @contextmanager
    def _declared(self, what: str) -> Iterator[None]:
        """A fault of a case.py is a CaseError, whatever it raises: it is a user's code."""
        try:
            yield
        except CaseError:
            raise
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {error}".split())
            raise CaseError(f"{what} of {self.name}: {told}") from error


def bind(workload: Workload, name: str | None, surface: Surface, source: str) -> Case:
    """The case `name` (the part after the slash; None for the surface's default). Raises CaseError."""
    if name is None:
        if surface not in workload.default:
            raise CaseError(f"workload {workload.name!r} has no default case for {surface}; it has {known(workload)}")
        name = workload.default[surface]
    shape, dash, dtype = name.rpartition("-")
    if not dash or dtype not in workload.tensors:
        raise CaseError(
            f"case {workload.name}/{name}: expected <size>-<dtype> with a dtype of {', '.join(workload.tensors)}; "
            f"there are {known(workload)}"
        )
    if shape in workload.shapes:
        return _sized(Case(workload, shape, dtype, dict(workload.shapes[shape]), source))
    dims = _parsed_dims(workload, shape, name)
    return _sized(Case(workload, _shape_text(workload, dims), dtype, dims, source))


def _sized(case: Case) -> Case:
    """The case, if everything that follows from its dimensions has a value. Raises CaseError."""
    try:
        empty = [tensor.name for tensor in case.tensors if min(tensor.shape, default=1) < 1]
        _ = (case.mandatory_operations, case.in_domain)
    except ExpressionError as error:
        raise CaseError(f"case {case.name}: {error}") from None
    if empty:
        raise CaseError(f"case {case.name}: the tensor {empty[0]} has no elements")
    return case


def known(workload: Workload) -> str:
    """The named cases of a workload, in words."""
    return ", ".join(f"{workload.name}/{shape}-{dtype}" for dtype in workload.tensors for shape in workload.shapes)


def check(workload: object, where: str) -> Workload:
    """Refuse a declaration that contradicts itself. Raises CaseError."""
    if not isinstance(workload, Workload):
        raise CaseError(f"{where}: WORKLOAD is not a Workload")
    try:
        _check(workload, where)
    except CaseError:
        raise
    except ExpressionError as error:
        raise CaseError(f"{where}: {error}") from None
    except Exception as error:
        # It is a user's declaration: any field may hold anything.
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise CaseError(f"{where}: {told}") from error
    return workload


def _check(workload: Workload, where: str) -> None:
    taken = {"SMS", "WARP", *FUNCTION_NAMES} & set(workload.dimensions)
    if taken or not workload.dimensions or not workload.tensors or not workload.distributions or not workload.shapes:
        missing = (
            f"dimension {min(taken)} is taken" if taken else "dimensions, tensors, shapes or distributions are empty"
        )
        raise CaseError(f"{where}: {missing}")
    every: Sequence[Dims] = (*workload.shapes.values(), *workload.family, workload.sanitize)
    for dims in every:
        if set(dims) != set(workload.dimensions) or any(type(size) is not int or size < 1 for size in dims.values()):
            raise CaseError(
                f"{where}: shape {dict(dims)} does not give each of {', '.join(workload.dimensions)} once, as a whole "
                "number from 1 on"
            )
    for scalar in workload.scalars:
        if not _passable(scalar):
            raise CaseError(f"{where}: the scalar {scalar.name} cannot be {scalar.value!r} as {scalar.dtype}")
    for dtype, tensors in workload.tensors.items():
        if not any(tensor.role != "in" for tensor in tensors):
            raise CaseError(f"{where}: dtype {dtype} has no output")
        unknown = [tensor.dtype for tensor in tensors if tensor.dtype not in NUMPY_TYPES]
        if unknown:
            raise CaseError(f"{where}: no dtype is called {unknown[0]!r}; there are {', '.join(NUMPY_TYPES)}")
        names = [tensor.name for tensor in tensors] + [scalar.name for scalar in workload.scalars]
        if len({*names, *workload.dimensions}) < len(names) + len(workload.dimensions):
            raise CaseError(f"{where}: a tensor, scalar or dimension name stands twice")
        for dims in every:
            case = Case(workload, "", dtype, dims, "")
            if any(min(tensor.shape, default=1) < 1 for tensor in case.tensors):
                raise CaseError(f"{where}: a tensor has no elements at {dict(dims)}")
            _ = (case.mandatory_operations, case.in_domain)
    if not all(Expression(text).holds(workload.sanitize) for text in workload.domain):
        raise CaseError(f"{where}: the sanitize shape is outside the minimal domain")
    for surface, default in workload.default.items():
        if not bind(workload, default, surface, "").in_domain:
            raise CaseError(f"{where}: default case {default} is outside the minimal domain")


def _passable(scalar: Parameter) -> bool:
    """Whether its value is a finite number that its type has; a bf16 is none by value, where NumPy alone has to do."""
    if scalar.dtype not in NUMPY_TYPES or scalar.dtype == "bf16" or type(scalar.value) not in (int, float):
        return False
    dtype = NUMPY_TYPES[scalar.dtype]
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype.name)
        return type(scalar.value) is int and info.min <= scalar.value <= info.max
    return abs(scalar.value) <= largest_finite(dtype)


def _parsed_dims(workload: Workload, shape: str, name: str) -> dict[str, int]:
    dims = {}
    for part in shape.split(","):
        found = re.fullmatch(r"([A-Za-z_]\w*)=([1-9]\d{0,8})", part)
        if not found:
            raise CaseError(
                f"unknown case {workload.name}/{name}; there are {known(workload)}, or sizes like {_example(workload)}"
            )
        dims[found[1]] = int(found[2])
    if set(dims) != set(workload.dimensions) or shape.count("=") != len(dims):
        raise CaseError(f"case {workload.name}/{name}: give each of {', '.join(workload.dimensions)} once")
    return dims


def _shape_text(workload: Workload, dims: Dims) -> str:
    for name, named in workload.shapes.items():
        if dict(named) == dict(dims):
            return name
    return ",".join(f"{name}={dims[name]}" for name in workload.dimensions)


def _example(workload: Workload) -> str:
    dims = ",".join(f"{name}=64" for name in workload.dimensions)
    return f"{workload.name}/{dims}-{next(iter(workload.tensors))}"
