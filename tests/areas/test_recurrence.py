"""The first-order recurrence against a loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from area_reference import loop_recurrence
from differences import finite_difference

from cptjax.areas import linear_recurrence

DECAYS = (0.0, 0.5, 0.999, 1.0)
run = jax.jit(linear_recurrence, static_argnames="block")


@pytest.mark.parametrize("steps", [1, 2, 3, 63, 64, 65, 127, 128, 129, 300, 5000])
def test_lengths(steps):
    inputs = np.random.default_rng(steps).standard_normal(steps)
    for decay in DECAYS:
        expected = loop_recurrence(decay, inputs)
        np.testing.assert_allclose(run(decay, inputs), expected, rtol=1e-11, atol=1e-11)


def test_any_block_length():
    inputs = np.random.default_rng(1).standard_normal(40)
    for block in (2, 3, 7, 39, 40, 41):
        np.testing.assert_allclose(run(0.9, inputs, block=block), loop_recurrence(0.9, inputs), rtol=1e-12)


@pytest.mark.slow
def test_all_lengths_up_to_300():
    for steps in range(1, 301):
        inputs = np.random.default_rng(steps).standard_normal(steps)
        np.testing.assert_allclose(linear_recurrence(0.97, inputs), loop_recurrence(0.97, inputs), rtol=1e-10)


def test_batch_dimensions():
    inputs = np.random.default_rng(2).standard_normal((2, 3, 150))
    np.testing.assert_allclose(run(0.97, inputs), loop_recurrence(0.97, inputs), rtol=1e-11, atol=1e-12)
    decays = jnp.array([0.5, 0.9])
    got = jax.jit(jax.vmap(linear_recurrence))(decays, inputs)
    for i, decay in enumerate(decays):
        np.testing.assert_allclose(got[i], loop_recurrence(float(decay), inputs[i]), rtol=1e-11, atol=1e-12)


def test_gradients():
    rng = np.random.default_rng(3)
    inputs, weights = rng.uniform(0.5, 1, 150), rng.uniform(0.5, 1, 150)

    @jax.jit
    def value(tree):
        return jnp.sum(weights * linear_recurrence(tree["decay"], tree["inputs"]) ** 2)

    gradient = jax.jit(jax.grad(value))
    for decay in (0.0, 0.5, 0.98):
        tree = {"decay": jnp.asarray(decay), "inputs": jnp.asarray(inputs)}
        got, expected = gradient(tree), finite_difference(value, tree)
        np.testing.assert_allclose(got["decay"], expected["decay"], rtol=1e-6)
        np.testing.assert_allclose(got["inputs"], expected["inputs"], rtol=1e-6)


def test_derivatives_at_decay_zero_and_one():
    inputs = jnp.asarray(np.random.default_rng(4).standard_normal(130))
    slope = jax.jit(jax.jacfwd(linear_recurrence))
    np.testing.assert_allclose(slope(0.0, inputs), np.concatenate([[0], inputs[:-1]]), atol=1e-15)
    lag = np.arange(130)[:, None] - np.arange(130)
    at_one = np.where(lag > 0, lag, 0) @ np.asarray(inputs)
    np.testing.assert_allclose(slope(1.0, inputs), at_one, rtol=1e-9, atol=1e-9)
