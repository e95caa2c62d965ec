import numpy as np
import pytest

from cptjax.fitting.metrics import METRICS, curve_metrics, mean_metrics

LOSS, PREDICTED = np.array([3.0, 2.5, 2.0, 1.5]), np.array([3.1, 2.5, 1.9, 1.7])


def test_figures_of_a_curve():
    error = [0.1, 0.0, 0.1, 0.2]
    expected = {
        "r2": 1 - sum(e * e for e in error) / sum((y - 2.25) ** 2 for y in LOSS),
        "mae": 0.1,
        "rmse": (0.06 / 4) ** 0.5,
        "mean_rel": (0.1 / 3 + 0.1 / 2 + 0.2 / 1.5) / 4,
        "worst_rel": 0.2 / 1.5,
        "n": 4,
    }
    assert curve_metrics(LOSS, PREDICTED) == pytest.approx(expected)


def test_mean_over_runs_is_not_over_points():
    one, two = curve_metrics(LOSS, PREDICTED), curve_metrics(LOSS[:2], LOSS[:2])
    mean = mean_metrics([one, two])
    for name in METRICS:
        assert mean[name] == pytest.approx((one[name] + two[name]) / 2)
    assert mean["n"] == 6
    assert mean_metrics([]) == {}


def test_a_flat_curve_has_no_r2():
    assert np.isnan(curve_metrics(np.ones(3), np.ones(3))["r2"])
    assert np.isnan(curve_metrics(np.ones(1), np.ones(1))["r2"])
