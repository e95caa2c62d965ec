"""The story of cptjax on a handful of curves: fit both losses on short pilots, test them on other runs, decide.

The curves are simulated from the constants that Wang et al. (2025), arXiv:2505.07796, published for a 106M model
(FineWeb as the old domain, Knowledge-Pile as the new one), with our replay factors and with noise that lasts a few
evaluations.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from cptjax.fitting import FitResult, fit
from cptjax.laws import CPTLaw, Law, ShareReplay, published
from cptjax.outputs import claim, write_fit, write_plot, written
from cptjax.readers import read_manifest
from cptjax.readers.phases import phase_to_dict
from cptjax.runs import Run, Runs
from cptjax.schedules import WSD, Constant, Cosine, Linear, Phase, Schedule

__all__ = ["run_demo", "simulate"]

OLD, NEW = "loss_old", "loss_new"
PEAK = 2e-4
BASE_STEPS = 20_000
PILOT_STEPS, LONG_STEPS = 6_000, 20_000
EVERY = 200
NOISE, MEMORY = 1.5e-3, 0.5
WEIGHT = 0.5
Split = Literal["fit", "test"]


def _truths() -> dict[str, tuple[Law, dict[str, float]]]:
    old = published("fineweb/knowledge-pile/106M")[1] | {"replay_gamma": 0.0, "replay_epsilon": 0.029}
    new = published("knowledge-pile/106M")[1] | {"replay_k": 0.147}
    return {OLD: (CPTLaw(replay=ShareReplay("pt")), old), NEW: (CPTLaw(replay=ShareReplay("cpt")), new)}


def _base(potential: float) -> Phase:
    """Pre-training that ends at ``potential`` times its peak LR."""
    if potential == 1:
        return Phase(Constant(PEAK, steps=BASE_STEPS, warmup=500))
    return Phase(WSD(PEAK, potential * PEAK, steps=BASE_STEPS, warmup=500, decay_start=BASE_STEPS * 4 // 5))


def _grid() -> list[tuple[str, Split, tuple[Phase, ...]]]:
    """Name, split and phases of every run: short pilots to fit on, other kinds and longer ones held out."""

    def run(
        name: str, split: Split, potential: float, replay: float, schedule: Schedule
    ) -> tuple[str, Split, tuple[Phase, ...]]:
        return name, split, (_base(potential), Phase(schedule, "cpt", replay))

    n, long = PILOT_STEPS, LONG_STEPS
    return [
        run("pilot_linear", "fit", 1, 0.0, Linear(PEAK, 0, steps=n)),
        run("pilot_constant", "fit", 1, 0.0, Constant(PEAK, steps=n)),
        run("pilot_annealed_base", "fit", 0, 0.0, WSD(PEAK, 0, steps=n, decay_start=n // 2, warmup=300)),
        run("pilot_replay_20", "fit", 1, 0.2, Linear(PEAK, 0, steps=n)),
        run("pilot_replay_60", "fit", 1, 0.6, Linear(PEAK, 0, steps=n)),
        run("long_cosine", "test", 1, 0.0, Cosine(PEAK, 0, steps=long)),
        run("long_cosine_replay_40", "test", 1, 0.4, Cosine(PEAK, 0, steps=long)),
        run("half_annealed_base", "test", 0.3, 0.0, Cosine(PEAK, 0, steps=long // 2, warmup=300)),
    ]


def simulate(seed: int = 0) -> Runs:
    """The demo's runs: both laws at their published constants, times autocorrelated log-noise."""
    rng = np.random.default_rng(seed)
    truths = _truths()
    runs = []
    for name, split, phases in _grid():
        total = sum(phase.schedule.steps for phase in phases)
        steps = np.arange(BASE_STEPS // 2, total + 1, EVERY)
        clean = {loss: np.asarray(law.predict(params, phases, steps)) for loss, (law, params) in truths.items()}
        losses = {loss: values * np.exp(_noise(rng, steps.size)) for loss, values in clean.items()}
        runs.append(Run(name, phases, steps, losses, split))
    return Runs(tuple(runs), "demo, simulated")


def _noise(rng: np.random.Generator, size: int) -> Float[np.ndarray, " n"]:
    """A stationary AR(1) of standard deviation ``NOISE``."""
    fresh = rng.standard_normal(size) * NOISE
    kept = fresh.copy()
    for i in range(1, size):
        kept[i] = MEMORY * kept[i - 1] + np.sqrt(1 - MEMORY**2) * fresh[i]
    return kept


def run_demo(out: Path, force: bool, seed: int, echo: Callable[[str], None]) -> None:
    """Simulate, write the curves, fit both losses, test, choose a replay ratio; everything is left in ``out``.

    Raises:
        InputError: a file is there already and ``force`` is not set.
    """
    names = ("curves.csv", "runs.toml", "fit_old.json", "fit_old.png", "fit_new.json", "fit_new.png")
    curves, manifest, *reports = claim(out, names, force)
    echo("Simulated curves: the law of Wang et al. (2025) at its published 106M constants, with noise. Not real data.")
    _write_curves(simulate(seed), curves, manifest)
    runs = read_manifest(manifest)
    echo(f"{len(runs.fit)} short pilots to fit on, {len(runs.test)} other runs held out: {manifest}\n")
    fitted = {}
    for loss, report, picture in ((OLD, *reports[:2]), (NEW, *reports[2:])):
        fitted[loss] = fit(CPTLaw(replay=ShareReplay()), runs.fit, loss, report=runs.test, seed=seed)
        write_fit(report, fitted[loss])
        write_plot(picture, fitted[loss], runs)
        echo(f"{fitted[loss].summary()}\nwrote {report} and {picture}\n")
    _decide(fitted[OLD], fitted[NEW], echo)


def _write_curves(runs: Runs, curves: Path, manifest: Path) -> None:
    with written(curves) as beside, beside.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(("run", "step", OLD, NEW))
        for run in runs:
            for i, step in enumerate(run.steps):
                rows.writerow((run.id, int(step), *(f"{run.losses[name][i]:.5f}" for name in (OLD, NEW))))
    with written(manifest) as beside:
        beside.write_text(_manifest(runs, curves.name))


def _manifest(runs: Runs, file: str) -> str:
    lines = [f"name = {json.dumps(runs.name)}"]
    for run in runs:
        lines += ["", "[[run]]", f'id = "{run.id}"', f'file = "{file}"', f'where = {{ run = "{run.id}" }}']
        lines += [f'split = "{run.split}"']
        for phase in run.phases:
            content = phase_to_dict(phase)
            schedule = ", ".join(f"{key} = {json.dumps(value)}" for key, value in content.pop("schedule").items())
            lines += ["  [[run.phase]]", *(f"  {key} = {json.dumps(value)}" for key, value in content.items())]
            lines += [f"  schedule = {{ {schedule} }}"]
    return "\n".join(lines) + "\n"


def _decide(old: FitResult, new: FitResult, echo: Callable[[str], None]) -> None:
    """Which share of old data to replay in a long run, by the fitted laws and by the truth."""
    ratios = np.linspace(0, 1, 21)
    base = _base(1)
    plans = [(base, Phase(Cosine(PEAK, 0, steps=LONG_STEPS), "cpt", float(ratio))) for ratio in ratios]
    runs = [Run(f"{r:.2f}", phases, np.empty(0, dtype=int), {}) for r, phases in zip(ratios, plans, strict=True)]
    end = [np.array([BASE_STEPS + LONG_STEPS])] * len(runs)
    predicted = [np.concatenate(result.predict_runs(runs, end)) for result in (old, new)]
    laws = [_truths()[name] for name in (OLD, NEW)]
    truth = [np.array([float(law.predict(p, phases, end[0])[0]) for phases in plans]) for law, p in laws]
    mixed, true = (WEIGHT * x[0] + (1 - WEIGHT) * x[1] for x in (predicted, truth))
    best = int(np.argmin(mixed))
    echo(f"Decision: how much old data to replay in {LONG_STEPS} steps of cosine, both losses weighed {WEIGHT:g}?")
    echo("  replay   mean of both losses, predicted (truth)")
    for i in range(0, len(ratios), 2):
        echo(f"  {ratios[i]:6.2f}   {mixed[i]:.4f} ({true[i]:.4f})")
    echo(
        f"Replay {ratios[best]:.2f}. By the truth {ratios[int(np.argmin(true))]:.2f} is best, "
        f"and the choice costs {1e3 * (true[best] - true.min()):.2f} mnats."
    )
