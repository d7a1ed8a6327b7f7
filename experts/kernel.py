"""A kernel: one text that holds its manifest and its code, and has one hash (format 1).

In a C-family file the manifest is TOML in the leading comment, which opens with the word `klineage`; in a Python file
it is the module docstring. The text is normalised once, when it is read (line ends, trailing space, one final newline);
the normalised text is what is hashed, stored and compiled. Field by field: docs/kernel-format.md.

A text comes from outside and may be hostile: whatever is wrong with it is a KernelError, in one short line.
"""

from __future__ import annotations

import ast
import difflib
import re
import reprlib
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    model_validator,
)

from experts.expressions import FUNCTION_NAMES, Expression, ExpressionError, syntax_tree
from experts.ids import text_id

FORMAT = 1
MAX_BYTES = 256 * 1024
"""Of a file; the newline at its end is not counted, since normalising adds one where it is missing."""

Surface = Literal["opencl", "cuda", "triton", "tilelang"]
Dtype = Literal["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"]

EXTENSIONS: dict[str, Surface] = {".cl": "opencl", ".cu": "cuda"}
"""Extensions that say the surface; a `.py` file declares its own."""

DEFAULT_OPENCL_STANDARD = "-cl-std=CL1.2"
_OPTIONS: dict[Surface, tuple[str, ...]] = {
    "opencl": (
        r"-cl-std=CL1\.2",
        r"-cl-std=CL2\.0",
        "-cl-mad-enable",
        "-cl-fast-relaxed-math",
        "-cl-no-signed-zeros",
        "-cl-denorms-are-zero",
    ),
    "cuda": ("--use_fast_math", r"--fmad=(true|false)", r"--maxrregcount=[1-9][0-9]{0,2}"),
    "triton": (),
    "tilelang": (),
}
_PLATFORM_SYMBOLS = frozenset({"SMS", "WARP"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTENT = re.compile(r"(new:)?[a-z0-9]+(-[a-z0-9]+)*")
_SHOWN = 160
"""Characters of a value or key in a message."""
_MAX_DOTS = 64
_LONE_DOT = re.compile(r"(?<!\.)\.(?!\.)")
_OPENING = re.compile(r"\s*/\*[ \t]*klineage[ \t]*\n")


class KernelError(ValueError):
    """A kernel text that is not format 1; the message is one line."""

    text: str | None = None
    """The normalised text that was refused, where there is one."""


def _identifier(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"{_shown(name)} is not an identifier")
    return name


def _free_name(name: str) -> str:
    _identifier(name)
    if name in _PLATFORM_SYMBOLS or name in FUNCTION_NAMES or name in ("and", "or", "not", "if", "else"):
        raise ValueError(f"the name {name!r} is taken by the expression language")
    return name


def _expression(value: object) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"expected an expression (a whole number or a text), not {_shown(value)}")
    try:
        return Expression(value)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a whole number, not {_shown(value)}")
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{_shown(value)} does not fit 32 bits")
    return value


Expr = Annotated[Expression, BeforeValidator(_expression)]
Name = Annotated[str, AfterValidator(_identifier)]
FreeName = Annotated[str, AfterValidator(_free_name)]
Whole = Annotated[int, BeforeValidator(_whole)]
"""Strict: TOML tells `3` from `3.0`, `"3"` and `true`."""
Axes = Annotated[tuple[Expr, ...], Field(min_length=1, max_length=3)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Workspace(_Model):
    """A scratch buffer that the harness allocates; contiguous, last dimension fastest."""

    dtype: Dtype
    shape: Annotated[tuple[Expr, ...], Field(min_length=1, max_length=8)]
    zero: StrictBool = False
    """A memset to zero before the launches, inside the timed region. Otherwise the content is poison."""


class TensorMap(_Model):
    """A TMA descriptor over a tensor or workspace; CUDA only. Lists are in tensor order, strides in elements."""

    tensor: Name
    mode: Literal["tiled", "im2col"] = "tiled"
    box: tuple[Expr, ...] | None = None
    shape: tuple[Expr, ...] | None = None
    strides: tuple[Expr, ...] | None = None
    offset: Expr = Expression(0)
    lower: tuple[Expr, ...] | None = None
    upper: tuple[Expr, ...] | None = None
    channels: Expr | None = None
    pixels: Expr | None = None
    estrides: tuple[Expr, ...] | None = None
    swizzle: Annotated[Literal[0, 32, 64, 128], BeforeValidator(_whole)] = 0
    interleave: Annotated[Literal[0, 16, 32], BeforeValidator(_whole)] = 0
    l2: Annotated[Literal[0, 64, 128, 256], BeforeValidator(_whole)] = 0
    oob: Literal["zero", "nan"] = "zero"

    @model_validator(mode="after")
    def _mode_fields(self) -> TensorMap:
        tiled, im2col = {"box"}, {"lower", "upper", "channels", "pixels"}
        wanted, refused = (tiled, im2col) if self.mode == "tiled" else (im2col, tiled)
        missing = sorted(name for name in wanted if getattr(self, name) is None)
        extra = sorted(name for name in refused if getattr(self, name) is not None)
        if missing:
            raise ValueError(f"mode {self.mode!r} needs {', '.join(missing)}")
        if extra:
            raise ValueError(f"mode {self.mode!r} has no {', '.join(extra)}")
        if (self.shape is None) != (self.strides is None):
            raise ValueError("shape and strides come together")
        return self


class Launch(_Model):
    """One kernel launch. `grid` counts work-groups (blocks), `block` work-items (threads); up to three axes."""

    entry: Name
    grid: Axes
    block: Axes
    shared: Expr | None = None
    """Dynamic shared memory in bytes; CUDA only."""
    cluster: Axes | None = None
    """CUDA only."""
    args: tuple[str, ...]
    """By name: the case's tensors, scalars and dimensions, workspace, `map:NAME`."""
    num_warps: Annotated[Literal[1, 2, 4, 8, 16, 32], BeforeValidator(_whole)] | None = None
    num_stages: Annotated[Whole, Field(ge=1, le=16)] | None = None


class Manifest(_Model):
    """The declarative part of a kernel."""

    format: Literal[1]
    workload: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    surface: Surface | None = None
    """Python files only; a C-family file's surface follows from its extension."""
    intents: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    const: dict[FreeName, Whole] = {}
    require: dict[Name, Expr] = {}
    workspace: dict[FreeName, Workspace] = {}
    maps: dict[Name, TensorMap] = {}
    launch: Annotated[tuple[Launch, ...], Field(min_length=1, max_length=64)]


class Kernel(BaseModel):
    """One kernel. Build it with `parse` or `load`; equal texts on one surface are equal kernels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """Normalised, manifest included."""
    surface: Surface
    manifest: Manifest = Field(repr=False)

    @cached_property
    def kernel_id(self) -> str:
        """Hash of the text."""
        return text_id(self.text)

    @property
    def options(self) -> tuple[str, ...]:
        """Build options as the compiler gets them, defaults included."""
        given = self.manifest.options
        if self.surface == "opencl" and not any(option.startswith("-cl-std=") for option in given):
            return (DEFAULT_OPENCL_STANDARD, *given)
        return given

    @property
    def defines(self) -> tuple[str, ...]:
        """`[const]` as `-DNAME=value`."""
        return tuple(f"-D{name}={value}" for name, value in self.manifest.const.items())


def normalise(text: str) -> str:
    """Line ends to \\n, no trailing space, one newline at the end, no byte order marks at the start."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(line.rstrip(" \t\f\v") for line in text.split("\n")).rstrip("\n") + "\n"


def load(path: Path) -> Kernel:
    """The kernel in a file. Raises OSError where it cannot be read, KernelError where it is not a kernel."""
    if path.suffix not in (*EXTENSIONS, ".py"):
        raise KernelError(f"unknown extension {path.suffix!r}; a kernel file ends in {', '.join((*EXTENSIONS, '.py'))}")
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 2)
    text = raw.decode(errors="backslashreplace")
    try:
        if len(raw.removesuffix(b"\n")) > MAX_BYTES:
            raise KernelError(f"larger than {MAX_BYTES // 1024} KiB")
        raw.decode()
    except UnicodeDecodeError as error:
        fault = KernelError(f"not UTF-8 text: byte {error.start} is 0x{raw[error.start]:02x}")
    except KernelError as error:
        fault = error
    else:
        return parse(text, surface=EXTENSIONS.get(path.suffix))
    fault.text = normalise(text)
    raise fault


def parse(text: str, *, surface: Surface | None) -> Kernel:
    """Read and check one kernel text; `surface=None` means a Python file, which declares its own.

    Raises KernelError with one line that names the place and the fault.
    """
    whole = text.encode(errors="backslashreplace").decode()
    normal = normalise(whole)
    try:
        if whole != text:
            raise KernelError("not Unicode text: it has a lone surrogate")
        return _parsed(normal, surface)
    except KernelError as error:
        error.text = normal
        raise


def _parsed(text: str, surface: Surface | None) -> Kernel:
    if len(text.removesuffix("\n").encode()) > MAX_BYTES:
        raise KernelError(f"larger than {MAX_BYTES // 1024} KiB")
    if "\0" in text:
        raise KernelError(f"a NUL byte in line {text.count(chr(10), 0, text.index(chr(0))) + 1}")
    toml, first_line = _c_manifest(text) if surface in ("opencl", "cuda") else _python_manifest(text)
    manifest = _checked(_toml(toml, first_line), surface)
    found = surface or manifest.surface
    assert found is not None
    return Kernel(text=text, surface=found, manifest=manifest)


def _c_manifest(text: str) -> tuple[str, int]:
    opening = _OPENING.match(text)
    if not opening:
        raise KernelError("no manifest: the file must open with a comment whose first line is '/* klineage'")
    end = text.find("*/", opening.end())
    if end < 0:
        raise KernelError("the manifest comment is never closed")
    return text[opening.end() : end], text.count("\n", 0, opening.end()) + 1


def _python_manifest(text: str) -> tuple[str, int | None]:
    """The manifest and its first line; None where escapes or joined strings make the docstring's lines others."""
    try:
        module = syntax_tree(text, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise KernelError(f"not Python: {_told(error)}") from None
    match module:
        case ast.Module(body=[ast.Expr(value=ast.Constant(value=str(docstring)) as node), *_]) if docstring.startswith(
            "klineage\n"
        ):
            pass
        case _:
            raise KernelError("no manifest: the module docstring must open with the line 'klineage'")
    if not _is_unicode(docstring):
        raise KernelError("the manifest has a lone surrogate")
    end = node.end_lineno or node.lineno
    literal = "\n".join(text.split("\n")[node.lineno - 1 : end])
    as_written = docstring in literal and docstring.count("\n") == end - node.lineno
    return docstring.removeprefix("klineage\n"), node.lineno + 1 if as_written else None


def _toml(toml: str, first_line: int | None) -> dict[str, Any]:
    def at(line: int) -> str:
        return "" if first_line is None else f" (line {line + first_line - 1})"

    # The parser takes the square of a dotted key's parts: minutes, for a long one.
    for number, line in enumerate(toml.split("\n"), 1):
        if len(_LONE_DOT.findall(line)) > _MAX_DOTS:
            raise KernelError(f"manifest: more than {_MAX_DOTS} dots in a line{at(number)}")
    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).rpartition(" (at ")
        found = re.match(r"line (\d+)", place)
        message = f"{_cut(message)}{at(int(found[1])) if found else f' (at {place}'}"
    except ValueError:
        message = "a number has too many digits"
    except RecursionError:
        message = "nested too deeply"
    raise KernelError(f"manifest is not TOML: {message}")


def _checked(data: dict[str, Any], surface: Surface | None) -> Manifest:
    version = data.get("format")
    if version is None:
        raise KernelError("missing field 'format'; this is format 1")
    if version != FORMAT or type(version) is not int:
        raise KernelError(f"format {_shown(version)} is not known; this is format {FORMAT}")
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        raise KernelError(_one_line(error)) from None
    except RecursionError:
        raise KernelError("the manifest is nested too deeply") from None
    if surface is not None and manifest.surface is not None:
        raise KernelError(f"'surface' is for Python files; this file's extension says {surface}")
    if surface is None and manifest.surface not in ("triton", "tilelang"):
        raise KernelError('a Python kernel declares surface = "triton" or "tilelang"')
    _check_surface(manifest, surface or manifest.surface or "opencl")
    _check_names(manifest)
    return manifest


def _check_surface(manifest: Manifest, surface: Surface) -> None:
    for option in manifest.options:
        if not any(re.fullmatch(pattern, option) for pattern in _OPTIONS[surface]):
            raise KernelError(f"option {_shown(option)} is not on the allow-list of {surface}")
    if len(set(manifest.options)) < len(manifest.options):
        raise KernelError("an option stands twice")
    if sum(option.startswith("-cl-std=") for option in manifest.options) > 1:
        raise KernelError("two -cl-std options")
    if surface != "cuda" and manifest.maps:
        raise KernelError("[maps] is for CUDA kernels")
    for index, launch in enumerate(manifest.launch):
        where = f"launch[{index}]"
        if surface != "cuda" and launch.cluster is not None:
            raise KernelError(f"{where}: 'cluster' is for CUDA kernels")
        if surface != "cuda" and launch.shared is not None:
            remedy = "declare local memory in the kernel" if surface == "opencl" else "the compiler sizes it"
            raise KernelError(f"{where}: 'shared' is for CUDA kernels; {remedy}")
        if surface != "triton" and (launch.num_warps is not None or launch.num_stages is not None):
            raise KernelError(f"{where}: 'num_warps' and 'num_stages' are for Triton kernels")
    for intent in manifest.intents:
        if not _INTENT.fullmatch(intent):
            raise KernelError(f"intent {_shown(intent)} is not in kebab-case")


def _check_names(manifest: Manifest) -> None:
    both = manifest.const.keys() & manifest.workspace.keys()
    if both:
        raise KernelError(f"{_shown(min(both))} is in both [const] and [workspace]")
    for index, launch in enumerate(manifest.launch):
        for argument in launch.args:
            name = argument.removeprefix("map:")
            if not _IDENTIFIER.fullmatch(name):
                raise KernelError(f"launch[{index}].args: {_shown(argument)} is not a name")
            if argument.startswith("map:") and name not in manifest.maps:
                raise KernelError(f"launch[{index}].args: {_shown(argument)} names no map")


def _one_line(error: ValidationError) -> str:
    faults = error.errors(include_url=False)
    # A needed field that is misspelt is a missing field too; the misspelling tells more.
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    where = _path(tuple(part for part in first["loc"] if part != "[key]"))
    match first["type"]:
        case "extra_forbidden":
            *parent, field = first["loc"]
            close = difflib.get_close_matches(str(field), _fields(tuple(parent)), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"unknown field '{where}'{hint}"
        case "missing":
            return f"missing field '{where}'"
        case "value_error":
            return f"{where}: {first['ctx']['error']}"
        case "too_long" | "too_short":
            return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}"
        case _:
            return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}, not {_shown(first['input'])}"


def _path(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{_key(part)}" if text else _key(part)
    return text or "manifest"


def _key(name: str) -> str:
    return _cut(name if name.isprintable() else repr(name)[1:-1])


def _told(error: Exception) -> str:
    return _cut(" ".join(str(getattr(error, "msg", "nested too deeply")).split()))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class _Repr(reprlib.Repr):
    """repr() of a value from a text, cut short: of deep, long and huge ones too."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, _SHOWN, _SHOWN

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 128 else f"a number of {x.bit_length()} bits"


_shown = _Repr().repr


def _is_unicode(text: str) -> bool:
    return text.encode(errors="replace").decode() == text


def _fields(parent: tuple[str | int, ...]) -> list[str]:
    tables: dict[str, type[_Model]] = {"launch": Launch, "workspace": Workspace, "maps": TensorMap}
    return list((tables.get(str(parent[0]), Manifest) if parent else Manifest).model_fields)
