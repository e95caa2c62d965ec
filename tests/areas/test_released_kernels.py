"""Multi-power and functional kernels: every term against double loops, quadrature against every term."""

import numpy as np
import pytest
from area_reference import (
    END,
    KERNELS,
    MULTIPOWER,
    PEAK,
    areas_of,
    compute,
    continued,
    levels_of,
    loop_functional,
    loop_multipower,
    schedules,
)

from cptjax.areas import Functional, MultiPower, record
from cptjax.schedules import WSD, Constant, Linear, Phase, Steps, from_array

SHORT = 48


def runs_of(n):
    return {name: (Phase(schedule),) for name, schedule in schedules(n).items()} | continued(n)


def histories(kernel, runs, at):
    """One history of all runs, each observed at ``at``; runs without a cpt phase get one step of constant LR."""
    phases = [p if len(p) > 1 else (*p, Phase(Constant(END, steps=1), "cpt")) for p in runs.values()]
    run = np.repeat(np.arange(len(phases)), len(at))
    return record(kernel, phases, run, np.tile(at, len(phases)))


@pytest.mark.parametrize("warmup", ["flat", "full", "forward"])
@pytest.mark.parametrize("name", KERNELS)
def test_exact_equals_the_double_loop(name, warmup):
    make, params, amplitude, loop = KERNELS[name]
    runs, at = runs_of(SHORT), np.array([0, 1, 2, 4, 5, 24, 25, 26, 37, 47, 48])
    areas = compute(make(mode="exact", warmup=warmup), params, histories(make(mode="exact", warmup=warmup), runs, at))
    got = np.stack([areas.annealing_pt, areas.annealing_cpt]).reshape(2, len(runs), at.size)
    for i, (run, phases) in enumerate(runs.items()):
        (lr, drops), (cpt, cpt_drops) = levels_of(phases, warmup)
        transfer, before = len(lr) - 1, sum(lr[1:])
        extra = {"before": before} if loop is loop_functional else {}
        expected = [loop(lr, drops, min(t, transfer), params) for t in at]
        np.testing.assert_allclose(amplitude * got[0, i], amplitude * np.array(expected), atol=1e-10, err_msg=run)
        if len(phases) > 1:
            expected = [loop(cpt, cpt_drops, max(t - transfer, 0), params, **extra) for t in at]
            np.testing.assert_allclose(amplitude * got[1, i], amplitude * np.array(expected), atol=1e-10, err_msg=run)


def worst_of_fast(name, warmup, n, at):
    make, params, amplitude, _ = KERNELS[name]
    runs, areas = runs_of(n), {}
    for mode in ("fast", "exact"):
        kernel = make(mode=mode, warmup=warmup)
        areas[mode] = compute(kernel, params, histories(kernel, runs, at))
    errors = [
        amplitude * np.abs(np.asarray(getattr(areas["fast"], part) - getattr(areas["exact"], part)))
        for part in ("annealing_pt", "annealing_cpt")
    ]
    worst = np.max(errors, axis=0).reshape(len(runs), -1).max(axis=1)
    return dict(zip(runs, worst, strict=True))


@pytest.mark.parametrize("warmup", ["flat", "full", "forward"])
@pytest.mark.parametrize("name", KERNELS)
def test_fast_equals_exact(name, warmup):
    n = 3000
    at = np.array([0, 1, 7, 150, 299, 300, 301, 1000, 1499, 1500, 1501, 1502, 1640, 2249, 2250, 2251, 2270, 2700, n])
    worst = worst_of_fast(name, warmup, n, at)
    assert max(worst.values()) < 1e-5, {run: f"{error:.1e}" for run, error in worst.items() if error >= 1e-5}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [400, 24_000, 72_000])
def test_fast_equals_exact_at_other_lengths(name, n):
    worst = worst_of_fast(name, "full", n, np.unique(np.linspace(0, n, 40).astype(int)))
    assert max(worst.values()) < 1e-5, {run: f"{error:.1e}" for run, error in worst.items() if error >= 1e-5}


def test_logged_schedules_are_cut_where_they_jump():
    n, at = 3000, np.array([100, 1500, 1501, 1600, 2400, 3000])
    for schedule in (
        WSD(PEAK, END, steps=n, warmup=300, decay_start=2250, decay="exponential"),
        Steps((1500,), [PEAK, 9e-5], steps=n, warmup=300),
    ):
        table = from_array(np.asarray(schedule.values()), warmup=300)
        exact = areas_of(MultiPower(mode="exact", warmup="full"), MULTIPOWER, (Phase(schedule),), at)
        got = areas_of(MultiPower(warmup="full"), MULTIPOWER, (Phase(table),), at)
        np.testing.assert_allclose(363.788 * (got.annealing_pt - exact.annealing_pt), 0, atol=1e-5)


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize("make", [MultiPower, Functional])
def test_step_zero_and_flat_schedules_release_nothing(make, mode):
    params = {**KERNELS["multipower"][1], **KERNELS["functional"][1]}
    got = areas_of(make(mode=mode), params, (Phase(Constant(PEAK, steps=20, warmup=5)),), [0, 3, 20])
    np.testing.assert_array_equal(got.annealing_pt, 0)


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_fixed_parameters_equal_given_ones(mode):
    phases = (Phase(Linear(PEAK, 0.0, steps=20)),)
    fixed = {name.removeprefix("kernel_"): value for name, value in MULTIPOWER.items()}
    a = areas_of(MultiPower(**fixed, mode=mode), {}, phases, [5, 20])
    b = areas_of(MultiPower(mode=mode), MULTIPOWER, phases, [5, 20])
    np.testing.assert_allclose(a.annealing_pt, b.annealing_pt, rtol=1e-14)
    assert MultiPower(**fixed).parameters == ()


def test_functional_fades_with_the_forward_area_of_the_whole_run():
    cpt = Phase(Linear(PEAK, 0.0, steps=20), "cpt")
    short, long = (
        areas_of(Functional(), KERNELS["functional"][1], (Phase(Constant(PEAK, steps=n)), cpt), [n + 20])
        for n in (10, 1000)
    )
    assert float(short.annealing_cpt[0]) > 1.2 * float(long.annealing_cpt[0])


def test_loops_agree_with_hand_sums():
    lr, drops = [3.0, 2.0, 1.0], [0.0, 1.0, 1.0]
    p = {"kernel_C": 2.0, "kernel_beta": 1.0, "kernel_gamma": 0.0}
    assert loop_multipower(lr, drops, 2, p) == pytest.approx((1 - 1 / 7) + (1 - 1 / 3))
    p = {"kernel_c3": 1.0, "kernel_c4": 2.0, "kernel_gamma": 1.0, "kernel_s": 1.0}
    assert loop_functional(lr, drops, 2, p) == pytest.approx((1 + 1 / 2) * (1 - 1 / 3))
