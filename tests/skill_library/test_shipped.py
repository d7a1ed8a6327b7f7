"""The shipped cards against the shipped evidence: each claim is computed again from rows, and every row is there."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from experts import catalog
from flows import cli
from flows.commands import schemas
from skill_library.skill import Skill
from skill_library.store import SHIPPED, Library, stale
from tasks.evidence import Evidence, Roots
from tasks.induce.induce import induce
from tasks.induce.steps import Known

DATA = Path(__file__).parents[2] / "data"
SHIPPED_SKILLS = Library((SHIPPED,)).skills()
NAMES = [skill.name for skill in SHIPPED_SKILLS]


@pytest.fixture(scope="module")
def induced(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Skill]:
    """What induction makes of the shipped rows, without a probe or a gate."""
    folder = tmp_path_factory.mktemp("induced")
    with Evidence(Roots(folder, DATA)) as evidence:
        known = Known(evidence)
    library = Library((folder / "skills",))
    report = induce(known, library, catalog.roots())
    assert report.unreadable == 0
    return {skill.name: skill for skill in library.skills()}


def test_at_least_three_are_admitted_each_with_a_condition_or_the_reason_why_none_can_be_false() -> None:
    assert sum(skill.verification.standing == "admitted" for skill in SHIPPED_SKILLS) >= 3
    assert any(skill.preconditions.all_of for skill in SHIPPED_SKILLS)
    for skill in SHIPPED_SKILLS:
        assert skill.preconditions.kind in ("recovered", "none_needed")
        assert bool(skill.preconditions.all_of) == (skill.preconditions.kind == "recovered")
        assert skill.preconditions.reason


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_what_the_rows_say(name: str, induced: dict[str, Skill]) -> None:
    shipped = next(skill for skill in SHIPPED_SKILLS if skill.name == name)
    assert induced[name].model_dump(exclude={"verification"}) == shipped.model_dump(exclude={"verification"})
    assert induced[name].skill_id == shipped.skill_id


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_leads_to_rows(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["skills", "why", name, "--data", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, json.loads((schemas.FOLDER / "skills-why.json").read_text()))
    assert report["missing"] == 0
    assert {"carrier", "preconditions", "effects", "verification"} <= {claim["field"] for claim in report["claims"]}
    assert all(claim["rows"] for claim in report["claims"])


def test_documents_are_made_from_their_cards() -> None:
    assert stale(SHIPPED) == []


def test_the_library_is_listed_shown_and_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(tmp_path)]
    assert cli.run(["skills", "--json", *data]) == 0
    listed = json.loads(capsys.readouterr().out)
    jsonschema.validate(listed, json.loads((schemas.FOLDER / "skills.json").read_text()))
    assert [skill["name"] for skill in listed["skills"]] == NAMES
    assert cli.run(["skills", "show", NAMES[0], "--json", *data]) == 0
    jsonschema.validate(
        json.loads(capsys.readouterr().out), json.loads((schemas.FOLDER / "skills-show.json").read_text())
    )
    assert cli.run(["skills", "search", NAMES[0], *data]) == 0
    assert NAMES[0] in capsys.readouterr().out
    for arguments in (["skills"], ["skills", "show", NAMES[0]], ["skills", "why", NAMES[0]]):
        assert cli.run([*arguments, *data]) == 0
        assert NAMES[0] in capsys.readouterr().out
