r"""Where to start: variable projection on a quasi-random sample of the non-linear parameters.

Given the non-linear parameters, every law here is linear in the rest, and the best values of those follow from a small
weighted least-squares problem. So only the two to five non-linear coordinates need to be searched. We sample them by a
low-discrepancy sequence, solve for the linear ones (reweighted for Huber's function, bounds respected) and rank.
"""

import numpy as np
from jaxtyping import Bool, Float

from cptjax.fitting.solver import huber_weight

__all__ = ["project", "quasi_random"]

REWEIGHTINGS = 5


def quasi_random(count: int, dimensions: int, seed: int = 0) -> Float[np.ndarray, "count dimensions"]:
    """Points of a Kronecker sequence in the unit cube, shifted by ``seed``.

    Its steps are powers of the inverse of the positive root of x^(d+1) = x + 1, which fill the cube evenly.
    """
    root = 1.5
    for _ in range(50):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    offset = np.random.default_rng(seed).random(dimensions) if seed else 0.5
    return (offset + np.arange(1, count + 1)[:, None] * steps) % 1


def _bounded_solve(
    matrix: Float[np.ndarray, "k q q"],
    right: Float[np.ndarray, "k q"],
    lower: Float[np.ndarray, " q"],
    upper: Float[np.ndarray, " q"],
) -> Float[np.ndarray, "k q"]:
    """Minimise convex quadratics in a box by fixing, round after round, what leaves it."""
    scale = np.sqrt(np.einsum("kii->ki", matrix).clip(1e-300))
    unit = matrix / scale[:, :, None] / scale[:, None, :]
    low, high, b = lower * scale, upper * scale, right / scale
    eye = np.eye(b.shape[1])
    held: Bool[np.ndarray, "k q"] = np.zeros(b.shape, dtype=bool)
    x = np.zeros_like(b)
    for _ in range(b.shape[1]):
        system = np.where(held[:, :, None] | held[:, None, :], 0.0, unit) + held[:, :, None] * eye + 1e-12 * eye
        pulled = np.einsum("kij,kj->ki", unit, np.where(held, x, 0.0))
        solved = np.linalg.solve(system, np.where(held, 0.0, b - pulled)[..., None])[..., 0]
        x = np.where(held, x, solved)
        out = (x < low) | (x > high)
        if not np.any(out & ~held):
            break
        held = held | out
        x = np.clip(x, low, high)
    return x / scale


def project(
    offset: Float[np.ndarray, "k n"],
    basis: Float[np.ndarray, "k n q"],
    loss: Float[np.ndarray, " n"],
    lower: Float[np.ndarray, " q"],
    upper: Float[np.ndarray, " q"],
) -> Float[np.ndarray, "k q"]:
    """The best linear parameters when predictions are ``offset + basis @ x``, for each of ``k`` samples.

    Minimises the Huber sum of the relative residual ``(loss − prediction) / loss``, the first order of the logarithmic
    one, by reweighted least squares.
    """
    target, relative = (loss - offset) / loss, basis / loss[:, None]
    finite = np.isfinite(np.concatenate([target[..., None], relative], axis=2))
    usable = np.all(finite, axis=(1, 2), keepdims=True)
    target, relative = np.where(usable[..., 0], target, 0.0), np.where(usable, relative, 0.0)
    weight = np.ones_like(target)
    x = np.zeros((basis.shape[0], basis.shape[2]))
    for _ in range(REWEIGHTINGS):
        weighted = weight[..., None] * relative
        matrix, right = np.swapaxes(relative, 1, 2) @ weighted, np.einsum("knq,kn->kq", weighted, target)
        x = _bounded_solve(matrix, right, lower, upper)
        weight = huber_weight(target - np.einsum("knq,kq->kn", relative, x))
    return x
