"""Pictures of fits and predictions: one panel a run, the loss above and what the law leaves unexplained below.

A continual run also shows its transfer step and the two hidden curves it moves between. Colours are Okabe and Ito's,
which colour-blind readers can tell apart; every line differs in its dashes too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, Int
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from cptjax.fitting import FitResult
from cptjax.laws import ContinualLaw
from cptjax.runs import Run

__all__ = ["plot_fit", "save"]

OBSERVED, FITTED, STAY, SCRATCH, TRANSFER = "#000000", "#0072B2", "#009E73", "#D55E00", "#999999"
PANELS = 12
COLUMNS = 3
CURVE_POINTS = 200


@dataclass(frozen=True)
class _Panel:
    """What one panel shows: the law at ``steps``, the data at the ``seen`` ones among them."""

    run: Run
    steps: Int[np.ndarray, " n"]
    fitted: Float[np.ndarray, " n"]
    seen: Int[np.ndarray, " m"]
    loss: Float[np.ndarray, " m"]
    residual: Float[np.ndarray, " m"]
    stay: Float[np.ndarray, " n"] | None = None
    scratch: Float[np.ndarray, " n"] | None = None


def plot_fit(result: FitResult, runs: Sequence[Run], title: str | None = None) -> Figure:
    """Data, fit and residuals of every run that observes the fitted loss, or the bare prediction of the others.

    Args:
        result: the fit.
        runs: what to show. Of more than 12, the 12 with the largest errors.
        title: line at the top; by default the law and its metrics.
    """
    shown, kept_out = _chosen(result, runs)
    panels = _panels(result, shown)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(
            figsize=(max(4.2 * columns, 6.4), 3.1 * rows + 1.0), layout=ConstrainedLayoutEngine(h_pad=0.04, hspace=0.0)
        )
        FigureCanvasAgg(figure)
        lines = (title or _title(result, kept_out)).replace(" · ", " · " if columns == COLUMNS else "\n")
        figure.suptitle(_plain(lines), fontsize=11, parse_math=False)
        grid = figure.add_gridspec(rows, columns)
        handles: dict[str, Artist] = {}
        bound = max((float(np.max(np.abs(panel.residual), initial=0)) for panel in panels), default=0.0)
        for index, panel in enumerate(panels):
            cell = grid[index // columns, index % columns].subgridspec(2, 1, height_ratios=(3, 1), hspace=0.05)
            top = figure.add_subplot(cell[0])
            bottom = figure.add_subplot(cell[1], sharex=top)
            _draw(top, bottom, panel, bound)
            bottom.set_xlabel("step" if index + columns >= len(panels) else "")
            if index % columns == 0:
                top.set_ylabel(_plain(f"{result.loss} (nats)"), parse_math=False)
                bottom.set_ylabel("residual\n(mnats)")
            for handle, label in zip(*top.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        legend_columns = 5 if columns == COLUMNS else columns + 1
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=legend_columns, frameon=False
        )
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure at 130 dots an inch; the suffix decides the format."""
    figure.savefig(path, dpi=130)


