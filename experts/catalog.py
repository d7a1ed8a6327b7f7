"""Finds cases and kernels: ours, and a user's own folder.

A workload is a folder with a `case.py`. Folders are searched in this order: those given (`--experts`), those in
`KLINEAGE_EXPERTS` (separated like PATH), `./experts`, the installed package. The first that has the workload wins.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from experts.case import Case, CaseError, Workload, bind, check
from experts.kernel import EXTENSIONS, Surface

_PACKAGE = Path(__file__).parent


def roots(given: Sequence[Path] = ()) -> tuple[Path, ...]:
    """The folders that are searched, without repeats. Raises CaseError where a given one does not exist."""
    for folder in given:
        if not folder.is_dir():
            raise CaseError(f"experts folder {folder} does not exist")
    from_environment = [Path(part) for part in os.environ.get("KLINEAGE_EXPERTS", "").split(os.pathsep) if part]
    candidates = (*given, *from_environment, Path("experts"), _PACKAGE)
    return tuple(dict.fromkeys(folder.resolve() for folder in candidates if folder.is_dir()))


def workloads(folders: Sequence[Path]) -> Iterator[tuple[Workload, str, Path]]:
    """Every workload with the source of its case.py and its folder, by name."""
    found: dict[str, Path] = {}
    for root in folders:
        for path in sorted(root.glob("*/case.py")):
            found.setdefault(path.parent.name, path)
    for name in sorted(found):
        yield (*_load(found[name]), found[name].parent)


def find(case: str, surface: Surface, folders: Sequence[Path]) -> Case:
    """The case of that name (`gemm`, `gemm/512-f32`, `gemm/M=512,N=300,K=64-f32`). Raises CaseError."""
    workload, _, rest = case.partition("/")
    if "/" in case and not rest:
        raise CaseError(f"unknown case {case!r}: nothing after the slash")
    for root in folders:
        path = root / workload / "case.py"
        if workload.isidentifier() and path.is_file():
            declared, source = _load(path)
            return bind(declared, rest or None, surface, source)
    names = sorted({path.parent.name for root in folders for path in root.glob("*/case.py")})
    raise CaseError(f"unknown case {case!r}; there are workloads {', '.join(names) or '(none)'}")


def kernels(folder: Path) -> tuple[Path, ...]:
    """The kernel files of a workload's folder."""
    return tuple(sorted(path for path in folder.iterdir() if path.suffix in EXTENSIONS))


@cache
def _load(path: Path) -> tuple[Workload, str]:
    """The declaration in a case.py, with its source. Raises CaseError."""
    name = f"klineage_case_{path.parent.name}"
    try:
        source = path.read_text(encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        # Not through the loader: it may run an older .pyc, and the id must be of the text that runs.
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
        declared = getattr(module, "WORKLOAD", None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # It is a user's code, so it may raise anything, and it may call sys.exit().
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise CaseError(f"{path}: {told}") from error
    workload = check(declared, str(path))
    if workload.name != path.parent.name:
        raise CaseError(f"{path}: the workload is called {workload.name!r}, its folder {path.parent.name!r}")
    return workload, source
