"""The command line.

Bad input is one line on stderr and exit code 2; a kernel that the gate rejects is exit code 1. Progress goes to stderr.
`walk` and `demo` call the flows that a deployment runs; the others run without Prefect.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import typer
from typer.main import get_command

from flows.commands import cases, data, demo, doctor, gate, induce, optimize, roundtrip, show, skills, walk
from flows.commands.failure import Failure
from tasks.gate.workers import Stopped, kill_all

app = typer.Typer(
    name="klineage",
    help="Learns when GPU kernel optimizations are sound, by walking expert kernels backward through a gate.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
# Every fault of a command line, whether typer brings its own click or uses the installed one.
_COMMAND_LINE_ERROR: Any = typer.BadParameter.__mro__[2]

app.command("doctor")(doctor.command)
app.command("gate")(gate.command)
app.command("cases")(cases.command)
app.command("walk")(walk.command)
app.command("show")(show.command)
app.command("induce")(induce.command)
app.command("roundtrip")(roundtrip.command)
app.command("optimize")(optimize.command)
app.command("demo")(demo.command)
app.add_typer(skills.app, name="skills")
app.add_typer(data.app, name="data")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `klineage`; ends the process with the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = get_command(app).main(args=given, prog_name="klineage", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Failure as failure:
        return _refuse(str(failure))
    except _COMMAND_LINE_ERROR as error:
        context = getattr(error, "ctx", None)
        return _refuse(f"{context.command_path + ': ' if context else ''}{error.format_message()}")
    except (typer.Abort, KeyboardInterrupt, Stopped):
        return _refuse("interrupted")
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody to tell.
        sys.stderr.close()
        return 0


def _stop(number: int, frame: FrameType | None) -> None:
    """End the workers first, so that whoever waits for them unwinds and leaves no folder behind."""
    kill_all()
    raise SystemExit(128 + number)


def _refuse(message: str) -> int:
    sys.stderr.write(f"klineage: {' '.join(message.split())}\n")
    return 2


if __name__ == "__main__":
    main()