def _plain(text: str) -> str:
    """A user's words as Matplotlib can draw them: what is no Unicode text escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _chosen(result: FitResult, runs: Sequence[Run]) -> tuple[list[Run], int]:
    if len(runs) <= PANELS:
        return list(runs), 0
    errors = {name: figures["mae"] for name, figures in result.evaluate(runs)["runs"].items()}
    worst = set(sorted(range(len(runs)), key=lambda i: -errors.get(runs[i].id, 0.0))[:PANELS])
    return [run for i, run in enumerate(runs) if i in worst], len(runs) - PANELS


def _title(result: FitResult, kept_out: int) -> str:
    parts = [f"{result.law.name} law, {result.law.kernel.name} kernel"]
    for split, words in (("fit", "fitted runs"), ("test", "held-out runs")):
        if figures := result.metrics.get(split):
            parts.append(f"{words} R² {figures['r2']:.4f}, mean error {1e3 * figures['mae']:.1f} mnats")
    if kept_out:
        parts.append(f"the {PANELS} largest errors of {PANELS + kept_out} runs")
    return " · ".join(parts)


def _panels(result: FitResult, runs: Sequence[Run]) -> list[_Panel]:
    """The curves of all panels, evaluated together."""
    seen = [_visible(result, run) for run in runs]
    grids = [
        np.union1d(np.linspace(_start(result, run, at), run.total_steps, CURVE_POINTS).astype(int), at)
        for run, at in zip(runs, seen, strict=True)
    ]
    fitted = result.predict_runs(runs, grids)
    panels = []
    for i, (run, at, steps) in enumerate(zip(runs, seen, grids, strict=True)):
        observed, losses = run.observed(result.loss)
        loss = losses[np.isin(observed, at)]
        panels.append(_Panel(run, steps, fitted[i], at, loss, loss - fitted[i][np.isin(steps, at)]))
    if not isinstance(result.law, ContinualLaw) or all(run.transfer_step is None for run in runs):
        return panels
    limits = [replace(result, params=dict(each)) for each in result.law.limits(result.params)]
    curves = zip(panels, *(each.predict_runs(runs, grids) for each in limits), strict=True)
    return [_with_hidden(panel, stay, scratch) for panel, stay, scratch in curves]


def _with_hidden(panel: _Panel, stay: Float[np.ndarray, " n"], scratch: Float[np.ndarray, " n"]) -> _Panel:
    if panel.run.transfer_step is None:
        return panel
    after = panel.steps > panel.run.transfer_step
    return replace(panel, stay=np.where(after, stay, np.nan), scratch=np.where(after, scratch, np.nan))


def _visible(result: FitResult, run: Run) -> Int[np.ndarray, " m"]:
    """The observed steps to show: behind the steep first 4 % of training, and not far before a transfer."""
    seen = run.observed(result.loss)[0]
    return seen[result.law.usable(run, seen) & (seen >= _first_shown(run))]


def _first_shown(run: Run) -> int:
    start, transfer = run.total_steps // 25, run.transfer_step
    return start if transfer is None else max(min(start, transfer), transfer - (run.total_steps - transfer) // 2)


def _start(result: FitResult, run: Run, seen: Int[np.ndarray, " m"]) -> int:
    """Where the curve of a panel starts: with the data, or where the law begins to speak of a run without any."""
    if seen.size > 1:
        return int(seen[0])
    speaks_from = 1 if result.law.usable(run, np.array([1]))[0] else run.transfer_step or 0
    return max(speaks_from, _first_shown(run))


def _draw(top: Axes, bottom: Axes, panel: _Panel, bound: float) -> None:
    run = panel.run
    if run.transfer_step is not None:
        for axes in (top, bottom):
            axes.axvline(run.transfer_step, color=TRANSFER, lw=1.2, ls=(0, (1, 1)), label="transfer to new data")
    if panel.stay is not None and panel.scratch is not None:
        top.plot(panel.steps, panel.stay, color=STAY, lw=1.3, ls="--", label="stayed on old data (hidden)")
        top.plot(panel.steps, panel.scratch, color=SCRATCH, lw=1.3, ls="-.", label="from scratch on new data (hidden)")
    size = 7 if panel.seen.size < 80 else 3
    dots = {"s": size, "color": OBSERVED, "alpha": 0.6, "lw": 0}
    if panel.seen.size:
        top.scatter(panel.seen, panel.loss, label="observed", **dots)
    top.plot(panel.steps, panel.fitted, color=FITTED, lw=1.4, label="law")
    kind = {"fit": "fitted", "test": "held out"}[run.split] if panel.seen.size else "predicted"
    error = f", {1e3 * float(np.mean(np.abs(panel.residual))):.1f} mnats" if panel.seen.size else ""
    top.set_title(_plain(f"{run.id} ({kind}{error})"), fontsize=9, parse_math=False)
    top.tick_params(labelbottom=False)
    top.margins(x=0.01)
    bottom.axhline(0, color=FITTED, lw=1)
    bottom.scatter(panel.seen, 1e3 * panel.residual, **dots)
    if 0 < bound < np.inf:
        bottom.set_ylim(-1050 * bound, 1050 * bound)
    bottom.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:g}k" if abs(x) >= 10_000 else f"{x:g}"))
