"""The LR clock against a loop over steps, its series, and its limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from area_reference import continued, levels_of

from cptjax.areas import Momentum, record

N = 80
STEPS = np.array([0, 39, 40, 41, 44, 60, 79, 80])
RUNS = continued(N)


def clock_of(names):
    runs = [RUNS[name] for name in names]
    run = np.repeat(np.arange(len(runs)), STEPS.size)
    return record(Momentum(0.9), runs, run, np.tile(STEPS, len(runs)), clocked=True).clock


@pytest.mark.parametrize("power", [0.5, 1.0, 1.7])
def test_clock_equals_the_loop(power):
    got = np.asarray(clock_of(RUNS).at(power)).reshape(len(RUNS), -1)
    for phases, values in zip(RUNS.values(), got, strict=True):
        (pt, _), (cpt, _) = levels_of(phases, "flat")
        peak, transfer = max(pt[1:]), len(pt) - 1
        expected = [sum(peak * (lr / peak) ** power for lr in cpt[1 : max(t - transfer, 0) + 1]) for t in STEPS]
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("power", [0.3, 0.31, 0.9, 1.0, 2.99, 3.0])
def test_series_equals_the_clock(power):
    clock = clock_of(RUNS)
    exact = np.asarray(clock.at(power))
    np.testing.assert_allclose(clock.tabulated().at(power), exact, rtol=1e-9, atol=1e-9 * exact.max())


def test_gradients_are_finite_where_the_lr_is_zero():
    clock = clock_of(RUNS)
    for form in (clock, clock.tabulated()):
        assert np.all(np.isfinite(jax.jacfwd(form.at)(jnp.asarray(0.8))))
    slope = jax.grad(lambda lr: jnp.sum(type(clock)(lr, clock.unit, clock.run, clock.step).at(0.8)))(
        jnp.asarray(clock.lr)
    )
    assert np.all(np.isfinite(slope))


def test_a_run_without_continual_phase_stands_still():
    (pretraining,) = next(iter(RUNS.values()))[:1]
    clock = record(Momentum(0.9), [(pretraining,)], np.zeros(2, int), np.array([1, 30]), clocked=True).clock
    np.testing.assert_array_equal(clock.at(0.7), 0)
