"""Probes without a command line: `python -m tests.probe.driver ROOT`; for tests that kill it."""

from __future__ import annotations

import sys
from pathlib import Path

from tasks.probe.run import opened, run
from tests.probe.kernels import job

if __name__ == "__main__":
    work = job(Path(sys.argv[1]))
    with opened(work) as desk:
        sys.stdout.write(run(work, desk).model_dump_json() + "\n")
