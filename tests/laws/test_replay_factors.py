"""Replay factors: the numbers they were chosen by, their limits, and smoothness where they switch to a series."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from law_reference import exponential_factor, share_factor_pt

from cptjax.laws import ExponentialReplay, ShareReplay
from cptjax.laws.replay import exponential_share

REPLAYED = jnp.array([0.33, 0.5, 0.67])


@pytest.mark.parametrize(("a2", "printed"), [(3.238, (0.32, 0.17, 0.08)), (-5.696, (0.98, 0.95, 0.85))])
def test_exponential_numbers(a2, printed):
    got = ExponentialReplay(anneal=False).shift({"a2": a2}, REPLAYED)
    np.testing.assert_allclose(got, printed, atol=0.0051)
    np.testing.assert_allclose(got, [exponential_factor(a2, float(r)) for r in REPLAYED], rtol=1e-12)


@pytest.mark.parametrize(
    ("replay", "params", "printed", "atol"),
    [
        (ShareReplay("cpt"), {"replay_k": 0.147}, (0.943, 0.903, 0.850), 6e-4),
        # laws.md gives .31/.19/.11 for epsilon = .029, which are the numbers of epsilon = .035.
        (ShareReplay("pt"), {"replay_gamma": 0.0, "replay_epsilon": 0.035}, (0.31, 0.19, 0.11), 0.0055),
        (ShareReplay("pt"), {"replay_gamma": 0.0, "replay_epsilon": 0.029}, (0.295, 0.186, 0.108), 6e-4),
    ],
)
def test_share_numbers(replay, params, printed, atol):
    np.testing.assert_allclose(replay.shift(params, REPLAYED), printed, atol=atol)
    np.testing.assert_allclose(ShareReplay().shift(params, REPLAYED), replay.shift(params, REPLAYED))


@pytest.mark.parametrize("gamma", [-0.5, 0.0, 1e-9, 1e-4, 3e-4, 0.46, 1.5])
@pytest.mark.parametrize("epsilon", [1e-3, 0.029, 2.0])
def test_share_of_the_old_domain_equals_its_definition(gamma, epsilon):
    ratios = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    got = ShareReplay("pt").shift({"replay_gamma": gamma, "replay_epsilon": epsilon}, jnp.asarray(ratios))
    expected = [share_factor_pt(gamma if abs(gamma) > 1e-6 else 0.0, epsilon, r) for r in ratios]
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)


FACTORS = [
    (ExponentialReplay(), {"a2": 3.0, "a1": 0.1}),
    (ExponentialReplay(), {"a2": 0.0, "a1": 0.1}),
    (ExponentialReplay(), {"a2": -90.0, "a1": 0.1}),
    (ShareReplay("pt"), {"replay_gamma": 0.0, "replay_epsilon": 0.03}),
    (ShareReplay("pt"), {"replay_gamma": 1.2, "replay_epsilon": 0.003}),
    (ShareReplay("cpt"), {"replay_k": 0.1}),
]


@pytest.mark.parametrize(("replay", "params"), FACTORS)
def test_factor_is_one_without_replay_and_zero_with_nothing_else(replay, params):
    ratios = jnp.linspace(0, 1, 21)
    factor = replay.shift(params, ratios)
    np.testing.assert_allclose(factor[0], 1, rtol=1e-12)
    np.testing.assert_allclose(factor[-1], 0, atol=1e-12)
    assert np.all(np.diff(factor) <= 1e-12)
    assert np.all(np.isfinite(factor))
    np.testing.assert_allclose(replay.annealing(params, ratios)[0], 1)


def test_annealing_factor():
    got = ExponentialReplay().annealing({"a1": 0.055}, REPLAYED)
    np.testing.assert_allclose(got, np.exp(0.055 * np.asarray(REPLAYED)), rtol=1e-14)
    np.testing.assert_array_equal(ExponentialReplay(anneal=False).annealing({}, REPLAYED), 1)
    np.testing.assert_array_equal(ShareReplay().annealing({}, REPLAYED), 1)


def reference_share(a, r):
    """Taylor series in ``a`` to sixth order: exact to 1e-16 for |a| < 3e-3."""
    numerator = [r ** (n + 1) / np.prod(np.arange(1, n + 2)) for n in range(7)]
    denominator = [1 / np.prod(np.arange(1, n + 2, dtype=float)) for n in range(7)]
    b = []
    for n in range(7):
        b.append(numerator[n] - sum(b[m] * denominator[n - m] for m in range(n)))
    return np.array(b)


@pytest.mark.parametrize("a", [0.0, 1e-8, -5e-4, 9.99e-4, 1.01e-3, -1.01e-3, 2e-3])
@pytest.mark.parametrize("r", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_series_joins_smoothly(a, r):
    b = reference_share(a, r)
    powers = np.arange(7)
    exact = np.sum(b * a**powers)
    first = np.sum(b[1:] * powers[1:] * a ** (powers[1:] - 1))
    second = np.sum(b[2:] * powers[2:] * (powers[2:] - 1) * a ** (powers[2:] - 2))
    f = lambda x: exponential_share(x, jnp.asarray(r))  # noqa: E731
    assert float(f(a)) == pytest.approx(exact, abs=1e-13)
    assert float(jax.grad(f)(a)) == pytest.approx(first, abs=1e-10)
    assert float(jax.grad(jax.grad(f))(a)) == pytest.approx(second, abs=1e-7)
