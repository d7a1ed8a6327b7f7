"""Files of measured rows: appended to as rows come, so that a run that was cut short leaves good ones."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def appended(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[csv.DictWriter[str], TextIO]]:
    """A file of rows to append to; the header is written where there is none yet.

    Raises OSError where it cannot be written, or has other columns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", newline="", encoding="utf-8") as file:
        file.seek(0)
        text = file.read()
        header = next(csv.reader(text.splitlines()), None)
        if header is not None and tuple(header) != columns:
            raise OSError("has other columns; name another file")
        writer = csv.DictWriter(file, columns)
        if header is None:
            writer.writeheader()
        elif not text.endswith("\n"):
            # A run was killed inside a row: the next one must not be glued to it.
            file.write("\r\n")
        yield writer, file


def environment_columns(facts: Mapping[str, str]) -> dict[str, str]:
    """`device`, `driver` and `toolchain` in words, of the facts of an environment."""
    packages = [
        f"{key.removeprefix('package.')} {value}"
        for key, value in sorted(facts.items())
        if key.startswith("package.") and key != "package.numpy"
    ]
    return {
        "device": facts.get("device.name", facts.get("cpu", "")),
        "driver": facts.get("device.driver", ""),
        "toolchain": "; ".join(part for part in (facts.get("device.runtime", ""), *packages) if part),
    }


def read(path: Path) -> list[dict[str, str]]:
    """All rows of a file; none where there is no file. A row that was cut short is left out."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]
