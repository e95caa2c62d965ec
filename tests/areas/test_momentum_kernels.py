"""Momentum kernels against double loops over steps, and their conventions."""

import jax.numpy as jnp
import numpy as np
import pytest
from area_reference import areas_of, continued, levels_of, loop_lr_weighted, loop_momentum, schedules

from cptjax.areas import LRWeighted, Momentum, Power, compute_areas, record
from cptjax.schedules import Constant, Linear, Phase

N = 80
STEPS = np.array([0, 1, 2, 8, 9, 39, 40, 41, 44, 45, 60, 79, 80])
RUNS = {name: (Phase(schedule),) for name, schedule in schedules(N).items()} | continued(N)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("warmup", ["flat", "full", "forward"])
def test_momentum_equals_the_double_loop(name, warmup):
    phases = RUNS[name]
    (lr, drops), (cpt, _) = levels_of(phases, warmup)
    transfer = len(lr) - 1
    level = np.concatenate([[0], -np.cumsum(drops[1:])])
    for decay in (0.0, 0.9, 0.999):
        got = areas_of(Momentum(decay, warmup=warmup), {}, phases, STEPS)
        before, after = np.minimum(STEPS, transfer), np.maximum(STEPS - transfer, 0)
        expected = [loop_momentum(level, decay, t) for t in before]
        np.testing.assert_allclose(got.annealing_pt, expected, rtol=1e-10, atol=1e-16)
        expected = [loop_momentum(cpt, decay, t) for t in after]
        np.testing.assert_allclose(got.annealing_cpt, expected, rtol=1e-10, atol=1e-16)
    np.testing.assert_allclose(got.forward_pt, [sum(lr[1 : t + 1]) for t in before], rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(got.forward_cpt, [sum(cpt[1 : t + 1]) for t in after], rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("name", ["cosine", "rewarmed", "jump_up"])
def test_identity_of_the_momentum_area(name):
    (lr, _), _ = levels_of(RUNS[name], "flat")
    decay, m = 0.97, 0.0
    for t in range(1, len(lr)):
        m = decay * m + lr[t - 1] - lr[t]
    expected = ((lr[0] - lr[-1]) - decay * m) / (1 - decay)
    got = areas_of(Momentum(decay), {}, RUNS[name], [len(lr) - 1]).annealing_pt[0]
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("name", ["cosine_to_0", "rewarmed", "one_step", "from_nothing"])
@pytest.mark.parametrize("epsilon", [0.15, 1.0])
def test_lr_weighted_equals_the_double_loop(name, epsilon):
    phases = RUNS[name]
    (lr, _), (cpt, _) = levels_of(phases, "flat")
    transfer = len(lr) - 1
    got = areas_of(LRWeighted(0.95, epsilon), {}, phases, STEPS)
    expected = [loop_lr_weighted(lr, 0.95, epsilon, min(t, transfer)) for t in STEPS]
    np.testing.assert_allclose(got.annealing_pt, expected, rtol=1e-10, atol=1e-18)
    expected = [loop_lr_weighted(cpt, 0.95, epsilon, max(t - transfer, 0)) for t in STEPS]
    np.testing.assert_allclose(got.annealing_cpt, expected, rtol=1e-10, atol=1e-18)


@pytest.mark.parametrize("zeta", [0.7, 1.0, 1.4])
def test_power_keeps_the_sign(zeta):
    phases = RUNS["rewarmed_from_0"]
    (lr, _), (cpt, _) = levels_of(phases, "flat")
    got = areas_of(Power(0.95), {"kernel_zeta": zeta}, phases, STEPS)
    for area, levels, at in (
        (got.annealing_pt, lr, np.minimum(STEPS, 40)),
        (got.annealing_cpt, cpt, np.maximum(STEPS - 40, 0)),
    ):
        plain = np.array([loop_momentum(levels, 0.95, t) for t in at])
        np.testing.assert_allclose(area, np.sign(plain) * np.abs(plain) ** zeta, rtol=1e-9, atol=1e-16)
    assert got.annealing_cpt[-1] < 0


@pytest.mark.parametrize("kernel", [Momentum(), LRWeighted(), Power(zeta=0.7)])
@pytest.mark.parametrize("name", ["cosine", "table", "rewarmed"])
def test_step_zero_has_no_area(kernel, name):
    got = areas_of(kernel, {}, RUNS[name], [0])
    for area in (got.forward_pt, got.forward_cpt, got.annealing_pt, got.annealing_cpt, got.replay_ratio):
        assert area[0] == 0


def test_first_continual_drop_is_against_the_last_lr():
    phases = (Phase(Constant(3e-4, steps=5)), Phase(Constant(1e-4, steps=5), "cpt"))
    got = areas_of(Momentum(0.0), {}, phases, [5, 6, 10])
    np.testing.assert_allclose(got.annealing_pt, 0, atol=1e-20)
    np.testing.assert_allclose(got.annealing_cpt, [0, 2e-4, 2e-4], rtol=1e-12)


def test_initial_warmup_is_flat_and_a_rewarmup_counts():
    phases = (Phase(Constant(3e-4, steps=9, warmup=6)), Phase(Constant(5e-4, steps=9, warmup=4), "cpt"))
    got = areas_of(Momentum(0.5), {}, phases, [3, 9, 13])
    np.testing.assert_allclose(got.forward_pt, np.array([3, 9, 9]) * 3e-4, rtol=1e-12)
    np.testing.assert_allclose(got.annealing_pt, 0, atol=1e-18)
    assert got.annealing_cpt[-1] < 0
    full = areas_of(Momentum(0.5, warmup="full"), {}, phases, [3, 9])
    np.testing.assert_allclose(full.forward_pt[0], 3e-4 * (1 + 2 + 3) / 6, rtol=1e-12)
    assert full.annealing_pt[0] < 0
    forward = areas_of(Momentum(0.5, warmup="forward"), {}, phases, [3, 9])
    np.testing.assert_allclose(forward.forward_pt, full.forward_pt, rtol=1e-14)
    np.testing.assert_allclose(forward.annealing_pt, 0, atol=1e-18)


@pytest.mark.parametrize("name", continued(N))
@pytest.mark.parametrize("warmup", ["flat", "full"])
def test_carried_momentum_is_the_loop_over_the_whole_run(name, warmup):
    phases = RUNS[name]
    _, drops = levels_of(phases, warmup, carried=True)
    level = np.concatenate([[0], -np.cumsum(drops[1:])])
    got = areas_of(Momentum(0.95, warmup=warmup), {}, phases, STEPS, carry_momentum=True)
    total = [loop_momentum(level, 0.95, t) for t in STEPS]
    np.testing.assert_allclose(got.annealing_pt + got.annealing_cpt, total, rtol=1e-9, atol=1e-16)
    fresh = areas_of(Momentum(0.95, warmup=warmup), {}, phases, STEPS)
    np.testing.assert_allclose(got.annealing_pt, fresh.annealing_pt, rtol=1e-10, atol=1e-17)


DECAYS = [0.0, 0.3, 0.9, 0.99, 0.999, 0.9999, 0.99999]


@pytest.mark.parametrize("kernel", [Momentum(None), Power(None, 0.8)])
def test_tabulated_equals_untabulated(kernel):
    n = 4000
    phases = [(Phase(s),) for s in schedules(n).values()] + list(continued(n).values())
    run = np.repeat(np.arange(len(phases)), 4)
    step = np.tile([0, 1500, 3100, n], len(phases))
    phases = [p if len(p) > 1 else (*p, Phase(Linear(3e-4, 0.0, steps=1), "cpt")) for p in phases]
    history = record(kernel, phases, run, step)
    table = history.tabulated(kernel)
    for decay in DECAYS:
        plain = compute_areas(kernel, {"decay": decay}, history)
        fast = compute_areas(kernel, {"decay": decay}, table)
        for a, b in ((plain.annealing_pt, fast.annealing_pt), (plain.annealing_cpt, fast.annealing_cpt)):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * float(jnp.max(jnp.abs(a))))


def test_fixed_decay_is_one_term():
    history = record(Momentum(0.99), [RUNS["cosine"]], np.zeros(3, dtype=int), np.array([5, 40, 80]))
    table = history.tabulated(Momentum(0.99))
    assert table.prepared["pt"].coefficients.shape == (1, 3)
    a, b = (compute_areas(Momentum(0.99), {}, h).annealing_pt for h in (history, table))
    np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("decay", [1.0, 1, -0.1, 2.0])
def test_decay_outside_is_refused(decay):
    with pytest.raises(ValueError, match=r"decay must lie in \[0, 1\)"):
        Momentum(decay)
