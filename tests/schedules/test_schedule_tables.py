"""Tabulated schedules: what is found in them, and the way to optax and back."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from schedule_reference import END, PEAK, SMOOTH

from cptjax.namespace import on_host
from cptjax.schedules import (
    WSD,
    Constant,
    Cosine,
    Joined,
    Knots,
    Linear,
    Steps,
    find_cuts,
    find_warmup,
    from_array,
    from_optax,
)

LONG = {
    "warm_constant": (Constant(PEAK, steps=2000, warmup=200), {200}),
    "warm_cosine": (Cosine(PEAK, END, steps=2000, warmup=200), {200}),
    "wsd_linear": (WSD(PEAK, END, steps=2000, warmup=200, decay_start=1600), {200, 1600}),
    "wsd_exponential": (WSD(PEAK, END, steps=2000, decay_start=1600, decay="exponential"), {1600}),
    "wsd_sqrt": (WSD(PEAK, END, steps=2000, decay_start=1600, decay="sqrt"), {1600, 1601}),
    "steps": (Steps((500, 1500), [PEAK, 1e-4, END], steps=2000), {499, 500, 1499, 1500}),
    "knots": (Knots((300, 900, 1700), [PEAK, 1e-4, END], steps=2000), {300, 900, 1700}),
    "short_warmup": (WSD(PEAK, 0.0, steps=9000, warmup=50, decay_start=1000), {50, 1000}),
    "warm_steps": (Steps((1500,), [PEAK, END], steps=2000, warmup=200), {200, 1499, 1500}),
    "rewarmed": (
        Joined([Linear(PEAK, END, steps=1000), Constant(PEAK, steps=1000, warmup=100)]),
        {1000, 1100},
    ),
    "jump": (Joined([Constant(PEAK, steps=1000), Constant(END, steps=1000)]), {1000, 1001}),
}


@pytest.mark.parametrize("name", LONG)
def test_kinks_are_found(name):
    schedule, kinks = LONG[name]
    found = set(find_cuts(on_host(schedule).values()))
    assert kinks <= found
    assert all(min(abs(c - k) for k in kinks) <= 5 for c in found)


@pytest.mark.parametrize("name", [name for name in LONG if "sqrt" not in name])
def test_found_kinks_are_the_schedules_own(name):
    schedule, kinks = LONG[name]
    assert kinks == set(find_cuts(on_host(schedule).values()))
    assert kinks <= set(schedule.cuts)


@pytest.mark.parametrize("steps", [30, 100, 24_000])
@pytest.mark.parametrize("end", [0.0, END, PEAK])
def test_no_false_kinks_on_smooth_cosines(steps, end):
    assert find_cuts(on_host(Cosine(PEAK, end, steps=steps)).values()) == ()
    assert find_cuts(on_host(Constant(PEAK, steps=steps)).values()) == ()


@pytest.mark.parametrize("lr", [[], [PEAK], [PEAK, END], np.zeros(50)])
def test_nothing_to_find(lr):
    assert find_cuts(np.array(lr)) == ()


@pytest.mark.parametrize(
    ("lr", "warmup"),
    [
        (on_host(Cosine(PEAK, END, steps=50, warmup=7)).values(), 7),
        (on_host(Constant(PEAK, steps=50, warmup=7)).values(), 7),
        (on_host(Constant(PEAK, steps=50)).values(), 0),
        (on_host(Cosine(PEAK, END, steps=50)).values(), 0),
        (np.linspace(0, 1, 20), 20),
        (np.array([PEAK]), 0),
    ],
)
def test_warmup_is_found(lr, warmup):
    assert find_warmup(lr) == warmup


def test_from_array_keeps_values_and_finds_kinks():
    lr = on_host(WSD(PEAK, END, steps=300, decay_start=200)).values()
    table = from_array(lr, warmup=3)
    np.testing.assert_array_equal(table.values(), lr)
    assert (table.breaks, table.warmup, table.steps) == ((200,), 3, 300)
    assert table.cuts == (0, 3, 200, 300)


def test_from_array_traces():
    lr = on_host(Cosine(PEAK, END, steps=12)).values()
    np.testing.assert_allclose(jax.jit(lambda x: from_array(x).values() * 2)(lr), 2 * lr)


OPTAX = {
    "cosine": optax.warmup_cosine_decay_schedule(0.0, PEAK, 20, 100, END),
    "steps": optax.piecewise_constant_schedule(PEAK, {30: 0.3, 60: 0.5}),
    "joined": optax.join_schedules(
        [optax.linear_schedule(0.0, PEAK, 10), optax.constant_schedule(PEAK), optax.cosine_decay_schedule(PEAK, 40)],
        [10, 60],
    ),
}


@pytest.mark.parametrize("name", OPTAX)
def test_from_optax_is_optax_shifted_by_one(name):
    table = from_optax(OPTAX[name], 100)
    expected = [float(OPTAX[name](count)) for count in range(100)]
    np.testing.assert_allclose(table.values(), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_round_trip_over_optax(name):
    schedule = SMOOTH[name].schedule
    table = from_optax(schedule.to_optax(), schedule.steps)
    np.testing.assert_allclose(table.values(), schedule.values(), rtol=1e-14)


@pytest.mark.parametrize(
    ("schedule", "theirs"),
    [
        (Cosine(PEAK, END, steps=100, warmup=20), OPTAX["cosine"]),
        (Steps((31, 61), [PEAK, 0.3 * PEAK, 0.15 * PEAK], steps=100), lambda t: OPTAX["steps"](t)),
    ],
)
def test_to_optax_is_the_next_update(schedule, theirs):
    ours = schedule.to_optax()
    for count in (0, 1, 18, 19, 20, 50, 98):
        np.testing.assert_allclose(float(ours(count)), float(theirs(count + 1)), rtol=1e-5)


def test_to_optax_inside_an_optimiser():
    optimiser = optax.sgd(Steps((2,), [1.0, 0.25], steps=4).to_optax())
    weight = jnp.zeros(())
    state = optimiser.init(weight)
    seen = []
    for _ in range(4):
        update, state = optimiser.update(jnp.ones(()), state)
        weight = optax.apply_updates(weight, update)
        seen.append(-float(update))
    assert seen == [1.0, 0.25, 0.25, 0.25]
