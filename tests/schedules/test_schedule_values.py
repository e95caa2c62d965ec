"""Every schedule against scalar code, in both array libraries."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_reference import CASES, END, PEAK, N

from cptjax.namespace import on_host
from cptjax.schedules import WSD, Constant, Cosine, Joined, Knots, Linear, Phase, Steps, Table


@pytest.mark.parametrize("name", CASES)
def test_every_step_equals_scalar_code(name):
    schedule, lr = CASES[name].schedule, CASES[name].lr
    grid = np.arange(schedule.steps + 3)
    expected = [lr(int(t)) for t in grid]
    np.testing.assert_allclose(on_host(schedule)(grid), expected, rtol=1e-13, atol=1e-19)


@pytest.mark.parametrize("name", CASES)
def test_numpy_and_jax_agree(name):
    schedule = CASES[name].schedule
    in_numpy, in_jax = on_host(schedule).values(), schedule.values()
    assert isinstance(in_numpy, np.ndarray)
    assert isinstance(in_jax, jax.Array)
    assert in_numpy.dtype == in_jax.dtype == np.float64
    np.testing.assert_allclose(in_numpy, in_jax, rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_values_are_calls(name):
    schedule = on_host(CASES[name].schedule)
    calls = [schedule(t) for t in range(1, schedule.steps + 1)]
    assert np.shape(calls[0]) == ()
    np.testing.assert_array_equal(schedule.values(), calls)
    np.testing.assert_array_equal(schedule.values(np.array([2, 1])), [schedule(2), schedule(1)])


@pytest.mark.parametrize(
    ("schedule", "step", "lr"),
    [
        (Constant(PEAK, steps=10, warmup=4), 0, 0.0),
        (Constant(PEAK, steps=10, warmup=4), 1, PEAK / 4),
        (Constant(PEAK, steps=10, warmup=4), 4, PEAK),
        (Linear(PEAK, END, steps=10, warmup=4), 4, PEAK),
        (Linear(PEAK, END, steps=10), 0, PEAK),
        (Linear(PEAK, END, steps=10), 10, END),
        (Cosine(PEAK, END, steps=10, warmup=4), 4, PEAK),
        (Cosine(PEAK, END, steps=10), 10, END),
        (Cosine(PEAK, 0.0, steps=10), 10, 0.0),
        *[(WSD(PEAK, END, steps=9, decay_start=6, decay=d), 6, PEAK) for d in ("linear", "exponential", "sqrt")],
        *[(WSD(PEAK, END, steps=9, decay_start=6, decay=d), 9, END) for d in ("linear", "exponential", "cosine")],
        (WSD(PEAK, END, steps=8, decay_start=4), 6, (PEAK + END) / 2),
        (WSD(PEAK, END, steps=8, decay_start=4, decay="exponential"), 6, (PEAK * END) ** 0.5),
        (WSD(PEAK, END, steps=8, decay_start=4, decay="sqrt"), 5, (PEAK + END) / 2),
        (Steps((5,), [PEAK, END], steps=9), 4, PEAK),
        (Steps((5,), [PEAK, END], steps=9), 5, END),
        (Knots((3, 5), [PEAK, END], steps=9), 1, PEAK),
        (Knots((3, 5), [PEAK, END], steps=9), 4, (PEAK + END) / 2),
        (Knots((3, 5), [PEAK, END], steps=9), 9, END),
        (Table([PEAK, END]), 1, PEAK),
        (Table([PEAK, END], warmup=1), 0, 0.0),
        (Constant(PEAK, steps=10), 99, PEAK),
    ],
)
def test_exact_values(schedule, step, lr):
    assert float(schedule(step)) == pytest.approx(lr, rel=1e-14, abs=0)


@pytest.mark.parametrize(
    "second", [Constant(PEAK, steps=6, warmup=3), Cosine(PEAK, END, steps=6), Table([PEAK, END, END])]
)
def test_joined_equals_concatenation(second):
    first = Linear(PEAK, END, steps=5, warmup=2)
    expected = np.concatenate([first.values(), second.values(previous_lr=first(5))])
    np.testing.assert_allclose(Joined([first, second]).values(), expected, rtol=1e-14)


def test_borders_of_a_rewarmed_phase():
    joined = on_host(Joined([Linear(PEAK, END, steps=5), Constant(PEAK, steps=6, warmup=3)]))
    rise = END + (PEAK - END) * np.array([1, 2, 3]) / 3
    np.testing.assert_allclose(joined([5, 6, 7, 8, 9]), [END, *rise, PEAK], rtol=1e-14)
    joined = on_host(Joined([Linear(PEAK, END, steps=5), Constant(PEAK, steps=6, warmup=3, warmup_from=0.0)]))
    np.testing.assert_allclose(joined([5, 6, 7, 8, 9]), [END, PEAK / 3, 2 * PEAK / 3, PEAK, PEAK], rtol=1e-14)


def test_joined_first_warmup_starts_where_told():
    parts = [Constant(PEAK, steps=4, warmup=4), Constant(END, steps=2)]
    np.testing.assert_allclose(float(Joined(parts)(2)), PEAK / 2)
    np.testing.assert_allclose(float(Joined(parts)(2, END)), (PEAK + END) / 2)
    np.testing.assert_allclose(float(Joined(parts, warmup_from=1e-5)(2)), (PEAK + 1e-5) / 2)


@pytest.mark.parametrize("name", CASES)
def test_without_warmup_holds_the_top(name):
    schedule, lr = on_host(CASES[name].schedule), CASES[name].lr
    expected = [lr(max(t, schedule.warmup)) for t in range(schedule.steps + 1)]
    np.testing.assert_allclose(schedule.without_warmup()(np.arange(schedule.steps + 1)), expected, rtol=1e-13)


@pytest.mark.parametrize("name", ["cosine", "wsd_exponential", "steps", "joined"])
def test_jit_and_vmap_over_leaves(name):
    schedule = CASES[name].schedule
    evaluate = jax.jit(lambda s: s.values())
    np.testing.assert_allclose(evaluate(schedule), schedule.values(), rtol=1e-14)
    scales = jnp.array([0.5, 1.0, 2.0])
    batch = jax.tree.map(lambda x: scales.reshape(-1, *[1] * x.ndim) * x, schedule)
    got = jax.vmap(lambda s: s.values())(batch)
    np.testing.assert_allclose(got, scales[:, None] * schedule.values(), rtol=1e-12)


def test_counts_are_static():
    schedule = Cosine(PEAK, END, steps=N, warmup=4)
    assert len(jax.tree.leaves(schedule)) == 2
    assert jax.tree.structure(schedule) != jax.tree.structure(Cosine(PEAK, END, steps=N, warmup=5))
    assert eqx.tree_equal(schedule, Cosine(PEAK, END, steps=N, warmup=4))


MESSAGES = [
    (lambda: Constant(-1e-4, steps=3), "not negative"),
    (lambda: Constant(float("nan"), steps=3), "finite"),
    (lambda: Linear(PEAK, float("inf"), steps=3), "finite"),
    (lambda: Constant(PEAK, steps=3, warmup=2, warmup_from=-1.0), "not negative"),
    (lambda: Table([PEAK, -PEAK]), "not negative"),
    (lambda: Constant(PEAK, steps=0), "at least 1 step"),
    (lambda: Constant(PEAK, steps=3, warmup=4), "warmup"),
    (lambda: Constant(PEAK, steps=3, warmup=-1), "warmup"),
    (lambda: WSD(PEAK, END, steps=9, decay_start=10), "decay_start"),
    (lambda: WSD(PEAK, END, steps=9, warmup=4, decay_start=3), "decay_start"),
    (lambda: WSD(PEAK, END, steps=9, decay_start=3, decay="log"), "decay must be one of"),
    (lambda: WSD(PEAK, 0.0, steps=9, decay_start=3, decay="exponential"), "end > 0"),
    (lambda: Steps((3,), [PEAK], steps=9), "need 2 values"),
    (lambda: Steps((5, 3), [PEAK] * 3, steps=9), "increase"),
    (lambda: Steps((10,), [PEAK] * 2, steps=9), r"\[1, 9\]"),
    (lambda: Steps((0,), [PEAK] * 2, steps=9), r"\[1, 9\]"),
    (lambda: Knots((), [], steps=9), "at least one knot"),
    (lambda: Knots((1, 2), [PEAK], steps=9), "2 knots"),
    (lambda: Knots((2, 2), [PEAK] * 2, steps=9), "increase"),
    (lambda: Knots((2, 10), [PEAK] * 2, steps=9), r"\[0, 9\]"),
    (lambda: Table([]), "at least 1 step"),
    (lambda: Joined([]), "at least one"),
    (lambda: Phase(Constant(PEAK, steps=3), "sft"), "'pt' or 'cpt'"),
]


@pytest.mark.parametrize(("make", "message"), MESSAGES)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


rates = st.floats(0, 1e-2)


@settings(max_examples=60, deadline=None)
@given(rates, rates, st.integers(1, 60), st.data())
def test_decays_fall_between_their_ends(a, b, steps, data):
    peak, end = max(a, b), min(a, b)
    warmup = data.draw(st.integers(0, steps))
    decay = data.draw(st.sampled_from(("linear", "cosine", "sqrt")))
    start = data.draw(st.integers(warmup, steps))
    for schedule in (
        Cosine(peak, end, steps=steps, warmup=warmup),
        Linear(peak, end, steps=steps, warmup=warmup),
        WSD(peak, end, steps=steps, warmup=warmup, decay_start=start, decay=decay),
    ):
        lr = on_host(schedule)(np.arange(warmup, steps + 1))
        assert np.all(np.diff(lr) <= 1e-17)
        # The absolute part is for LRs so small (denormal) that half of one is none.
        assert np.all((lr <= peak * (1 + 1e-12) + 1e-300) & (lr >= end * (1 - 1e-12) - 1e-300))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(rates, st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4))
def test_joined_is_concatenation_of_any_parts(drawn):
    parts = [on_host(Linear(lr, lr / 2, steps=n, warmup=min(w, n))) for lr, n, w in drawn]
    pieces, last = [], 0.0
    for part in parts:
        pieces.append(part.values(previous_lr=last))
        last = pieces[-1][-1]
    np.testing.assert_allclose(on_host(Joined(parts)).values(), np.concatenate(pieces), rtol=1e-12, atol=1e-18)
