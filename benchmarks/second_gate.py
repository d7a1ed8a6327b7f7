"""Every state of a lineage through a second gate: fresh inputs, nothing cached, and the sanitizer.

    python -m benchmarks.second_gate --data .klineage --lineage last

A row a state. Wanted: all pass, and are clean.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from experts import catalog, platform
from experts.kernel import parse
from skill_library.ladder import ladder, resolve
from tasks.evidence import Roots
from tasks.evidence.store import Evidence
from tasks.gate.runner import Settings, gate


def main() -> None:
    """Gate all states of one lineage again."""
    arguments = _arguments()
    with Evidence(Roots.find(data=arguments.data)) as evidence:
        transitions = evidence.read("transitions")
        found = ladder(evidence.read("attempts"), transitions, resolve(transitions, arguments.lineage))
        texts = evidence.read("kernels").set_index("kernel_id")["text"]
    case = catalog.find(found.case, "opencl", catalog.roots())
    settings = Settings(platform=platform.named(found.platform), tier="sanitize", profile=False)
    passed = 0
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("lineage_id", "case", "state", "taken_out", "kernel_id", "status", "clean", "error", "calls"))
        for number, kernel_id in enumerate(found.states):
            verdict = gate(parse(texts[kernel_id], surface="opencl"), case, settings).verdict
            passed += verdict.status == "ok" and verdict.clean is True
            figures = verdict.correctness
            writer.writerow(
                (
                    found.lineage_id,
                    found.case,
                    number,
                    found.rungs[number - 1].intent if number else "",
                    kernel_id,
                    verdict.status,
                    verdict.clean,
                    f"{figures.error:.3g}" if figures else "",
                    figures.launches if figures else "",
                )
            )
            file.flush()
    print(f"{found.case}, lineage {found.lineage_id}: {passed} of {len(found.states)} states pass and are clean")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Every state of a lineage through a second gate.")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--lineage", default="last")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
