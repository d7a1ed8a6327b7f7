"""Cards on disk: a folder for each skill with card.json, which is the truth, and SKILL.md, made from it.

Shipped cards come with the package (skill_library/cards/) and are read only; the user's are in `skills/` of the data
root. Readers take both: of two cards with one name the user's counts. Writers touch only the user's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from skill_library.document import document
from skill_library.skill import Skill

SHIPPED = Path(__file__).parent / "cards"
CARD, DOCUMENT = "card.json", "SKILL.md"


class LibraryError(Exception):
    """A card that cannot be read or written, or a skill that is not there; one line."""


@dataclass(frozen=True)
class Library:
    """Where cards are: folders that are read, the first before the others, and the one that is written."""

    folders: tuple[Path, ...]

    @classmethod
    def at(cls, root: Path, *, shipped: bool = True) -> Library:
        """The user's cards under a data root, and the shipped ones."""
        return cls((root / "skills", *((SHIPPED,) if shipped else ())))

    @property
    def own(self) -> Path:
        """The folder that is written."""
        return self.folders[0]

    def skills(self) -> tuple[Skill, ...]:
        """Every skill by name, the own before the shipped of that name. Raises LibraryError."""
        found: dict[str, Skill] = {}
        for folder in self.folders:
            for path in sorted(folder.glob(f"*/{CARD}")) if folder.is_dir() else ():
                skill = read(path)
                found.setdefault(skill.name, skill)
        return tuple(found[name] for name in sorted(found))

    def find(self, wanted: str) -> Skill:
        """The skill of that name. Raises LibraryError."""
        known = {skill.name: skill for skill in self.skills()}
        if wanted not in known:
            raise LibraryError(f"there is no skill {wanted!r}; there are {', '.join(known) or '(none)'}")
        return known[wanted]

    def keep(self, skills: Iterable[Skill]) -> None:
        """Write cards, each whole or not at all. Raises LibraryError."""
        for skill in skills:
            write(self.own, skill)


def read(path: Path) -> Skill:
    """The skill of one card.json. Raises LibraryError."""
    try:
        skill = Skill.model_validate_json(path.read_bytes())
    except OSError as error:
        raise LibraryError(f"{path}: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise LibraryError(f"{path}: no card: {where}: {first['msg']}") from None
    if skill.name != path.parent.name:
        raise LibraryError(f"{path}: the skill is called {skill.name!r}, its folder {path.parent.name!r}")
    return skill


def card_text(skill: Skill) -> str:
    """card.json, as it is written."""
    return skill.model_dump_json(indent=1) + "\n"


def write(folder: Path, skill: Skill) -> None:
    """Put a skill's folder in place of an older one. Raises LibraryError."""
    target = folder / skill.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{skill.name}-", dir=folder))
        try:
            fresh.chmod(0o755)
            (fresh / CARD).write_text(card_text(skill), encoding="utf-8")
            (fresh / DOCUMENT).write_text(document(skill), encoding="utf-8")
            if target.is_dir():
                # Files are replaced one by one: a reader finds a whole card at any moment.
                for name in (CARD, DOCUMENT):
                    os.replace(fresh / name, target / name)
            else:
                os.replace(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise LibraryError(f"{target}: {error.strerror or error}") from None


def stale(folder: Path) -> Sequence[str]:
    """Names of the skills under a folder whose SKILL.md is not what its card says. Raises LibraryError."""
    found = []
    for path in sorted(folder.glob(f"*/{CARD}")):
        skill = read(path)
        written = path.parent / DOCUMENT
        if not written.is_file() or written.read_text(encoding="utf-8") != document(skill):
            found.append(skill.name)
    return found
