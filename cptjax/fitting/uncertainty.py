r"""How well the data determine the parameters: standard errors, and what cannot be told apart.

*Standard errors.* Residuals of a loss curve are autocorrelated, so errors that assume independent noise are too small.
We use the sandwich :math:`H^{-1} G H^{-1}` of an M-estimator, where :math:`H` is the curvature and :math:`G` the
long-run covariance of the gradient's terms within each run: a Newey–West sum whose bandwidth follows from the
residuals' own autocorrelation (Andrews 1991). They say nothing about the law being wrong.

*Identifiability.* A direction of parameter space along which the predictions hardly change cannot be seen in the data.
In coordinates of relative change, such directions are eigenvectors of the covariance with a large variance. Parameters
there are reported by name; predictions may be fine all the same, and the report says how fine.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from cptjax.fitting.problem import Problem
from cptjax.fitting.solver import HUBER_DELTA, huber_weight

__all__ = ["Uncertainty", "assess"]

WEAK = 0.5
"""A relative standard error from which a parameter or combination counts as undetermined."""

BLIND = 1e-7
"""A relative change of the predictions, per change by a factor e, below which a direction counts as invisible."""


@dataclass(frozen=True)
class Uncertainty:
    """Covariance of the free coordinates and what it means.

    Args:
        covariance: in the solver's coordinates; zero rows where a parameter is at its bound or without influence.
        undetermined: coordinates whose value is arbitrary or known only to a factor.
        no_error: coordinates without a standard error, because they are arbitrary or at their bound.
        notes: the same in words.
        prediction_se: median and largest standard error of the fitted predictions, in nats.
    """

    covariance: Float[np.ndarray, "p p"]
    undetermined: tuple[int, ...]
    no_error: tuple[int, ...]
    notes: tuple[str, ...]
    prediction_se: tuple[float, float]


def _bandwidth(residual: Float[np.ndarray, " n"], run: Int[np.ndarray, " n"]) -> int:
    """Andrews' plug-in bandwidth of the Bartlett kernel for residuals that follow an AR(1) within runs."""
    same = run[1:] == run[:-1]
    before, after = residual[:-1][same], residual[1:][same]
    power = float(np.sum(before**2))
    if power == 0 or same.sum() < 3:
        return 0
    rho = min(max(float(before @ after) / power, 0.0), 0.97)
    alpha = 4 * rho**2 / (1 - rho**2) ** 2
    return min(int(np.ceil(1.1447 * (alpha * same.sum()) ** (1 / 3))), int(np.max(np.bincount(run))) // 2)


def _long_run(terms: Float[np.ndarray, "n p"], run: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "p p"]:
    """Newey–West covariance of a sum of terms, never across runs."""
    total = terms.T @ terms
    for lag in range(1, width + 1):
        same = run[lag:] == run[:-lag]
        cross = terms[lag:][same].T @ terms[:-lag][same]
        total = total + (1 - lag / (width + 1)) * (cross + cross.T)
    return total


def assess(
    problem: Problem,
    u: Float[np.ndarray, " p"],
    r: Float[np.ndarray, " n"],
    jac: Float[np.ndarray, "n p"],
    run: Int[np.ndarray, " n"],
    loss: Float[np.ndarray, " n"],
) -> Uncertainty:
    """Standard errors and identifiability of a fit.

    Args:
        problem: what was fitted.
        u: the optimum.
        r, jac: residuals and their Jacobian there.
        run: which run (and set) each residual belongs to; only neighbours within one are taken as correlated.
        loss: the observed losses.
    """
    names = _names(problem)
    slack = 1e-9 * np.maximum(1.0, np.abs(u))
    at_bound = tuple(
        int(i)
        for i in np.flatnonzero((u <= np.asarray(problem.lower) + slack) | (u >= np.asarray(problem.upper) - slack))
    )
    idle = tuple(i for i in range(u.size) if np.max(np.abs(jac[:, i] * _unit(problem, u, i))) < 1e-9)
    at_bound = tuple(i for i in at_bound if i not in idle)
    free = [i for i in range(u.size) if i not in at_bound and i not in idle]

    scale = np.array([_unit(problem, u, i) for i in free])
    rel = jac[:, free] * scale
    inside = max(float(np.mean(np.abs(r) <= HUBER_DELTA)), 1 / r.size)
    push = r * huber_weight(r)
    meat = _long_run(rel * push[:, None], run, _bandwidth(r, run)) * r.size / max(r.size - len(free), 1)
    seen, directions = np.linalg.eigh(rel.T @ rel)
    blind = np.sqrt(np.maximum(seen, 0) / r.size) < BLIND
    inverse = np.where(blind, 0.0, 1 / np.where(blind, 1.0, seen * inside))
    along = inverse[:, None] * (directions.T @ meat @ directions) * inverse[None, :]
    covariance = directions @ along @ directions.T
    predicted_se = np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", rel, covariance, rel), 0)) * loss
    spread = (float(np.median(predicted_se)), float(np.max(predicted_se)))

    left = [float(problem.slots[i].outward(u[i])) for i in idle]
    notes = [
        f"{names[i]}: no observation depends on it near {value:.4g}, where the search left it: that value is arbitrary"
        for i, value in zip(idle, left, strict=True)
    ]
    notes += [f"{names[i]} stopped at its bound {_bound(problem, u, i):.4g}" for i in at_bound]
    undetermined, lost = set(idle), set(idle)
    sd = np.where(blind, np.inf, np.sqrt(np.maximum(np.diag(along), 0)))
    for k in np.argsort(-sd):
        if sd[k] < WEAK:
            break
        weight = np.abs(directions[:, k])
        heavy = [j for j in np.argsort(-weight) if weight[j] > 0.25 or weight[j] * min(sd[k], 20.0) > WEAK]
        undetermined |= {free[j] for j in heavy}
        lost |= {free[j] for j in heavy} if blind[k] else set()
        notes.append(_describe([names[free[j]] for j in heavy], directions[heavy, k], float(sd[k]), spread))
    full = np.zeros((u.size, u.size))
    full[np.ix_(free, free)] = covariance * scale[:, None] * scale[None, :]
    no_error = lost | set(at_bound)
    if r.size <= u.size:
        notes = [f"{r.size} observations for {u.size} parameters: the fit says nothing of how well it predicts"]
        no_error = undetermined = set(range(u.size))
    return Uncertainty(full, tuple(sorted(undetermined)), tuple(sorted(no_error)), tuple(notes), spread)


def _bound(problem: Problem, u: Float[np.ndarray, " p"], i: int) -> float:
    """The value of the bound that a coordinate lies at."""
    ends = float(problem.lower[i]), float(problem.upper[i])
    return float(problem.slots[i].outward(min(ends, key=lambda end: abs(end - u[i]))))


def _names(problem: Problem) -> list[str]:
    several = len(problem.laws) > 1
    return [
        f"{slot.parameter.name} (set {slot.sets[0] + 1})" if several and len(slot.sets) == 1 else slot.parameter.name
        for slot in problem.slots
    ]


def _unit(problem: Problem, u: Float[np.ndarray, " p"], i: int) -> float:
    """Size of a change of coordinate ``i`` that counts as one: a factor e, or the value itself."""
    slot = problem.slots[i]
    return max(abs(float(u[i])), 1e-3) if slot.parameter.linear or not slot.logarithmic else 1.0


def _describe(names: list[str], weights: Float[np.ndarray, " k"], sd: float, spread: tuple[float, float]) -> str:
    size = f"a factor {np.exp(sd):.3g}" if sd < 20 else "no more than its order of magnitude, if that"
    fine = f"predictions on these runs are known to {spread[0]:.2g} nats (at worst {spread[1]:.2g})"
    if len(names) == 1:
        return f"{names[0]} is known only to {size}; {fine}"
    if len(names) == 2:
        ratio = -weights[0] / weights[1]
        kept = f"{names[0]} · {names[1]}^{ratio:.2g}" if abs(ratio - 1) > 0.05 else f"{names[0]} · {names[1]}"
        return f"{names[0]} and {names[1]} trade off: each alone is known only to {size}, about {kept} is kept; {fine}"
    return f"{', '.join(names[:-1])} and {names[-1]} trade off: each alone is known only to {size}; {fine}"
