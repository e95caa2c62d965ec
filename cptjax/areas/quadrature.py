r"""Sums over a smooth past with few terms.

The multi-power and functional kernels sum over every earlier step, :math:`\sum_{k \le t} d_k\,g_k(t)`: O(T) for
one prediction, O(T²) for a curve. Where the LR is smooth in ``k``, so is the summand, except close to ``t`` where
:math:`g` rises from zero. We therefore cut the past at the discontinuities of the schedule, divide each piece into
cells whose lengths grow with their distance from ``t`` (down to single steps next to it), and replace the sum over
a cell by the *discrete* Simpson rule: three integer steps, with weights that sum every quadratic exactly. Sums over
cells of up to three steps stay exact, so jumps (a piece of one step) cost nothing in accuracy.
"""

import math

from jaxtyping import Float, Int

from cptjax.namespace import AnyArray, namespace

__all__ = ["simpson_nodes"]

GROWTH = 1.4
MIN_CELLS = 10


def _cell_count(steps: int) -> int:
    """Cells that always suffice for a piece of up to ``steps`` steps."""
    graded = math.log(max(steps / (MIN_CELLS * (GROWTH - 1)), 1)) / math.log(GROWTH)
    return min(math.ceil(graded) + MIN_CELLS + 2, max(steps, 1))


def _cell_edges(
    length: Int[AnyArray, "*shape"], gap: Int[AnyArray, "*shape"], cells: int
) -> Int[AnyArray, "*shape edges"]:
    """Distances of the cell edges from the near end of a piece that ends ``gap`` steps before the observation.

    Cell lengths are ``GROWTH - 1`` times the distance to the observation, at most ``length / MIN_CELLS``.
    """
    xp = namespace(length, gap)
    j = xp.arange(cells + 1)
    near = gap[..., None] + 1.0
    longest = xp.maximum(length[..., None] / MIN_CELLS, 1.0)
    switch = xp.maximum(longest / (GROWTH - 1), near)
    graded_cells = xp.log(switch / near) / math.log(GROWTH)
    graded = near * (GROWTH ** xp.minimum(j, graded_cells) - 1)
    edges = xp.where(j < graded_cells, graded, switch - near + (j - graded_cells) * longest)
    edges = xp.maximum(xp.round(edges).astype(length.dtype), j)
    return xp.where(j == cells, length[..., None], xp.minimum(edges, length[..., None]))


def simpson_nodes(
    step: Int[AnyArray, " n"], cuts: Int[AnyArray, "n cuts"], steps: int
) -> tuple[Int[AnyArray, "n nodes"], Float[AnyArray, "n nodes"]]:
    """Steps ``k`` and weights ``w`` with ``sum_k f(k) ≈ sum_j w_j f(k_j)`` over ``1 … step``, for every observation.

    Args:
        step: upper end of each sum, in [0, steps].
        cuts: increasing (or repeated) steps 0 = c_0 ≤ … ≤ c_m; ``f`` is smooth inside each ``(c_i, c_{i+1}]``.
        steps: length of the longest past (static).

    Returns:
        Node steps (at least 1) and weights; unused nodes have weight 0.
    """
    xp = namespace(step, cuts)
    cells = _cell_count(steps)
    low = xp.minimum(cuts[:, :-1], step[:, None])
    high = xp.minimum(cuts[:, 1:], step[:, None])
    edges = high[..., None] - _cell_edges(high - low, step[:, None] - high, cells)
    first, last = edges[..., 1:] + 1, edges[..., :-1]
    n = (last - first + 1).astype(float)
    middle = (first + last) // 2
    p, q = (middle - first).astype(float), n - 1
    total, linear, square = n, n * (n - 1) / 2, (n - 1) * n * (2 * n - 1) / 6
    wide = n >= 3
    p_, q_ = xp.where(wide, p, 1.0), xp.where(wide, q, 2.0)
    at_first = xp.where(wide, (square - (p_ + q_) * linear + p_ * q_ * total) / (p_ * q_), n >= 1)
    at_middle = xp.where(wide, (square - q_ * linear) / (p_ * (p_ - q_)), 0.0)
    at_last = xp.where(wide, (square - p_ * linear) / (q_ * (q_ - p_)), n >= 2)
    nodes = xp.stack([first, middle, last], axis=-1)
    weights = xp.stack([at_first, at_middle, at_last], axis=-1)
    flat = (step.shape[0], -1)
    return xp.clip(nodes, 1, steps).reshape(flat), weights.reshape(flat)
