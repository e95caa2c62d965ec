"""One fit, the multi-power law on the three 25M curves that everybody fits: ours against the papers' protocol.

The protocol is SciPy's L-BFGS-B on the Huber sum from a grid of starts, once with numerical and once with analytic
gradients. SciPy is given the same compiled JAX residuals and the same coordinates as we use, and starts whose linear
parameters are solved for, so what differs is the search alone. Warm times, interleaved. "excess" is how far its best
objective lies above ours. The cold time, in a process of its own, is that of the first fit after import, compilation
included. Needs the public curves of Luo et al. (2025) (``CPTJAX_SHARED``, default ``../shared``)::

    python -m benchmarks.single_fit
"""

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

import cptjax as cj
from benchmarks.cold import SHARED, STAGES, clock, library
from benchmarks.report import interleaved, show
from cptjax.fitting import fits
from cptjax.fitting.problem import Data, observe
from cptjax.fitting.solver import huber

GRID = {"alpha": (0.3, 0.6), "C": (1.0, 5.0), "beta": (0.3, 0.7), "gamma": (0.3, 0.7)}
ITERATIONS = 10_000


def protocol(law: cj.Law, runs: list[cj.Run]) -> dict:
    """SciPy's searches from the grid: a function for each kind of gradient, giving the best objective."""
    data = Data.of([law], [observe(law, runs, "loss")])
    problem = fits._problem([law], data, {}, {})
    evaluator = fits._Evaluator(problem, data)
    lower, upper = np.asarray(problem.lower), np.asarray(problem.upper)
    names = [slot.parameter.name for slot in problem.slots]
    points = np.zeros((2 ** len(GRID), len(names)))
    for row, values in zip(points, itertools.product(*GRID.values()), strict=True):
        for name, value in zip(GRID, values, strict=True):
            row[names.index(name)] = problem.slots[names.index(name)].inward(value)
    starts = evaluator.attempt(np.clip(points, lower, upper))[0]
    scale = np.maximum(np.abs(starts).mean(axis=0), 1e-3)

    def objective(x: jax.Array) -> jax.Array:
        return jnp.sum(huber(problem.residuals(x * scale, data)))

    value, slope = jax.jit(objective), jax.jit(jax.value_and_grad(objective))
    box = list(zip(lower / scale, upper / scale, strict=True))

    def search(analytic: bool) -> float:
        def function(x: np.ndarray):
            return tuple(map(np.asarray, slope(x))) if analytic else float(value(x))

        options = {"maxiter": ITERATIONS, "maxfun": 100 * ITERATIONS, "ftol": 1e-15, "gtol": 1e-10}
        ends = [
            optimize.minimize(function, u / scale, jac=analytic or None, method="L-BFGS-B", bounds=box, options=options)
            for u in starts
        ]
        return min(float(end.fun) for end in ends if np.isfinite(end.fun))

    return {"SciPy, numerical gradients": lambda: search(False), "SciPy, analytic gradients": lambda: search(True)}


def measure(repeats: int) -> list[dict]:
    """A row for each way."""
    law, runs = cj.MultiPowerLaw(), list(cj.read_manifest(SHARED / "data/multipower/25/runs.toml").fit)
    ways = {"cptjax": lambda: cj.fit(law, runs).objective, **protocol(law, runs)}
    reached: dict[str, float] = {}

    def keep(name: str) -> None:
        reached[name] = ways[name]()

    seconds = interleaved({name: lambda name=name: keep(name) for name in ways}, repeats)
    return [
        {
            "way": name,
            "starts": "none given" if name == "cptjax" else 2 ** len(GRID),
            "seconds": seconds[name],
            "times ours": seconds[name] / seconds["cptjax"],
            "objective": reached[name],
            "excess": reached[name] / reached["cptjax"] - 1,
        }
        for name in ways
    ]


def cold(repeats: int) -> list[dict]:
    """Seconds of the stages of a first fit in a fresh process, medians."""
    seen = [clock(library()["25M multipower"])[2] for _ in range(repeats)]
    return [dict(zip(STAGES, np.median(seen, axis=0).tolist(), strict=True))]


def tables(repeats: int) -> dict[str, list[dict]]:
    """Every table of this file, by title; none where the curves are not at hand."""
    if not (SHARED / "data/multipower/25/runs.toml").exists():
        return {}
    return {"one multi-power fit, warm": measure(repeats), "the same from a cold start, seconds": cold(repeats)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for title, rows in tables(options.repeats).items():
        print(f"\n{title}")
        show(rows)


if __name__ == "__main__":
    main()
