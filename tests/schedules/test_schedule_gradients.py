"""Gradients with respect to every leaf of every schedule, against central finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differences import finite_difference
from schedule_reference import EDGES, SMOOTH, N

from cptjax.namespace import on_host
from cptjax.schedules import WSD, Constant, Joined

WEIGHTS = np.random.default_rng(0).uniform(0.5, 2, N)


def value(schedule):
    weights = WEIGHTS[: schedule.steps]
    # Weights that grow with the LR, so that the second derivative is not zero either.
    return ((schedule.values() * 1e3 + 1) ** 2 * weights).sum()


@pytest.mark.parametrize("name", SMOOTH | EDGES)
def test_gradient_of_every_leaf(name):
    schedule = (SMOOTH | EDGES)[name].schedule
    got = jax.tree.leaves(jax.jit(jax.grad(value))(schedule))
    expected = jax.tree.leaves(finite_difference(value, schedule, step=1e-3))
    assert len(got) == len(expected) > 0
    for g, fd in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, fd, rtol=1e-6, atol=1e-6)
        assert np.all(np.isfinite(g))


def test_exponential_gradient_is_finite_next_to_zero():
    schedule = WSD(0.0, 1e-12, steps=5, decay_start=0, decay="exponential")
    gradient = jax.grad(lambda s: jnp.sum(s.values()))(schedule)
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(gradient))


def test_previous_lr_is_differentiable():
    schedule = Constant(3e-4, steps=5, warmup=4)
    gradient = jax.grad(lambda last: jnp.sum(schedule.values(previous_lr=last)))(1e-5)
    np.testing.assert_allclose(gradient, 0.75 + 0.5 + 0.25, rtol=1e-14)
    joined = Joined([Constant(1e-4, steps=2), schedule])
    gradient = jax.grad(lambda j: jnp.sum(j.values()))(joined)
    np.testing.assert_allclose(gradient.parts[0].peak, 2 + 0.75 + 0.5 + 0.25, rtol=1e-14)


def test_host_leaves_are_numpy():
    for leaf in jax.tree.leaves(on_host(SMOOTH["joined"].schedule)):
        assert isinstance(leaf, np.ndarray)
