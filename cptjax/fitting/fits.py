r"""Fitting a law to curves: one call, no start to give.

The objective is the papers': the sum, over all points of all runs, of Huber(:math:`\delta=10^{-3}`) of
:math:`\log y-\log\hat y`. The search goes from coarse to fine: a quasi-random sample of the non-linear parameters with
the linear ones projected out (:mod:`~cptjax.fitting.starts`), the best of them polished on a thinned set of points, the
best of those on all points (:mod:`~cptjax.fitting.solver`). How many of the last agree is part of the answer.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from cptjax.errors import InputError
from cptjax.fitting.problem import Data, Observations, Problem, Slot, observe, recorded
from cptjax.fitting.result import FitResult
from cptjax.fitting.solver import TRIALS, Solution, derivatives, huber, minimise, total
from cptjax.fitting.starts import project, quasi_random
from cptjax.fitting.uncertainty import Uncertainty, assess
from cptjax.laws import Law
from cptjax.namespace import AnyArray
from cptjax.runs import Run

__all__ = ["fit", "fit_jointly"]

CANDIDATES = 512
POLISHED = 12
FINISHED = 3
COARSE_ITERATIONS = 25
THINNED = 120


def fit(
    law: Law | Sequence[Law],
    runs: Sequence[Run],
    loss: str = "loss",
    *,
    fixed: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    report: Sequence[Run] = (),
    seed: int = 0,
) -> FitResult:
    """Fit a law to one validation set of several runs.

    Args:
        law: what to fit. Of several laws, and of the forms a law leaves open, the one with the lowest objective is
            kept.
        runs: the runs to fit on, all of them, whatever their split.
        loss: name of the validation set.
        fixed: parameters held at a value.
        bounds: limits of parameters, within those the law sets.
        report: further runs (held out) to give metrics for.
        seed: shifts the sample of starts.

    Returns:
        The best fit found, with standard errors, warnings and metrics.

    Raises:
        InputError: no usable observation, a run the law cannot describe, or a parameter the law does not have.
    """
    _check_ids(runs, report)
    laws = [law] if isinstance(law, Law) else list(law)
    forms = [form for one in laws for form in one.alternatives()]
    alike: dict[Any, list[Law]] = {}
    for form in forms:
        alike.setdefault(jax.tree.structure(recorded(form)), []).append(form)

    def search(group: list[Law]) -> list[tuple[Law, _Search]]:
        return [(form, _search(form, runs, loss, fixed or {}, bounds or {}, seed)) for form in group]

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # XLA compiles and LAPACK solves outside Python's lock
        found_each = [pair for pairs in pool.map(search, alike.values()) for pair in pairs]
    form, found = min(found_each, key=lambda pair: float(pair[1].ends.objective[0]))
    return _results(found, [form], [loss], [runs], report)[0]


def fit_jointly(
    laws: Mapping[str, Law],
    runs: Sequence[Run],
    *,
    shared: Sequence[str] = (),
    fixed: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    report: Sequence[Run] = (),
    seed: int = 0,
) -> dict[str, FitResult]:
    """Fit several validation sets of the same runs at once, with some parameters in common.

    Every set is fitted alone first; the joint search starts from each set's value of the shared parameters.

    Args:
        laws: the law of each validation set, by name of the set.
        runs: the runs to fit on.
        shared: parameters that all sets share, for example ``("decay", "alpha")``.
        fixed, bounds, report, seed: as in :func:`fit`, for all sets.

    Returns:
        One result a set. Each states its own objective; the sum of them is what was minimised.
    """
    _check_ids(runs, report)
    names = list(laws)
    alone = {name: fit(laws[name], runs, name, fixed=fixed, bounds=bounds, report=report, seed=seed) for name in names}
    if not shared or len(names) == 1:
        return alone
    forms = [alone[name].law for name in names]
    observations = [observe(form, runs, name) for form, name in zip(forms, names, strict=True)]
    data = Data.of(forms, observations)
    problem = _problem(forms, data, fixed or {}, bounds or {}, shared)
    starts = [_joint_start(problem, alone, names, owner) for owner in names]
    found = _Search(problem, data, tuple(observations), _Evaluator(problem, data).polish(np.stack(starts)))
    results = _results(found, forms, names, [runs] * len(names), report)
    return dict(zip(names, results, strict=True))


def _check_ids(runs: Sequence[Run], report: Sequence[Run]) -> None:
    """Metrics are kept by id, so no two different runs may share one."""
    known: dict[str, Run] = {}
    for run in (*runs, *report):
        if known.setdefault(run.id, run) is not run:
            raise InputError(f"two runs are called {run.id!r}: give each run its own id")


@dataclass(frozen=True)
class _Search:
    """The end of a search: all finished starts, the best first."""

    problem: Problem
    data: Data
    observations: tuple[Observations, ...]
    ends: Solution

    @property
    def agreeing(self) -> int:
        """How many starts reached the best objective, to a relative 1e-4 (or to rounding level)."""
        f = self.ends.objective
        return int(np.sum(f <= f[0] * (1 + 1e-4) + 1e-18 * sum(o.loss.size for o in self.observations)))


def _problem(
    laws: Sequence[Law],
    data: Data,
    fixed: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]],
    shared: Sequence[str] = (),
) -> Problem:
    forward = [np.max(h.forward_pt + h.forward_cpt, initial=0.0) for h in data.history]
    cpt = [np.max(h.forward_cpt, initial=0.0) for h in data.history]
    scales = {"forward": float(max(forward)) or 1.0, "forward_cpt": float(max(cpt)) or float(max(forward)) or 1.0}
    return Problem.build(laws, scales, fixed, bounds, shared)


@eqx.filter_jit
def _derivatives(problem: Problem, data: Data, u: Float[AnyArray, "k p"]) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jax.vmap(lambda v: derivatives(lambda w: problem.residuals(w, data), v, problem.inner))(u)


@eqx.filter_jit
def _affine(problem: Problem, data: Data, points: Float[AnyArray, "k p"]) -> tuple[jax.Array, jax.Array]:
    """Predictions with the linear coordinates at 0, and their slopes in those."""
    linear = np.array(problem.linear, dtype=int)

    def one(point: Float[jax.Array, " p"]) -> tuple[jax.Array, jax.Array]:
        def predict(x: Float[jax.Array, " q"]) -> Float[jax.Array, " n"]:
            return problem.predictions(point.at[linear].set(x), data)

        zero = jnp.zeros(linear.size)
        return predict(zero), jax.jacfwd(predict)(zero)

    return jax.vmap(one)(points)


class _Evaluator:
    """The objective of a problem on some data, for batches of points of one size."""

    def __init__(self, problem: Problem, data: Data) -> None:
        self.problem, self.data = problem, data
        self.linear = np.array(problem.linear, dtype=int)
        self.lower, self.upper = np.asarray(problem.lower), np.asarray(problem.upper)
        self.real = data.real
        self.log_loss = np.asarray(data.log_loss)[self.real]

    def derivatives(self, u: Float[np.ndarray, "k p"]) -> tuple[jax.Array, jax.Array, jax.Array]:
        return _derivatives(self.problem, self.data, u)

    def attempt(self, points: Float[np.ndarray, "k p"]) -> tuple[Float[np.ndarray, "k p"], Float[np.ndarray, " k"]]:
        """Each point, or the same with its linear coordinates solved for if that is better, and its objective."""
        offset, basis = (np.asarray(x)[:, self.real] for x in _affine(self.problem, self.data, points))
        solved = points.copy()
        box = self.lower[self.linear], self.upper[self.linear]
        solved[:, self.linear] = project(offset, basis, np.exp(self.log_loss), *box)
        with np.errstate(all="ignore"):
            first, second = (
                total(self.log_loss - np.log(offset + np.einsum("knq,kq->kn", basis, x[:, self.linear])))
                for x in (points, solved)
            )
        better = second < first
        return np.where(better[:, None], solved, points), np.where(better, second, first)

    def compile(self, searches: int) -> None:
        """Compile what :meth:`polish` needs for that many searches."""
        middle = np.mean(self.problem.search, axis=1)
        self.attempt(np.tile(middle, (searches * TRIALS, 1)))
        self.derivatives(np.tile(middle, (searches, 1)))

    def polish(self, starts: Float[np.ndarray, "k p"], iterations: int = 200) -> Solution:
        """Search from every start; the best end first."""
        ends = minimise(self.attempt, self.derivatives, starts, self.lower, self.upper, iterations)
        return ends.take(np.argsort(ends.objective))

    def starts(self, seed: int, keep: int) -> Float[np.ndarray, "keep p"]:
        """The most promising of a sample of the non-linear coordinates, with the best linear ones."""
        rest = np.setdiff1d(np.arange(self.lower.size), self.linear)
        low, high = np.asarray(self.problem.search)[rest].T
        batch = keep * TRIALS
        points = np.zeros((batch * (CANDIDATES // batch), self.lower.size))
        points[:, rest] = low + (high - low) * quasi_random(points.shape[0], rest.size, seed)
        tried = [self.attempt(part) for part in np.split(points, CANDIDATES // batch)]
        ranked = np.argsort(np.concatenate([objective for _, objective in tried]), kind="stable")
        return np.concatenate([solved for solved, _ in tried])[ranked[:keep]]


def _search(
    law: Law,
    runs: Sequence[Run],
    loss: str,
    fixed: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]],
    seed: int,
) -> _Search:
    observations = observe(law, runs, loss)
    data = Data.of([law], [observations])
    problem = _problem([law], data, fixed, bounds)
    thin = observations.thinned(THINNED)
    coarse = data if thin is observations else Data.of([law], [thin])
    rough, fine = _Evaluator(problem, coarse), _Evaluator(problem, data)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fine.compile, FINISHED)
        ends = rough.polish(rough.starts(seed, POLISHED), COARSE_ITERATIONS)
    return _Search(problem, data, (observations,), fine.polish(_distinct(ends.u, ends.objective)))


def _distinct(points: Float[np.ndarray, "k p"], objectives: Float[np.ndarray, " k"]) -> Float[np.ndarray, "f p"]:
    """The best points, one for each value of the objective, filled up with the best to a fixed number."""
    order = np.argsort(objectives)
    kept: list[int] = []
    for i in order:
        if not kept or objectives[i] > objectives[kept[-1]] * (1 + 1e-3):
            kept.append(int(i))
    kept = [*kept, *(int(i) for i in order if i not in kept)][:FINISHED]
    return points[kept]


def _joint_start(
    problem: Problem, alone: Mapping[str, FitResult], names: Sequence[str], owner: str
) -> Float[np.ndarray, " p"]:
    def value(slot: Slot) -> float:
        only, *others = slot.sets
        return alone[owner if others else names[only]].params[slot.parameter.name]

    return np.array([slot.inward(value(slot)) for slot in problem.slots])


def _results(
    found: _Search, laws: Sequence[Law], losses: Sequence[str], runs: Sequence[Sequence[Run]], report: Sequence[Run]
) -> list[FitResult]:
    problem, u, converged = found.problem, found.ends.u[0], bool(found.ends.converged[0])
    if not np.isfinite(found.ends.objective[0]):
        raise InputError("no parameters give the runs a finite prediction: are LRs and losses in ordinary units?")
    before = np.cumsum([0, *(len(observations.runs) for observations in found.observations)])
    groups = [o.run + first for o, first in zip(found.observations, before, strict=False)]
    residuals, jacobian = (
        np.asarray(x)[0, found.data.real] for x in _derivatives(problem, found.data, found.ends.u)[:2]
    )
    known = assess(
        problem, u, residuals, jacobian, np.concatenate(groups), np.concatenate([o.loss for o in found.observations])
    )
    warnings = _warnings(found, known)
    out = []
    ends = np.cumsum([o.loss.size for o in found.observations])
    for index, (law, loss) in enumerate(zip(laws, losses, strict=True)):
        own = residuals[ends[index] - found.observations[index].loss.size : ends[index]]
        result = _result(problem, u, known, index, law, loss, own, converged, warnings)
        out.append(replace(result, metrics=result.evaluate(list(dict.fromkeys([*runs[index], *report])))))
    return out


def _result(
    problem: Problem,
    u: Float[np.ndarray, " p"],
    known: Uncertainty,
    index: int,
    law: Law,
    loss: str,
    residuals: Float[np.ndarray, " n"],
    converged: bool,
    warnings: tuple[str, ...],
) -> FitResult:
    mine = [i for i, slot in enumerate(problem.slots) if index in slot.sets]
    names = [problem.slots[i].parameter.name for i in mine]
    slopes = np.array([problem.slots[i].slope(float(u[i])) for i in mine])
    covariance = known.covariance[np.ix_(mine, mine)] * slopes[:, None] * slopes[None, :]
    errors = dict.fromkeys((p.name for p in law.parameters), float("nan"))
    for k, i in enumerate(mine):
        if i not in known.no_error:
            errors[names[k]] = float(np.sqrt(covariance[k, k]))
    params = {name: float(value) for name, value in problem.params(jnp.asarray(u), index).items()}
    objective = float(huber(residuals).sum())
    ordered = {p.name: params[p.name] for p in law.parameters}
    undetermined = tuple(problem.slots[i].parameter.name for i in known.undetermined if i in mine)
    return FitResult(
        law, loss, ordered, errors, objective, converged, warnings, {}, undetermined, covariance, tuple(names)
    )


def _warnings(found: _Search, known: Uncertainty) -> tuple[str, ...]:
    notes = list(known.notes)
    starts = len(found.ends.objective)
    if not found.ends.converged[0]:
        notes.insert(0, f"not converged: a further step still promises {found.ends.decrement[0]:.2g} of the objective")
    if starts > 1 and found.agreeing == 1:
        notes.append(
            f"only one of {starts} searches reached this optimum; the next best objective is "
            f"{found.ends.objective[1]:.6g}: try other seeds, or bound the parameters"
        )
    return tuple(notes)
