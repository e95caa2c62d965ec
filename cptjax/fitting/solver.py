r"""Minimising a Huber sum of residuals in a box, to the last digit, from many starts at once.

With :math:`\delta = 10^{-3}` the papers' objective is nearly a sum of absolute values. Levenberg–Marquardt on rescaled
residuals comes close to the optimum fast, but not to its last digits on the ridges of these laws, and quasi-Newton
methods stall there (``benchmarks/solvers.py``). The exact Hessian is cheap for ten parameters, and the objective is
piecewise smooth, so Newton's method ends in a few steps.

* Far from the optimum the Hessian may be indefinite: its eigenvalues then enter by their size (saddle-free Newton), and
  the Gauss–Newton matrix of the reweighted least-squares problem, which majorises the objective, is tried beside it.
* Each iteration tries both under several dampings at once and keeps the best, so no evaluation of the derivatives is
  wasted on a rejected step. Repeating the last step, stretched, is tried too: it speeds up the walk along a valley.
* Each trial point is also offered with its linear parameters solved for anew, which follows the curved ridges (a size
  and its exponent trade off along a hyperbola) that a straight step falls off.
* Bounds are handled by projection: a coordinate at its bound whose gradient points outside is held.

JAX computes residuals and derivatives, batched over the starts and compiled once a shape; the small linear systems are
solved by LAPACK on the host, which keeps the compiled programs small.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

__all__ = ["HUBER_DELTA", "TRIALS", "Solution", "derivatives", "huber", "huber_weight", "minimise", "total"]

HUBER_DELTA = 1e-3
DAMPINGS = np.array([1e-2, 1.0, 1e2])
STRETCHES = np.array([2.0, 8.0, 32.0])
FACTORS = np.concatenate([DAMPINGS, DAMPINGS, np.ones_like(STRETCHES)])
TRIALS = FACTORS.size
CONVERGED = 1e-10
STUCK = 1e-6
ROUNDING = 1e-11

Attempt = Callable[[Float[np.ndarray, "k p"]], tuple[Float[np.ndarray, "k p"], Float[np.ndarray, " k"]]]
Derivatives = Callable[[Float[np.ndarray, "k p"]], tuple[Any, Any, Any]]


def huber(r: Any, delta: float = HUBER_DELTA) -> Any:
    r"""Huber's function: :math:`r^2/2` for :math:`|r|\le\delta`, else :math:`\delta(|r|-\delta/2)`."""
    inner = huber_weight(r, delta) * abs(r)
    return inner * (abs(r) - 0.5 * inner)


def huber_weight(r: Any, delta: float = HUBER_DELTA) -> Any:
    r"""Weight of a residual in the equivalent least-squares problem, :math:`\min(1, \delta/|r|)`."""
    return delta / abs(r).clip(delta)


def derivatives(
    residuals: Callable[[Float[Array, " p"]], Float[Array, " n"]], u: Float[Array, " p"], inner: tuple[int, ...]
) -> tuple[Float[Array, " n"], Float[Array, "n p"], Float[Array, "p p"]]:
    r"""Residuals, their Jacobian, and the curvature :math:`\sum_i \psi(r_i) \nabla^2 r_i` of Huber's sum.

    Derivatives in the ``inner`` coordinates, the kernel's, go through the long sums over past steps. They are taken
    apart from the others, for which those sums are constants.
    """
    inner_at = np.array(inner, dtype=int)
    outer_at = np.setdiff1d(np.arange(u.shape[0]), inner_at)
    order = np.argsort(np.concatenate([inner_at, outer_at]))

    def split(x: Float[Array, " m"], y: Float[Array, " k"]) -> Float[Array, " n"]:
        return residuals(jnp.concatenate([x, y])[order])

    x, y = u[inner_at], u[outer_at]
    r = split(x, y)
    push = r * huber_weight(r)
    outer_jacobian = jax.jacfwd(split, argnums=1)(x, y)
    outer_curvature = jax.jacfwd(lambda b: jax.vjp(lambda v: split(x, v), b)[1](push)[0])(y)
    if not inner:
        return r, outer_jacobian, outer_curvature
    inner_jacobian = jax.jacfwd(split, argnums=0)(x, y)
    pulled = jax.jacfwd(lambda a: jax.vjp(split, a, y)[1](push))(x)
    corner = jnp.concatenate([pulled[0], pulled[1]])
    curvature = jnp.concatenate([corner, jnp.concatenate([pulled[1].T, outer_curvature])], axis=1)
    jacobian = jnp.concatenate([inner_jacobian, outer_jacobian], axis=1)
    return r, jacobian[:, order], curvature[order][:, order]


@dataclass(frozen=True)
class Solution:
    """Where the searches stopped, one row a start.

    Args:
        u: the points.
        objective: Huber sums there.
        decrement: decrease that a Newton step still promises, relative to the objective.
        iterations: Newton iterations done (of the longest search).
        converged: whether that decrease is below 1e-6, or the residuals are at rounding level.
    """

    u: Float[np.ndarray, "k p"]
    objective: Float[np.ndarray, " k"]
    decrement: Float[np.ndarray, " k"]
    iterations: int
    converged: Bool[np.ndarray, " k"]

    def take(self, rows: Int[np.ndarray, " m"]) -> "Solution":
        """Some of the searches."""
        chosen = {name: getattr(self, name)[rows] for name in ("u", "objective", "decrement", "converged")}
        return replace(self, **chosen)


