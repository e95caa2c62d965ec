"""The story of cptjax on real curves: fit both losses on some runs, test them on runs of other kinds, decide.

The curves are the strong shift of the data set that ships with the package (:mod:`cptjax.datasets`): tiny models
pre-trained on English dictionaries and moved to Python code. The decision, how much old data to replay, is compared
with runs that were really trained, some of them never fitted.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cptjax.areas import Momentum
from cptjax.datasets import dataset_manifest
from cptjax.fitting import FitResult, fit
from cptjax.laws import CrossingLaw, ShareReplay
from cptjax.outputs import claim, write_fit, write_plot, written
from cptjax.readers import read_manifest
from cptjax.runs import Run, Runs
from cptjax.schedules import Phase

__all__ = ["run_demo"]

DATASET, CURVES = "tiny-cpt/code", "curves.csv.gz"
OLD, NEW = "loss_pt", "loss_code"
PLAN = "code_linear"
RATIOS = np.linspace(0, 0.8, 17)
WEIGHT = 0.5


def run_demo(out: Path, force: bool, seed: int, echo: Callable[[str], None]) -> None:
    """Fit both losses of the shipped curves, test them, choose a replay ratio; everything is left in ``out``.

    Raises:
        InputError: a file is there already and ``force`` is not set.
    """
    names = (CURVES, "runs.toml", "fit_old.json", "fit_old.png", "fit_new.json", "fit_new.png")
    curves, manifest, *reports = claim(out, names, force)
    shipped = dataset_manifest(DATASET)
    for source, copy in ((shipped.with_name(CURVES), curves), (shipped, manifest)):
        with written(copy) as beside:
            shutil.copyfile(source, beside)
    runs = read_manifest(manifest)
    echo(f"Real curves of 0.1M-parameter models, pre-trained on dictionaries, moved to Python code: {manifest}")
    echo(f"{len(runs.fit)} runs to fit on; {len(runs.test)} held out: other schedules, replay ratios, longer runs\n")
    fitted = {}
    for loss, report, picture in ((OLD, *reports[:2]), (NEW, *reports[2:])):
        law = CrossingLaw(Momentum(None), ShareReplay())
        fitted[loss] = fit(law, runs.fit, loss, report=runs.test, seed=seed)
        write_fit(report, fitted[loss])
        write_plot(picture, fitted[loss], runs)
        echo(f"{fitted[loss].summary()}\nwrote {report} and {picture}\n")
    for kind, loss in (("old", OLD), ("new", NEW)):
        error = 100 * fitted[loss].metrics["test"]["mean_rel"]
        echo(f"Held-out runs, loss on {kind} data: off by {error:.2f} % on average")
    _decide(runs, fitted[OLD], fitted[NEW], echo)


def _trained(runs: Runs) -> dict[float, Run]:
    """The runs that differ from the planned one in their replay ratio only, by that ratio."""
    plan = runs[PLAN]
    alike = [run for run in runs if len(run.phases) == len(plan.phases) and np.array_equal(run.rates, plan.rates)]
    return {round(float(run.phases[-1].replay_ratio), 4): run for run in alike}


def _decide(runs: Runs, old: FitResult, new: FitResult, echo: Callable[[str], None]) -> None:
    """Which share of old data to replay in a run, by the fitted laws, beside what was really trained."""
    trained, plan = _trained(runs), runs[PLAN]
    base, continual = plan.phases
    ratios = np.unique(np.round(np.concatenate([RATIOS, list(trained)]), 4))
    plans = [(base, Phase(continual.schedule, "cpt", float(ratio))) for ratio in ratios]
    asked = [Run(f"{r:.2f}", phases, np.empty(0, dtype=int), {}) for r, phases in zip(ratios, plans, strict=True)]
    end = [np.array([plan.total_steps])] * len(asked)
    both = [np.concatenate(result.predict_runs(asked, end)) for result in (old, new)]
    mixed = WEIGHT * both[0] + (1 - WEIGHT) * both[1]
    seen = {
        ratio: WEIGHT * run.observed(OLD)[1][-1] + (1 - WEIGHT) * run.observed(NEW)[1][-1]
        for ratio, run in trained.items()
    }
    best, steps = float(ratios[np.argmin(mixed)]), continual.schedule.steps
    echo(f"\nDecision: how much old data to replay in {steps} steps of linear decay, both losses weighed {WEIGHT:g}?")
    echo("  replay   mean of both losses: predicted, really trained")
    for ratio in sorted(trained):
        held_out = "  held out" if trained[ratio].split == "test" else ""
        echo(f"  {ratio:6.2f}   {mixed[ratios == ratio][0]:.4f}  {seen[ratio]:.4f}{held_out}")
    tried = min(seen, key=seen.__getitem__)
    nearest = min(seen, key=lambda ratio: abs(ratio - best))
    gap = 1e3 * (seen[nearest] - seen[tried])
    ending = (
        "the law's own or nearest." if nearest == tried else f"{gap:.1f} mnats below the law's nearest, {nearest:.2f}."
    )
    echo(f"Replay {best:.2f}, says the law. Of the ratios really trained {tried:.2f} was best: {ending}")
