"""What need not be done twice: artifacts, and verdicts of compile and correctness. Timings are never kept.

Keys hold kernel, case, environment, tier, isolation and the gate's own source, so that any change asks again. A cache
that cannot be written is no fault: the work is done again.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from experts.ids import content_id
from experts.verdict import CompileFacts, Stage, Verdict
from tasks.gate.device import Artifact, Device, Entry
from tasks.gate.launches import Limits

_SOURCES = ("experts/*.py", "tasks/gate/**/*.py")


class Cache:
    """Files under one folder; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def verdict(self, key: str, kernel_id: str, case_id: str) -> Verdict | None:
        """A pass of this kernel on this case through correctness, or None."""
        data = self._read(f"verdicts/{key}.json")
        try:
            found = Verdict.model_validate_json(data) if data is not None else None
        except ValidationError:
            return None
        if found is None or (found.outcome, found.stage) != ("passed", Stage.CORRECTNESS):
            return None
        return found if (found.kernel_id, found.case_id) == (kernel_id, case_id) else None

    def keep_verdict(self, key: str, verdict: Verdict) -> None:
        self._write(f"verdicts/{key}.json", verdict.model_dump_json())

    def artifact(self, key: str) -> Artifact | None:
        """A lowered kernel, or None."""
        data = self._read(f"artifacts/{key}.json")
        if data is None:
            return None
        try:
            value = json.loads(data)
            return Artifact(
                files={name: base64.b64decode(content) for name, content in value["files"].items()},
                entries={
                    name: Entry(
                        tuple((kind, space) for kind, space in entry["arguments"]),
                        entry["local_bytes"],
                        entry["private_bytes"],
                        tuple(entry["group"]),
                        tuple(entry["cluster"]),
                    )
                    for name, entry in value["entries"].items()
                },
                facts=CompileFacts.model_validate(value["facts"]),
                log=value["log"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep_artifact(self, key: str, artifact: Artifact) -> None:
        value = {
            "files": {name: base64.b64encode(content).decode() for name, content in artifact.files.items()},
            "entries": {name: asdict(entry) for name, entry in artifact.entries.items()},
            "facts": artifact.facts.model_dump(),
            "log": artifact.log,
        }
        self._write(f"artifacts/{key}.json", json.dumps(value))

    def device(self, key: str) -> Device | None:
        """What a device says of itself, or None."""
        data = self._read(f"devices/{key}.json")
        try:
            value = json.loads(data) if data is not None else None
            if value is None:
                return None
            limits = value["limits"]
            return Device(Limits(**{**limits, "max_items": tuple(limits["max_items"])}), value["facts"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def keep_device(self, key: str, device: Device) -> None:
        self._write(f"devices/{key}.json", json.dumps(asdict(device)))

    def _read(self, name: str) -> str | None:
        if self._folder is None:
            return None
        try:
            return (self._folder / name).read_text()
        except (OSError, UnicodeDecodeError):
            return None

    def _write(self, name: str, text: str) -> None:
        if self._folder is None:
            return
        path = self._folder / name
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(text)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise


def key(**parts: str) -> str:
    """A cache key of these parts and the gate's source."""
    return content_id({**parts, "source": source_id()})


@functools.cache
def source_id() -> str:
    """Hash of the code that a verdict depends on, the gate and the judges; a case.py is in its case's id."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sources(root):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


def sources(root: Path) -> list[Path]:
    """The files of that code under the folder that the packages lie in."""
    return sorted(path for pattern in _SOURCES for path in root.glob(pattern))
