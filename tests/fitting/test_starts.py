import numpy as np
import pytest
from scipy import optimize
from scipy.stats import qmc

from cptjax.fitting.starts import project, quasi_random


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5])
def test_points_fill_the_cube_better_than_random_ones(dimensions):
    ours = quasi_random(256, dimensions)
    assert ours.shape == (256, dimensions)
    assert np.all((ours >= 0) & (ours < 1))
    random = np.median([qmc.discrepancy(np.random.default_rng(i).random((256, dimensions))) for i in range(9)])
    assert qmc.discrepancy(ours) < 0.5 * random


def test_seed_shifts_the_points():
    np.testing.assert_array_equal(quasi_random(8, 2, 5), quasi_random(8, 2, 5))
    shift = (quasi_random(8, 2, 5) - quasi_random(8, 2, 0)) % 1
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-12)
    assert np.all(shift[0] > 1e-6)


def problem(seed, noise):
    rng = np.random.default_rng(seed)
    basis = rng.uniform(0.2, 2, (6, 40, 3))
    offset = rng.uniform(0, 0.5, (6, 40))
    truth = np.array([1.5, 0.7, 1.0])
    loss = offset[0] + basis[0] @ truth
    return offset, basis, loss + noise * rng.standard_t(2, 40)


def best(offset, basis, loss, lower, upper, start):
    def objective(x):
        r = np.abs((loss - offset - basis @ x) / loss)
        return float(np.sum(np.where(r <= 1e-3, r * r / 2, 1e-3 * (r - 5e-4))))

    found = optimize.minimize(objective, start, method="L-BFGS-B", bounds=list(zip(lower, upper, strict=True)))
    return objective, found.fun


@pytest.mark.parametrize("bounded", [False, True])
def test_projection_is_near_the_best_linear_parameters(bounded):
    lower, upper = (
        (np.zeros(3), np.array([1.2, np.inf, np.inf])) if bounded else (np.full(3, -np.inf), np.full(3, np.inf))
    )
    offset, basis, loss = problem(1, 0.02)
    found = project(offset, basis, loss, lower, upper)
    assert np.all((found >= lower) & (found <= upper))
    for k in range(6):
        objective, reference = best(offset[k], basis[k], loss, lower, upper, np.clip(np.ones(3), lower, upper))
        assert objective(found[k]) <= 1.1 * reference  # five reweightings, not the last digit


def test_projection_of_exact_data_is_exact():
    offset, basis, loss = problem(2, 0.0)
    found = project(offset, basis, loss, np.zeros(3), np.full(3, np.inf))
    np.testing.assert_allclose(found[0], [1.5, 0.7, 1.0], rtol=1e-9)


def test_projection_survives_useless_rows():
    offset, basis, loss = problem(3, 0.0)
    basis[1, 5, 0] = np.nan
    basis[2] = 0.0
    found = project(offset, basis, loss, np.zeros(3), np.full(3, np.inf))
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found[0], [1.5, 0.7, 1.0], rtol=1e-9)
