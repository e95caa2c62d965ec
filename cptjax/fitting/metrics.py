"""How well a law predicts curves: the usual figures, per run and averaged over a split's runs."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

__all__ = ["METRICS", "curve_metrics", "mean_metrics"]

METRICS = ("r2", "mae", "rmse", "mean_rel", "worst_rel")


def curve_metrics(loss: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"]) -> dict[str, float]:
    r"""Figures of one curve: :math:`R^2`, mean absolute and root mean square error (nats), mean and worst relative.

    :math:`R^2` is NaN for a curve that does not vary.
    """
    error = np.abs(loss - predicted)
    spread = np.sum((loss - loss.mean()) ** 2)
    return {
        "r2": float(1 - np.sum(error**2) / spread) if spread > 0 else float("nan"),
        "mae": float(error.mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mean_rel": float(np.mean(error / loss)),
        "worst_rel": float(np.max(error / loss)),
        "n": int(loss.size),
    }


def mean_metrics(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each figure over runs, with the total number of observations; empty without runs."""
    if not runs:
        return {}
    means = {name: float(np.mean([run[name] for run in runs])) for name in METRICS}
    return {**means, "n": int(sum(run["n"] for run in runs))}
