"""What a constant of `[const]` is for, judged by where it stands: in the code and in the manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from experts.expressions import Expression
from experts.kernel import Kernel
from experts.source import Function, Loop, SourceView, Span
from experts.source.lexer import Token, tokenize

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Roles:
    """Where a constant stands, by itself or through macros made of it."""

    in_code: bool
    in_manifest: bool
    private_dims: bool
    """In the dimensions of a private array, or it bounds a loop whose variable indexes one."""
    local_dims: bool
    loop_step: bool
    loop_bound: bool
    hint_argument: bool
    """It says how often a loop is unrolled."""
    block: bool
    grid: bool
    padding: bool
    """Everywhere in the code it is only added to something, and it is in an array's dimensions."""
    only_dims: bool
    """It stands nowhere but as the last summand of an array's dimension."""


def words(text: str) -> set[str]:
    """The identifiers in a piece of code, comments left out."""
    return {word for token in tokenize(text) if token.kind in _WORDY for word in _WORD.findall(token.text)}


_WORDY = ("word", "directive")


def roles(kernel: Kernel, view: SourceView, name: str) -> Roles:
    """The roles of one constant."""
    carriers = _carriers(view, name)
    code = _tokens(kernel.text)

    def carries(*texts: str | None) -> bool:
        return any(words(text) & carriers for text in texts if text is not None)

    arrays = [array for function in view.functions for array in function.arrays]
    loops = [(function, loop) for function in view.functions for loop in function.walk_loops()]
    bounded = [(f, loop) for f, loop in loops if loop.condition is not None and carries(loop.condition.text)]
    private = [d for a in arrays if a.address_space == "private" for d in a.dims if d is not None]
    local = [d for a in arrays if a.address_space == "local" for d in a.dims if d is not None]
    occurrences = set(view.occurrences(name))
    summands = _summands(kernel.text, name)
    in_dims = {span for span in occurrences if any(d.span.contains(span) for d in (*private, *local))}
    last = {span for span in in_dims & summands if any(d.span.end == span.end for d in local)}
    in_manifest = any(name in e.names for e in expressions(kernel))
    in_directives = any(name in words(t.text) for t in code if t.kind == "directive")
    alone = not in_manifest and not in_directives
    launches = kernel.manifest.launch
    return Roles(
        in_code=any(name == t.text for t in code) or in_directives,
        in_manifest=in_manifest,
        private_dims=any(carries(d.text) for d in private)
        or any(_indexes_private(function, loop) for function, loop in bounded),
        local_dims=any(carries(d.text) for d in local),
        loop_step=any(loop.induction is not None and carries(loop.induction.step) for _, loop in loops),
        loop_bound=bool(bounded),
        hint_argument=any(carries(hint.argument) for _, loop in loops for hint in loop.hints),
        block=any(name in axis.names for launch in launches for axis in launch.block),
        grid=any(name in axis.names for launch in launches for axis in launch.grid),
        padding=alone and bool(in_dims) and occurrences <= summands,
        only_dims=alone and bool(last) and occurrences == last,
    )


def expressions(kernel: Kernel) -> list[Expression]:
    """Every expression of the manifest."""
    manifest = kernel.manifest
    found = [*manifest.require.values()]
    found += [dim for space in manifest.workspace.values() for dim in space.shape]
    for launch in manifest.launch:
        found += [*launch.grid, *launch.block]
    return found


def _carriers(view: SourceView, name: str) -> set[str]:
    """The name and the macros whose bodies mention it, also through others."""
    carriers = {name}
    bodies = {macro.name: words(macro.body.text) for macro in view.macros}
    while more := {macro for macro, body in bodies.items() if body & carriers} - carriers:
        carriers |= more
    return carriers


def _indexes_private(function: Function, loop: Loop) -> bool:
    if loop.induction is None:
        return False
    private = {a.name for a in function.arrays if a.address_space == "private"}
    return any(
        access.base in private
        and loop.span.contains(access.span)
        and any(loop.induction.name in words(index.text) for index in (*access.origin, *access.indices))
        for access in function.accesses
    )


@lru_cache(maxsize=16)
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(token for token in tokenize(text) if token.kind != "comment")


def _summands(text: str, name: str) -> set[Span]:
    """Where a name is added to something and multiplied by nothing: `a + NAME` before what ends a term."""
    code = _tokens(text)
    return {
        token.span
        for index, token in enumerate(code[:-1])
        if token.kind == "word"
        and token.text == name
        and index > 1
        and code[index - 1].text == "+"
        and code[index - 2].text != "+"
        and code[index + 1].text in (")", "]", "+", "-", ",", ";")
    }
