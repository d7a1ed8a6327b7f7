"""The vocabulary of intents: what an optimization wants, named forward (`unroll-loop`, never "remove unrolling").

A closed core, kebab-case. Authors and language models may use an alias, or `new:x` for what is not here.

`order` is the static class that a backward walk takes optimizations out by, lowest first: local ones first, then those
that move data, and those that enable others last, so that effects are measured while the code around is still fast
(an accumulator that spills hides what packing was worth).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Order(IntEnum):
    """Static classes, in the order that a walk takes them out."""

    HINT = 0
    """Words to the compiler that change no operation."""
    NUMERIC = 1
    """Other operations for the same values, within the error bound."""
    LAYOUT = 2
    """Where data lies."""
    SCHEDULE = 3
    """Which work-item does what, in blocks of what size."""
    VECTOR = 4
    """Several elements in one operation."""
    STRUCTURE = 5
    """Staging, fusion, other algorithms."""
    UNROLL = 6
    """What lets the compiler keep values in registers: others are worth nothing without it."""
    REGISTER = 7
    """The tile that unrolling keeps there: without it there is nothing to unroll."""


@dataclass(frozen=True)
class Intent:
    """One intent."""

    name: str
    order: Order
    meaning: str
    aliases: tuple[str, ...] = ()


_CORE = (
    Intent("hint-restrict", Order.HINT, "promise that pointers do not alias", ("restrict", "noalias")),
    Intent("hint-const", Order.HINT, "promise that memory is only read", ("read-only-cache", "ldg")),
    Intent("prefetch-data", Order.HINT, "ask for memory before it is needed", ("prefetch",)),
    Intent("fix-work-group", Order.HINT, "tell the compiler the group's size", ("launch-bounds", "fix-block-size")),
    Intent("hint-vector-type", Order.HINT, "tell the compiler which vector width the code is written for"),
    Intent("align-storage", Order.HINT, "align an array for wide accesses", ("align-array",)),
    Intent("inline-function", Order.HINT, "ask for inlining", ("force-inline",)),
    Intent("relax-math", Order.NUMERIC, "let the compiler reorder or approximate arithmetic", ("fast-math",)),
    Intent("fuse-multiply-add", Order.NUMERIC, "multiply and add with one rounding", ("fma", "mad")),
    Intent("approximate-function", Order.NUMERIC, "a faster function of less accuracy", ("native-function",)),
    Intent(
        "rescale-base", Order.NUMERIC, "fold a constant factor so that a cheaper function serves", ("exp2-softmax",)
    ),
    Intent(
        "pad-array", Order.LAYOUT, "lengthen a row so that columns fall into different banks or sets", ("pad-tile",)
    ),
    Intent("swizzle-layout", Order.LAYOUT, "permute where elements lie against conflicts", ("swizzle",)),
    Intent("pack-operand", Order.LAYOUT, "copy an operand into the order in which it is read", ("pack", "packing")),
    Intent("transpose-operand", Order.LAYOUT, "store an operand transposed", ("transpose-tile",)),
    Intent(
        "block-loop",
        Order.SCHEDULE,
        "run a loop in blocks whose data stays in cache",
        ("tile-loop", "block-k", "block-m", "block-n", "phase-decomposition"),
    ),
    Intent("coarsen-work", Order.SCHEDULE, "more work for each work-item or group", ("thread-coarsening",)),
    Intent("split-reduction", Order.SCHEDULE, "share one reduction among several groups", ("split-k",)),
    Intent(
        "reorder-groups", Order.SCHEDULE, "visit tiles in an order that shares cache", ("rasterize", "raster-order")
    ),
    Intent("tune-constant", Order.SCHEDULE, "a tunable constant at a value found by measuring", ("autotune",)),
    Intent("vectorize-load", Order.VECTOR, "read several elements at once", ("vector-load",)),
    Intent("vectorize-store", Order.VECTOR, "write several elements at once", ("vector-store",)),
    Intent("vectorize-copy", Order.VECTOR, "move several elements at once", ("vector-copy",)),
    Intent(
        "vectorize-arithmetic", Order.VECTOR, "compute on several elements at once", ("vectorize-accumulator", "simd")
    ),
    Intent("use-matrix-unit", Order.VECTOR, "multiply tiles with matrix instructions", ("tensor-core", "mma", "wgmma")),
    Intent("stage-tile", Order.STRUCTURE, "copy a tile into local memory that is read many times", ("shared-memory",)),
    Intent(
        "double-buffer", Order.STRUCTURE, "load one tile while another is used", ("pipeline", "software-pipelining")
    ),
    Intent("copy-async", Order.STRUCTURE, "copy without registers while computing", ("cp-async", "tma-load")),
    Intent("specialize-warp", Order.STRUCTURE, "some warps load and others compute", ("warp-specialization",)),
    Intent("shuffle-lanes", Order.STRUCTURE, "exchange values between lanes without memory", ("warp-shuffle",)),
    Intent("fuse-initialization", Order.STRUCTURE, "the first pass writes what a pass of its own would clear"),
    Intent(
        "fuse-loops", Order.STRUCTURE, "one pass over the data instead of several", ("online-softmax", "fuse-passes")
    ),
    Intent("fuse-kernels", Order.STRUCTURE, "one launch instead of several", ("fuse-epilogue",)),
    Intent(
        "strip-mine-loop",
        Order.STRUCTURE,
        "run a loop in blocks of as many elements as a vector has",
        ("strip-mine",),
    ),
    Intent("split-accumulator", Order.STRUCTURE, "several independent sums instead of one", ("multiple-accumulators",)),
    Intent("hoist-invariant", Order.STRUCTURE, "compute once before the loop", ("hoist-index", "licm")),
    Intent(
        "defer-division",
        Order.STRUCTURE,
        "divide once at the end instead of for each element",
        ("defer-normalization",),
    ),
    Intent("bump-pointer", Order.STRUCTURE, "advance a pointer instead of computing an index", ("strength-reduction",)),
    Intent("skip-work", Order.STRUCTURE, "leave out what cannot change the result", ("early-exit",)),
    Intent("specialize-boundary", Order.STRUCTURE, "separate full tiles from tails", ("peel-tail",)),
    Intent("unroll-loop", Order.UNROLL, "write a loop's iterations out", ("unroll",)),
    Intent(
        "tile-registers", Order.REGISTER, "keep a tile of results in registers", ("register-tile", "register-blocking")
    ),
)

INTENTS = {intent.name: intent for intent in _CORE}
_ALIASES = {alias: intent.name for intent in _CORE for alias in intent.aliases}


def canonical(name: str) -> str:
    """The core's name of an intent or an alias; any other name, `new:x` too, as it is."""
    return _ALIASES.get(name, name)


def order_of(name: str) -> Order:
    """The static class of an intent; what the core does not know counts as structure."""
    found = INTENTS.get(canonical(name))
    return found.order if found is not None else Order.STRUCTURE
