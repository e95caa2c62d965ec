"""Plain NumPy references for the fits: the objective and the metrics, straight from their definitions."""

import numpy as np

GRID = 200


def huber_sum(observed, predicted, delta=1e-3):
    total = 0.0
    for y, f in zip(np.ravel(observed), np.ravel(predicted), strict=True):
        r = abs(np.log(y) - np.log(f))
        total += r * r / 2 if r <= delta else delta * (r - delta / 2)
    return total


def objective_of(problem, params, runs=None):
    """Objective of parameter values on a synthetic problem's runs."""
    return sum(
        huber_sum(run.losses["loss"], problem.law.predict(params, run.phases, run.steps))
        for run in (runs or problem.runs)
    )


def largest_error(problem, result):
    """Largest prediction error over all runs, at a fixed number of steps a run (so that nothing recompiles)."""
    worst = 0.0
    for run in problem.runs:
        steps = np.linspace(1, run.total_steps, GRID).astype(int)
        truth = np.asarray(problem.law.predict(problem.truth, run.phases, steps))
        worst = max(worst, float(np.max(np.abs(truth - result.predict(run, steps)))))
    return worst
