"""Which solver should finish a fit? Six, from the same starts, on the same objective with the same JAX derivatives.

Our saddle-free Newton method, with and without the projection of the linear parameters at its trial points;
optimistix's Levenberg-Marquardt, on the residuals ``sign(r) sqrt(2 huber(r))`` whose sum of squares is the objective;
optimistix's BFGS and L-BFGS; SciPy's L-BFGS-B, which the papers use. The starts are the best 12 of the quasi-random
sample, linear parameters solved for. Counted: how many starts end within 1e-4 and within 1e-9 (relative) of the best
objective that any of them found, the steps, and the warm time a start (median of interleaved repeats). A fit without
noise counts as at the best below a residual of 1e-9. Steps are medians over the starts: iterations of optimistix,
evaluations of SciPy; ours move all starts at once, so theirs are iterations of the longest search, each one evaluation
of the derivatives and 9 trial points::

    python -m benchmarks.solvers
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from scipy import optimize

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from synthetic import annealing_problem, cpt_problem

import cptjax as cj
from benchmarks.report import interleaved, show
from cptjax.fitting import fits
from cptjax.fitting.problem import Data, Problem, observe
from cptjax.fitting.solver import Solution, huber, minimise, total

SHARED = Path(os.environ.get("CPTJAX_SHARED", "../shared"))
STARTS = 12
ITERATIONS = 400

Solve = Callable[[np.ndarray], tuple[np.ndarray, float]]


def cases() -> dict[str, tuple[cj.Law, list[cj.Run]]]:
    """Name, law and runs of each problem."""
    found = {}
    for noise in (1e-3, 0.0):
        for name, make in (("annealing", annealing_problem), ("cpt", cpt_problem)):
            for seed in (1, 2):
                problem = make(seed, noise)
                found[f"{name} {seed}, noise {noise:g}"] = (problem.law, problem.runs)
    manifest = SHARED / "data/multipower/25/runs.toml"
    if manifest.exists():
        found["multipower 25M"] = (cj.MultiPowerLaw(), list(cj.read_manifest(manifest).fit))
    return found


def solvers(problem: Problem, data: Data, evaluator: fits._Evaluator) -> dict[str, Solve]:
    """Each takes the starts and gives the objective it reached from every one, and its steps."""
    lower, upper = np.asarray(problem.lower), np.asarray(problem.upper)
    inside = lambda u: jnp.clip(u, lower, upper)  # noqa: E731
    residuals = jax.jit(lambda u, _: problem.residuals(inside(u), data))
    many = jax.jit(jax.vmap(lambda u: problem.residuals(u, data)))

    def pseudo(u, _):
        r = residuals(u, None)
        return r * jnp.sqrt(2 * huber(r) / jnp.where(r == 0, 1.0, r**2))

    def objective(u, _):
        return jnp.sum(huber(residuals(u, None)))

    def optimistix(solver, kind, function):
        def run(u):
            end = kind(function, solver, u, max_steps=ITERATIONS, throw=False)
            return objective(end.value, None), end.stats["num_steps"]

        compiled = jax.jit(run)

        def solve(starts):
            ends = np.array([compiled(jnp.asarray(u)) for u in starts], dtype=float)
            return ends[:, 0], float(np.median(ends[:, 1]))

        return solve

    slope = jax.jit(jax.value_and_grad(lambda u: objective(u, None)))

    def scipy(starts):
        box = list(zip(lower, upper, strict=True))
        options = {"maxiter": ITERATIONS, "ftol": 1e-15, "gtol": 1e-12}
        ends = [
            optimize.minimize(lambda u: tuple(map(np.asarray, slope(u))), u, jac=True, bounds=box, options=options)
            for u in starts
        ]
        return np.array([end.fun for end in ends]), float(np.median([end.nfev for end in ends]))

    def plain(points):
        return points, total(np.asarray(many(points)))

    def told(end: Solution):
        return end.objective, float(end.iterations)

    return {
        "newton, projected (ours)": lambda starts: told(evaluator.polish(starts, ITERATIONS)),
        "newton": lambda s: told(minimise(plain, evaluator.derivatives, s, lower, upper, ITERATIONS)),
        "optimistix LM": optimistix(optx.LevenbergMarquardt(1e-10, 1e-12), optx.least_squares, pseudo),
        "optimistix BFGS": optimistix(optx.BFGS(1e-10, 1e-12), optx.minimise, objective),
        "optimistix L-BFGS": optimistix(optx.LBFGS(1e-10, 1e-12), optx.minimise, objective),
        "scipy L-BFGS-B": scipy,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for case, (law, runs) in cases().items():
        observations = observe(law, runs, "loss")
        data = Data.of([law], [observations])
        problem = fits._problem([law], data, {}, {})
        evaluator = fits._Evaluator(problem, data)
        starts = evaluator.starts(0, STARTS)
        ways = solvers(problem, data, evaluator)
        reached = {name: solve(starts) for name, solve in ways.items()}  # compiles
        ends = {name: np.where(np.isfinite(found), found, np.inf) for name, (found, _) in reached.items()}
        seconds = interleaved({name: lambda s=solve, u=starts: s(u) for name, solve in ways.items()}, options.repeats)
        best = min(float(found.min()) for found in ends.values())
        rounding = 0.5e-18 * sum(run.steps.size for run in runs)
        for name, found in ends.items():
            rows.append(
                {
                    "problem": case,
                    "solver": name,
                    "to 1e-4": f"{int(np.sum(found <= best * (1 + 1e-4) + rounding))}/{STARTS}",
                    "to 1e-9": f"{int(np.sum(found <= best * (1 + 1e-9) + rounding))}/{STARTS}",
                    "best": float(found.min()),
                    "median": float(np.median(found)),
                    "steps": reached[name][1],
                    "ms a start": 1e3 * seconds[name] / STARTS,
                }
            )
        print(f"{case}: done", file=sys.stderr, flush=True)
    show(rows, options.json)


if __name__ == "__main__":
    main()
