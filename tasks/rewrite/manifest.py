"""Text edits of a manifest: a constant's value, the options, requirements.

TOML writes one thing in many ways, so nothing here trusts its own reading: every edit is tried, and stands only if
the new manifest equals the old one but for what was asked. What is found nowhere, or at two places, is not edited.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experts.expressions import Expression, ExpressionError
from experts.kernel import Kernel, KernelError, parse
from experts.source import Span, TextEdit, apply_edits
from tasks.rewrite.edit import NotApplicable

_NUMBER = r"[+-]?[0-9][0-9A-Za-z_]*"
_ELEMENT = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[\[\]]""")
_OPTIONS = re.compile(r"^[ \t]*options[ \t]*=[ \t]*\[", re.MULTILINE)


def manifest_span(kernel: Kernel) -> Span:
    """The leading comment of a C-family kernel: as the format has it, up to the first `*/`."""
    return Span(kernel.text.index("/*"), kernel.text.index("*/") + 2)


@dataclass(frozen=True)
class Constant:
    """Where `[const]` says a value."""

    span: Span
    text: str
    """As it is written: `16`, `0x10`."""


def constant(kernel: Kernel, name: str) -> Constant | None:
    """The place of a constant's value; None where it is not certain."""
    value = kernel.manifest.const.get(name)
    if value is None:
        return None
    probe = 1 if value != 1 else 2
    quoted = re.escape(name)
    pattern = re.compile(rf"""(?<![\w$"'.])(?:const[ \t]*\.[ \t]*)?["']?{quoted}["']?[ \t]*=[ \t]*({_NUMBER})""")
    found = []
    for match in pattern.finditer(kernel.text, 0, manifest_span(kernel).end):
        span = Span(match.start(1), match.end(1))
        if _becomes(kernel, [TextEdit.replace(span, str(probe))], {"const": {**kernel.manifest.const, name: probe}}):
            found.append(Constant(span, match[1]))
    return found[0] if len(found) == 1 else None


def with_constant(kernel: Kernel, name: str, value: int, text: str | None = None) -> Kernel:
    """The kernel with another value, spelled `text` if given. Raises NotApplicable."""
    place = constant(kernel, name)
    if place is None:
        raise NotApplicable(f"where [const] says {name} is not certain")
    edits = [TextEdit.replace(place.span, str(value) if text is None else text)]
    changed = _becomes(kernel, edits, {"const": {**kernel.manifest.const, name: value}})
    if changed is None:
        raise NotApplicable(f"the manifest does not take {name} = {text or value}")
    return changed


@dataclass(frozen=True)
class OptionPlace:
    """How an option stands in the list, so that it can be put back."""

    index: int
    text: str | None
    """The text with its separator, where it is not the plain one."""


def without_option(kernel: Kernel, option: str, whole_line: bool = False) -> tuple[Kernel, OptionPlace]:
    """The kernel without an option; with `whole_line`, without the line of the list, too. Raises NotApplicable."""
    items = _items(kernel)
    index = kernel.manifest.options.index(option) if option in kernel.manifest.options else -1
    if items is None or index < 0:
        raise NotApplicable(f"where the options say {option} is not certain")
    literals = items.literals
    before, behind = index > 0, index + 1 < len(literals)
    start, end = literals[index].start, literals[index].end
    if behind:
        end = literals[index + 1].start
    elif before:
        start = literals[index - 1].end
    cut = Span(start, end)
    plain = f'"{option}", ' if behind else f', "{option}"' if before else f'"{option}"'
    removed = cut.of(kernel.text)
    if whole_line and len(literals) == 1 and items.line.of(kernel.text) == f'options = ["{option}"]\n':
        cut = items.line
    left = tuple(each for each in kernel.manifest.options if each != option)
    changed = _becomes(kernel, [TextEdit.replace(cut, "")], {"options": left})
    if changed is None:
        raise NotApplicable(f"the options do not come apart at {option}")
    return changed, OptionPlace(index, None if removed == plain else removed)


