"""The picture of a ladder: how long each state takes, and what each rung is worth."""

from __future__ import annotations

import base64
import io

from experts.verdict import Effect
from skill_library.ladder import Ladder

_COLOURS = {
    Effect.FASTER: "#1a7f37",
    Effect.SLOWER: "#cf222e",
    Effect.TIE: "#57606a",
    Effect.UNDECIDED: "#bf8700",
}
_DPI = 110


def png(ladder: Ladder) -> bytes:
    """A PNG: each state's time in units of the expert's (log scale), and each rung's forward effect and interval."""
    # The object-oriented interface: no display, no global state, safe in threads.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rungs = ladder.rungs
    labels = ["expert", *(f"- {rung.intent}" for rung in rungs)]
    figure = Figure(figsize=(11, 1.6 + 0.34 * len(labels)), layout="constrained")
    FigureCanvasAgg(figure)
    times, effects = figure.subplots(1, 2, sharey=True)
    places = list(range(len(labels)))
    states = [1.0, *ladder.slowdowns]
    known = [(place, value) for place, value in zip(places, states, strict=True) if value is not None]
    times.barh([place for place, _ in known], [value for _, value in known], color="#0969da", height=0.6)
    times.set_xscale("log")
    times.set_xlabel("t(state) / t(expert)")
    times.set_yticks(places, labels)
    times.invert_yaxis()
    for place, rung in enumerate(rungs, start=1):
        if rung.here is None:
            continue
        found = rung.here
        effects.errorbar(
            found.ratio,
            place,
            xerr=[[found.ratio - found.low], [found.high - found.ratio]],
            fmt="o",
            color=_COLOURS[found.effect],
            capsize=3,
        )
    effects.axvline(1.0, color="#57606a", linewidth=0.8)
    effects.set_xscale("log")
    effects.set_xlabel("effect of putting it back: t(without) / t(with), 95 %")
    figure.suptitle(f"{ladder.case} on {ladder.platform}, lineage {ladder.lineage_id}", fontsize=10)
    out = io.BytesIO()
    figure.savefig(out, dpi=_DPI, format="png")
    return out.getvalue()


def data_uri(ladder: Ladder) -> str:
    """The same as a `data:` address."""
    return "data:image/png;base64," + base64.b64encode(png(ladder)).decode()
