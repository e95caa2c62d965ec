import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from cptjax.fitting.solver import HUBER_DELTA, TRIALS, derivatives, huber, huber_weight, minimise, total

rng = np.random.default_rng(3)
X = rng.uniform(0.1, 3, 60)
Y = 1.3 * np.exp(-0.7 * X) + 0.4 + 0.02 * rng.standard_t(2, 60)


def curve(u):
    return Y - (u[0] * jnp.exp(-u[1] * X) + u[2])


evaluate = jax.jit(jax.vmap(lambda u: derivatives(curve, u, (1,))))
residuals = jax.jit(jax.vmap(curve))


def attempt(points):
    return points, total(np.asarray(residuals(points)))


def solve(starts, lower=(-np.inf,) * 3, upper=(np.inf,) * 3, iterations=200):
    return minimise(
        attempt, evaluate, np.atleast_2d(starts).astype(float), np.array(lower), np.array(upper), iterations
    )


def plain_huber(r, delta=HUBER_DELTA):
    return [x * x / 2 if abs(x) <= delta else delta * (abs(x) - delta / 2) for x in r]


def test_huber_and_its_weight():
    r = np.array([-1.0, -1e-3, -5e-4, 0.0, 9.99e-4, 1e-3, 1.001e-3, 3.0])
    np.testing.assert_allclose(huber(r), plain_huber(r), rtol=1e-13)
    slope = [(plain_huber([x + 1e-9])[0] - plain_huber([x - 1e-9])[0]) / 2e-9 for x in r]
    np.testing.assert_allclose(r * huber_weight(r), slope, atol=1e-9)
    assert total(np.array([[0.1, np.nan], [0.0, 2e-3]])).tolist() == [np.inf, pytest.approx(1.5e-6)]


@pytest.mark.parametrize("inner", [(), (1,), (0, 2), (0, 1, 2)])
def test_derivatives(inner):
    u = np.array([1.1, 0.6, 0.5])
    r, jacobian, curvature = jax.jit(derivatives, static_argnums=(0, 2))(curve, jnp.asarray(u), inner)
    np.testing.assert_allclose(r, curve(u))
    push = np.asarray(r) * huber_weight(np.asarray(r))
    for i in range(3):
        e = np.eye(3)[i] * 1e-6
        np.testing.assert_allclose(jacobian[:, i], (curve(u + e) - curve(u - e)) / 2e-6, atol=1e-8)
        for j in range(3):
            d = np.eye(3)[j] * 1e-4
            e4 = np.eye(3)[i] * 1e-4
            second = (curve(u + e4 + d) - curve(u + e4 - d) - curve(u - e4 + d) + curve(u - e4 - d)) / 4e-8
            assert float(curvature[i, j]) == pytest.approx(float(push @ second), abs=1e-8)


def test_finds_the_optimum_that_scipy_finds():
    ends = solve([[0.3, 0.2, 0.0], [3.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
    assert ends.converged.all()
    np.testing.assert_allclose(ends.objective, ends.objective.min(), rtol=1e-12)
    exact = optimize.minimize(
        lambda u: sum(plain_huber(np.asarray(curve(u)))),
        ends.u[0],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-16, "maxiter": 5000},
    )
    assert ends.objective.min() <= exact.fun * (1 + 1e-9)
    far = optimize.minimize(
        lambda u: sum(plain_huber(np.asarray(curve(u)))),
        [0.3, 0.2, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 5000},
    )
    assert ends.objective.min() <= far.fun * (1 + 1e-6)


@pytest.mark.parametrize("start", [[1.0, 0.5, 0.3], [1.0, 1.0, 0.45], [1.0, 0.2, 0.6]])
def test_bounds_hold(start):
    lower, upper = (0.0, 0.2, 0.45), (np.inf, 1.0, 0.6)
    (u,), objective = solve(start, lower, upper).u, solve(start, lower, upper).objective[0]
    assert np.all(u >= lower)
    assert np.all(u <= upper)
    reference = optimize.minimize(
        lambda v: sum(plain_huber(np.asarray(curve(np.array([v[0], v[1], 0.45]))))),
        [1.0, 0.7],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-16},
    ).fun
    assert u[2] == 0.45  # the free optimum has a smaller offset
    assert solve(start).u[0][2] < 0.45
    assert objective <= reference * (1 + 1e-9)


def test_too_few_iterations_do_not_count_as_converged():
    ends = solve([[30.0, 8.0, -5.0]], iterations=1)
    assert not ends.converged[0]
    assert ends.decrement[0] > 1e-6
    assert solve([[30.0, 8.0, -5.0]]).converged[0]


def test_a_start_without_a_value_is_given_up():
    ends = solve([[np.nan, 1.0, 0.0], [1.0, 0.5, 0.3]])
    assert not ends.converged[0]
    assert ends.objective[0] == np.inf
    assert ends.converged[1]


def test_exact_data_converge_to_rounding():
    clean = 1.3 * np.exp(-0.7 * X) + 0.4
    model = jax.jit(jax.vmap(lambda u: derivatives(lambda v: clean - (v[0] * jnp.exp(-v[1] * X) + v[2]), u, ())))
    plain = jax.jit(jax.vmap(lambda v: clean - (v[0] * jnp.exp(-v[1] * X) + v[2])))
    bound = np.full(3, np.inf)
    ends = minimise(lambda p: (p, total(np.asarray(plain(p)))), model, np.array([[0.5, 0.2, 0.0]]), -bound, bound)
    assert ends.converged[0]
    np.testing.assert_allclose(ends.u[0], [1.3, 0.7, 0.4], atol=1e-9)


def test_one_batch_size_whatever_the_trials():
    seen = set()

    def counted(points):
        seen.add(points.shape)
        return attempt(points)

    minimise(counted, evaluate, np.array([[0.3, 0.2, 0.0], [3.0, 2.0, 1.0]]), np.full(3, -9.0), np.full(3, 9.0))
    assert seen == {(2 * TRIALS, 3)}
