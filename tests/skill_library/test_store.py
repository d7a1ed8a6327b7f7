"""Cards on disk: written whole, read back equal, and SKILL.md as the Agent Skills format has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from skill_library.document import document
from skill_library.store import Library, LibraryError, stale
from tests.skill_library.cards import skill


def test_a_card_survives_the_disk(tmp_path: Path) -> None:
    library = Library((tmp_path / "skills",))
    library.keep([skill()])
    assert library.skills() == (skill(),)
    assert sorted(path.name for path in (tmp_path / "skills" / "split-accumulator").iterdir()) == [
        "SKILL.md",
        "card.json",
    ]
    assert stale(tmp_path / "skills") == []


def test_the_own_card_counts_before_the_shipped_one(tmp_path: Path) -> None:
    own, shipped = Library((tmp_path / "own", tmp_path / "shipped")), Library((tmp_path / "shipped",))
    shipped.keep([skill(), skill("other")])
    own.keep([skill(standing="quarantined")])
    assert {each.name: each.verification.standing for each in own.skills()} == {
        "other": "admitted",
        "split-accumulator": "quarantined",
    }
    assert shipped.find("split-accumulator").verification.standing == "admitted"


def test_an_edited_document_is_stale(tmp_path: Path) -> None:
    library = Library((tmp_path,))
    library.keep([skill()])
    (tmp_path / "split-accumulator" / "SKILL.md").write_text("mine\n")
    assert stale(tmp_path) == ["split-accumulator"]
    library.keep([skill()])
    assert stale(tmp_path) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 2}', "\x00"])
def test_what_is_no_card_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "card.json").write_text(text)
    with pytest.raises(LibraryError, match=r"card\.json: no card") as caught:
        Library((tmp_path,)).skills()
    assert "\n" not in str(caught.value)


def test_a_card_in_another_folder_is_refused(tmp_path: Path) -> None:
    library = Library((tmp_path,))
    library.keep([skill()])
    (tmp_path / "split-accumulator").rename(tmp_path / "renamed")
    with pytest.raises(LibraryError, match="called 'split-accumulator', its folder 'renamed'"):
        library.skills()


def test_an_empty_library_is_no_error(tmp_path: Path) -> None:
    assert Library((tmp_path / "nothing",)).skills() == ()
    with pytest.raises(LibraryError, match=r"no skill 'x'; there are \(none\)"):
        Library((tmp_path / "nothing",)).find("x")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LibraryError, match="file"):
        Library((tmp_path / "file",)).keep([skill()])


def test_the_document_is_an_agent_skill() -> None:
    text = document(skill())
    _, front, body = text.split("---\n", 2)
    told = yaml.safe_load(front)
    assert told["name"] == "split-accumulator"
    assert 1 <= len(told["description"]) <= 1024 and "loop.extent % vector.width == 0" in told["description"]
    assert len(told["compatibility"]) <= 500
    assert all(isinstance(value, str) for value in told["metadata"].values())
    assert len(body.splitlines()) < 500
    for part in ("`loop.extent % vector.width == 0`", "comes after: unroll-loop", "3.00x (2.80 to 3.20)", "skills why"):
        assert part in body