def with_option(kernel: Kernel, option: str, index: int, text: str | None = None) -> tuple[Kernel, bool]:
    """The kernel with an option more, and whether the list was made for it. Raises NotApplicable."""
    items, options = _items(kernel), kernel.manifest.options
    if option in options or not 0 <= index <= len(options):
        raise NotApplicable(f"the options do not take {option} there")
    wanted = {"options": (*options[:index], option, *options[index:])}
    if items is not None:
        literals = items.literals
        if index < len(literals):
            at, plain = literals[index].start, f'"{option}", '
        elif literals:
            at, plain = literals[-1].end, f', "{option}"'
        else:
            at, plain = items.inside, f'"{option}"'
        # The old spelling does not fit where its neighbours are gone.
        spellings = (plain,) if text is None else (text, plain)
        tried = (_becomes(kernel, [TextEdit(at, at, spelling)], wanted) for spelling in spellings)
        changed = next((each for each in tried if each is not None), None)
    else:
        changed = next(_made(kernel, f'options = ["{option}"]\n', wanted), None) if not options else None
    if changed is None:
        raise NotApplicable(f"where the options would take {option} is not certain")
    return changed, items is None


def with_requirement(kernel: Kernel, name: str, text: str) -> Kernel:
    """The kernel with one more [require]; the same kernel where it has that expression. Raises NotApplicable.

    A name that is taken by another expression gets a number.
    """
    known = kernel.manifest.require
    try:
        wanted = Expression(text)
    except ExpressionError as error:
        raise NotApplicable(f"no requirement can be {text!r}: {error}") from None
    if wanted in known.values():
        return kernel
    number, free = 2, name
    while free in known:
        free, number = f"{name}_{number}", number + 1
    line = f'{free} = "{text}"\n'
    end = manifest_span(kernel).end
    header = re.compile(r"^[ \t]*\[require\][ \t]*\n", re.MULTILINE).search(kernel.text, 0, end)
    if header is not None:
        # First: TOML's order of keys is that of the text, and two tables are equal in any order.
        edit = TextEdit(header.end(), header.end(), line)
    else:
        table = re.compile(r"^[ \t]*\[(?:workspace|\[launch\])", re.MULTILINE).search(kernel.text, 0, end)
        if table is None or known:
            raise NotApplicable("where a requirement would go is not certain")
        edit = TextEdit(table.start(), table.start(), f"[require]\n{line}")
    changed = _becomes(kernel, [edit], {"require": {**known, free: wanted}})
    if changed is None:
        raise NotApplicable(f"the manifest does not take {text!r} as a requirement")
    return changed


@dataclass(frozen=True)
class _Items:
    literals: tuple[Span, ...]
    inside: int
    """Right behind the bracket."""
    line: Span


def _items(kernel: Kernel) -> _Items | None:
    text, end = kernel.text, manifest_span(kernel).end
    for opening in _OPTIONS.finditer(text, 0, end):
        literals: list[Span] = []
        for match in _ELEMENT.finditer(text, opening.end(), end):
            if match[0] == "]":
                listed = tuple(map(_literal, (span.of(text) for span in literals)))
                if listed == kernel.manifest.options:
                    line_end = text.find("\n", match.end()) + 1
                    return _Items(tuple(literals), opening.end(), Span(opening.start(), line_end))
                break
            if match[0][0] in "\"'":
                literals.append(Span(match.start(), match.end()))
    return None


def _literal(text: str) -> str | None:
    try:
        value = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return None
    return value if isinstance(value, str) else None


def _made(kernel: Kernel, line: str, wanted: dict[str, Any]) -> Iterator[Kernel]:
    """With the line put behind those that open a manifest: `workload`, `intents`."""
    for name in ("intents", "workload", "format"):
        for match in re.finditer(rf"^[ \t]*{name}[ \t]*=[^\n]*\n", kernel.text, re.MULTILINE):
            changed = _becomes(kernel, [TextEdit(match.end(), match.end(), line)], wanted)
            if changed is not None:
                yield changed


def _becomes(kernel: Kernel, edits: list[TextEdit], wanted: dict[str, Any]) -> Kernel | None:
    """The edited kernel, if it is one whose manifest differs as wanted and in nothing else, nor does the code."""
    try:
        text, _ = apply_edits(kernel.text, edits)
        changed = parse(text, surface=kernel.surface)
    except (KernelError, ValueError):
        return None
    code = kernel.text[manifest_span(kernel).end :]
    if changed.text[manifest_span(changed).end :] != code:
        return None
    return changed if changed.manifest == kernel.manifest.model_copy(update=wanted) else None