def total(residuals: Float[np.ndarray, "*k n"]) -> Float[np.ndarray, "*k"]:
    """Huber sums over the last axis, infinite where a residual is not a number."""
    summed = huber(residuals).sum(axis=-1)
    return np.where(np.isfinite(summed), summed, np.inf)


def _quadratic(
    r: Float[np.ndarray, "k n"], jacobian: Float[np.ndarray, "k n p"], curvature: Float[np.ndarray, "k p p"]
) -> tuple[Float[np.ndarray, "k p"], Float[np.ndarray, "k p p"], Float[np.ndarray, "k p p"]]:
    """Gradient, Hessian and majorant of the Huber sums; zero where they are not finite, so that nothing moves there."""
    weight = huber_weight(r)
    turned = np.swapaxes(jacobian, 1, 2)
    gradient = np.einsum("kn,knp->kp", r * weight, jacobian)
    majorant = turned @ (weight[..., None] * jacobian)
    hessian = turned @ ((np.abs(r) <= HUBER_DELTA)[..., None] * jacobian)
    hessian = hessian + 0.5 * (curvature + np.swapaxes(curvature, 1, 2))
    sound = (np.isfinite(hessian) & np.isfinite(majorant)).all(axis=(1, 2)) & np.isfinite(gradient).all(axis=1)
    return tuple(np.where(sound.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0) for x in (gradient, hessian, majorant))  # pyright: ignore[reportReturnType]


def _moves(
    gradient: Float[np.ndarray, "k p"],
    models: Float[np.ndarray, "k m p p"],
    scale: Float[np.ndarray, "k p"],
    free: Bool[np.ndarray, "k p"],
    damping: Float[np.ndarray, "k t"],
) -> tuple[Float[np.ndarray, "k mt p"], Float[np.ndarray, "k mt"]]:
    """For each model of the curvature and each damping, a descent move and the decrease it promises.

    In coordinates that give the majorant a unit diagonal, eigenvalues enter by their absolute value plus the damping.
    """
    k, p = gradient.shape
    unit = np.where(free[:, :, None] & free[:, None, :], 1 / (scale[:, :, None] * scale[:, None, :]), 0.0)
    values, vectors = np.linalg.eigh(models * unit[:, None])
    turned = np.einsum("kmij,ki->kmj", vectors, np.where(free, gradient / scale, 0.0))
    stiffness = np.abs(values)[:, :, None, :] + damping[:, None, :, None] + 1e-14
    solved = turned[:, :, None, :] / stiffness
    promised = 0.5 * np.einsum("kmj,kmtj->kmt", turned, solved)
    moves = -np.einsum("kmij,kmtj->kmti", vectors, solved) / scale[:, None, None, :]
    return moves.reshape(k, -1, p), promised.reshape(k, -1)


def minimise(
    attempt: Attempt,
    derivative: Derivatives,
    starts: Float[np.ndarray, "k p"],
    lower: Float[np.ndarray, " p"],
    upper: Float[np.ndarray, " p"],
    max_iterations: int = 200,
) -> Solution:
    """Minimise ``sum(huber(residuals(u)))`` over the box ``lower ≤ u ≤ upper`` from every start.

    Args:
        attempt: takes a batch of ``k × TRIALS`` points and returns each, or a better one nearby, with its Huber sum.
        derivative: residuals, Jacobians and curvatures of a batch of ``k`` points (see :func:`derivatives`).
        starts: where to start, one row a search.
        lower, upper: the box.
        max_iterations: Newton iterations at most.
    """
    u = np.clip(starts, lower, upper)
    k, p = u.shape
    row = np.arange(k)
    damping, last = np.full(k, 1e-3), np.zeros_like(u)
    fails, done = np.zeros(k, dtype=int), np.zeros(k, dtype=bool)
    f, decrement, rounding = np.full(k, np.inf), np.full(k, np.inf), 0.0
    iteration = 0
    with np.errstate(all="ignore"):
        while iteration < max_iterations and not np.all(done):
            iteration += 1
            r, jacobian, curvature = (np.asarray(x) for x in derivative(u))
            f = total(r)
            rounding = 0.5 * ROUNDING**2 * r.shape[1]
            gradient, hessian, majorant = _quadratic(r, jacobian, curvature)
            free = ~(((u <= lower) & (gradient > 0)) | ((u >= upper) & (gradient < 0)))
            size = np.sqrt(np.einsum("kii->ki", majorant).clip(0))
            scale = np.where(free & (size > 0), size, 1.0)
            models = np.stack([hessian, majorant], axis=1)
            moves, promised = _moves(gradient, models, scale, free, damping[:, None] * DAMPINGS)
            moves = np.concatenate([moves, STRETCHES[:, None] * last[:, None, :]], axis=1)
            reached, objective = attempt(np.clip(u[:, None, :] + moves, lower, upper).reshape(-1, p))
            reached, objective = reached.reshape(k, -1, p), objective.reshape(k, -1)
            best = np.argmin(objective, axis=1)
            better = (objective[row, best] < f * (1 - 1e-14)) & ~done
            decrement = np.where(done, decrement, np.max(promised, axis=1) / np.maximum(f, 1e-300))
            last = np.where(better[:, None], reached[row, best] - u, 0.0)
            u = u + last
            f = np.where(better, objective[row, best], f)
            damping = (damping * np.where(better, FACTORS[best], 1e3)).clip(1e-10, 1e6)
            fails = np.where(better, 0, fails + 1)
            done = done | (decrement < CONVERGED) | (f <= rounding) | (fails >= 4) | ~np.isfinite(f)
    converged = np.isfinite(f) & ((decrement < STUCK) | (f <= rounding))
    return Solution(u, f, decrement, iteration, converged)
