"""The JSON Schemas of what the commands print with `--json`, shipped in flows/schemas/.

Made by `python -m flows.commands.schemas`.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from experts.verdict import GateReport
from flows.commands.cases import CasesReport
from flows.commands.data import CheckReport, CompactReport, PromoteReport
from flows.commands.doctor import DoctorReport
from flows.commands.skills import SkillsReport
from skill_library.ladder import Ladder
from skill_library.skill import Skill
from tasks.induce.report import InduceReport
from tasks.induce.why import WhyReport
from tasks.optimize.report import OptimizeReport
from tasks.roundtrip.report import RoundtripReport
from tasks.walk.report import WalkReport

FOLDER = Path(__file__).parents[1] / "schemas"
MODELS: dict[str, type[BaseModel]] = {
    "gate": GateReport,
    "cases": CasesReport,
    "doctor": DoctorReport,
    "walk": WalkReport,
    "show": Ladder,
    "induce": InduceReport,
    "roundtrip": RoundtripReport,
    "optimize": OptimizeReport,
    "skills": SkillsReport,
    "skills-show": Skill,
    "skills-why": WhyReport,
    "data-compact": CompactReport,
    "data-check": CheckReport,
    "data-promote": PromoteReport,
}


def text(name: str) -> str:
    """The schema of one command, as it is shipped."""
    schema = MODELS[name].model_json_schema(mode="serialization")
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in MODELS:
        (FOLDER / f"{each}.json").write_text(text(each))
