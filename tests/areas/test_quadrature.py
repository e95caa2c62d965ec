"""Simpson nodes sum every quadratic exactly, whatever the cuts."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cptjax.areas.quadrature import simpson_nodes


def sums(steps):
    k = np.arange(1, steps + 1, dtype=float)
    return np.array([k.size, k.sum(), (k**2).sum()])


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 5000), st.data())
def test_quadratics_are_exact(total, data):
    step = np.array(data.draw(st.lists(st.integers(0, total), min_size=1, max_size=5)))
    inner = data.draw(st.lists(st.integers(0, total), max_size=6))
    cuts = np.sort([0, *inner, total])
    k, w = simpson_nodes(step, np.tile(cuts, (step.size, 1)), total)
    assert k.min() >= 1
    assert np.all(k[w != 0] <= np.repeat(step[:, None], k.shape[1], 1)[w != 0])
    got = np.stack([w.sum(1), (w * k).sum(1), (w * k**2.0).sum(1)], axis=1)
    np.testing.assert_allclose(got, [sums(t) for t in step], rtol=1e-10, atol=1e-8)


def test_repeated_cuts_are_padding():
    step = np.array([0, 1, 7, 100])
    once = simpson_nodes(step, np.tile([0, 60, 100], (4, 1)), 100)
    twice = simpson_nodes(step, np.tile([0, 60, 100, 100, 100], (4, 1)), 100)
    f = np.exp(-np.arange(101) / 30)
    np.testing.assert_allclose((once[1] * f[once[0]]).sum(1), (twice[1] * f[twice[0]]).sum(1), rtol=1e-13)


def test_short_pieces_are_summed_term_by_term():
    values = np.random.default_rng(0).standard_normal(13)
    cuts = np.tile([0, 3, 4, 6, 9, 12], (13, 1))
    k, w = simpson_nodes(np.arange(13), cuts, 12)
    expected = [values[1 : t + 1].sum() for t in range(13)]
    np.testing.assert_allclose((w * values[k]).sum(1), expected, atol=1e-13)


def test_few_nodes():
    _, w = simpson_nodes(np.array([72_000]), np.array([[0, 2160, 72_000]]), 72_000)
    assert np.count_nonzero(w) < 300


@pytest.mark.parametrize("total", [1, 40, 3000])
def test_jax_equals_numpy(total):
    rng = np.random.default_rng(total)
    step = rng.integers(0, total + 1, 4)
    cuts = np.tile(np.sort([0, *rng.integers(0, total + 1, 2), total]), (4, 1))
    in_numpy = simpson_nodes(step, cuts, total)
    in_jax = jax.jit(simpson_nodes, static_argnums=2)(step, cuts, total)
    for a, b in zip(in_numpy, in_jax, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
