"""`klineage skills`: the library, one card, a search, and the rows behind a card."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict

from flows.commands import options
from flows.commands.failure import Failure
from skill_library.skill import Skill
from skill_library.store import Library, LibraryError
from tasks.evidence import Evidence, StoreError

app = typer.Typer(help="The skill library.", invoke_without_command=True)
Name = Annotated[str, typer.Argument(help="The skill's name", metavar="SKILL")]
Cards = Annotated[
    Path | None, typer.Option("--cards", help="A folder of skills to read instead of the library.", metavar="DIR")
]


class SkillLine(BaseModel):
    """A skill in a line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    intent: str
    skill_id: str
    standing: str
    preconditions: tuple[str, ...]
    prior: tuple[str, ...]
    speeds_up: bool
    when: str


class SkillsReport(BaseModel):
    """What `klineage skills --json` and `skills search --json` print."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skills: tuple[SkillLine, ...]


@app.callback()
def listing(
    context: typer.Context,
    data: options.Data = None,
    cards: Cards = None,
    as_json: options.Json = False,
) -> int:
    """List the skills."""
    if context.invoked_subcommand is not None:
        return 0
    return _list(_read(data, cards).skills(), as_json)


@app.command("show")
def show(name: Name, data: options.Data = None, cards: Cards = None, as_json: options.Json = False) -> int:
    """One card: where, when, what it is worth, how it fails, how it is written."""
    skill = _found(_read(data, cards), name)
    if as_json:
        sys.stdout.write(skill.model_dump_json() + "\n")
    else:
        from flows.skill_view import print_card

        print_card(skill)
    return 0


@app.command("search")
def search(
    words: Annotated[list[str], typer.Argument(help="What to look for: each word must be on the card")],
    data: options.Data = None,
    cards: Cards = None,
    as_json: options.Json = False,
) -> int:
    """The skills whose cards hold all the words."""
    from skill_library.retrieval import search as searched

    return _list(searched(_read(data, cards).skills(), " ".join(words)), as_json)


@app.command("why")
def explain(
    name: Name,
    data: options.Data = None,
    shipped: options.Shipped = None,
    cards: Cards = None,
    as_json: options.Json = False,
) -> int:
    """Every claim of a card with the rows that it rests on."""
    from tasks.induce.why import why

    skill = _found(_read(data, cards), name)
    try:
        with Evidence(options.roots(data, shipped)) as evidence:
            report = why(skill, evidence)
    except StoreError as error:
        raise Failure(str(error)) from None
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        from flows.skill_view import print_why

        print_why(report)
    return 0


def _read(data: Path | None, cards: Path | None) -> Library:
    if cards is not None and not cards.is_dir():
        raise Failure(f"the folder of skills {cards} does not exist")
    library = Library((cards,)) if cards is not None else Library.at(options.roots(data).user)
    try:
        library.skills()
    except LibraryError as error:
        raise Failure(str(error)) from None
    return library


def _found(library: Library, name: str) -> Skill:
    try:
        return library.find(name)
    except LibraryError as error:
        raise Failure(str(error)) from None


def _list(skills: tuple[Skill, ...], as_json: bool) -> int:
    if as_json:
        lines = tuple(
            SkillLine(
                name=each.name,
                intent=each.intent,
                skill_id=each.skill_id,
                standing=each.verification.standing,
                preconditions=tuple(condition.text for condition in each.preconditions.all_of),
                prior=each.scope.prior,
                speeds_up=each.speeds_up,
                when=each.when,
            )
            for each in skills
        )
        sys.stdout.write(SkillsReport(skills=lines).model_dump_json() + "\n")
    else:
        from flows.skill_view import print_skills

        print_skills(skills)
    return 0
