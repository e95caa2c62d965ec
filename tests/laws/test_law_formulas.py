"""Every law against scalar code, and its gradients against finite differences."""

import jax
import jax.numpy as jnp
import law_reference as ref
import numpy as np
import pytest
from differences import finite_difference
from law_reference import BASE, CROSSING, DECAY, PT, RATIO, SIZE, SIZED, STEPS

from cptjax.areas import Functional, LRWeighted, Momentum, MultiPower, Power
from cptjax.errors import InputError
from cptjax.laws import (
    AnnealingLaw,
    CPTLaw,
    CrossingLaw,
    ExponentialReplay,
    FunctionalLaw,
    MultiPowerLaw,
    ShareReplay,
)
from cptjax.runs import Run
from cptjax.schedules import Constant, Joined, Linear, Phase, Table

MP = {"kernel_C": 2.0, "kernel_beta": 0.6, "kernel_gamma": 0.6}
FS = {"kernel_c3": 0.5, "kernel_c4": 500.0, "kernel_gamma": 0.6, "kernel_s": 0.4}
MOMENTUM = Momentum(None)


def functional_area(rates, t):
    before = 0.0 if len(rates) == PT + 1 else ref.forward(ref.rates_of_run()[0], PT)
    return ref.functional(rates, t, 0.5, 500.0, 0.6, 0.4, before)


def pretraining_loss(name, p, t):
    flat = ref.rates_of_pretraining(flat=True)
    true = ref.rates_of_pretraining(flat=False)
    if name == "multipower":
        area = ref.multipower(true, t, p["C"], p["beta"], p["gamma"])
        return p["L0"] + p["A"] * ref.forward(true, t) ** -p["alpha"] - p["B"] * area
    if name == "functional":
        area = ref.functional(flat, t, p["c3"], p["c4"], p["gamma"], p["s"])
        return p["L0"] + p["c1"] * ref.forward(flat, t) ** -p["s"] - p["c2"] * area
    size = SIZE ** p.get("gamma1", 0.0), p.get("F", 0.0) * SIZE ** -p.get("gamma3", 0.0)
    return p["L0"] + p["A"] * ref.forward(flat, t) ** -p["alpha"] - p["C"] * ref.momentum(flat, t) * size[0] + size[1]


ANNEALING = {"L0": 3.0, "A": 0.05, "alpha": 0.5, "C": 40.0, "decay": DECAY}
LAWS = {
    "annealing": (AnnealingLaw(MOMENTUM), ANNEALING, None),
    "annealing_size": (AnnealingLaw(MOMENTUM, size=True), ANNEALING | {"gamma1": 0.1, "F": 2.0, "gamma3": 0.2}, None),
    "multipower": (
        MultiPowerLaw(MultiPower(mode="exact", warmup="full")),
        {"L0": 3.0, "A": 0.05, "alpha": 0.5, "B": 300.0, "C": 2.0, "beta": 0.6, "gamma": 0.6},
        None,
    ),
    "functional": (
        FunctionalLaw(Functional(mode="exact")),
        {"L0": 3.0, "c1": 0.05, "s": 0.5, "c2": 200.0, "c3": 0.5, "c4": 500.0, "gamma": 0.6},
        None,
    ),
    "cpt": (CPTLaw(MOMENTUM), BASE | {"decay": DECAY}, lambda p, t: ref.cpt(p, t)),
    "cpt_size": (
        CPTLaw(MOMENTUM, size=True),
        BASE | SIZED | {"decay": DECAY},
        lambda p, t: ref.cpt(p, t, size=SIZE),
    ),
    "cpt_exponential": (
        CPTLaw(MOMENTUM, ExponentialReplay()),
        BASE | {"decay": DECAY, "a2": -5.7, "a1": 0.05},
        lambda p, t: ref.cpt(
            p,
            t,
            factor=ref.exponential_factor(p["a2"], RATIO if t > PT else 0),
            anneal=np.exp(p["a1"] * RATIO),
        ),
    ),
    "cpt_share_pt": (
        CPTLaw(MOMENTUM, ShareReplay("pt")),
        BASE | {"decay": DECAY, "replay_gamma": 0.4, "replay_epsilon": 0.03},
        lambda p, t: ref.cpt(p, t, factor=ref.share_factor_pt(0.4, 0.03, RATIO)),
    ),
    "cpt_share_cpt": (
        CPTLaw(MOMENTUM, ShareReplay("cpt")),
        BASE | {"decay": DECAY, "replay_k": 0.147},
        lambda p, t: ref.cpt(p, t, factor=(1 - RATIO) ** 0.147),
    ),
    "cpt_open_weights": (
        CPTLaw.open_weights(MOMENTUM),
        {n: v for n, v in BASE.items() if n != "C1"} | {"S1_pt": 0.02, "decay": DECAY},
        None,
    ),
    "crossing": (CrossingLaw(MOMENTUM), CROSSING | {"decay": DECAY}, ref.crossing),
    "crossing_share_cpt": (
        CrossingLaw(MOMENTUM, ShareReplay("cpt")),
        CROSSING | {"decay": DECAY, "replay_k": 0.4, "replay_rate": 1.2},
        lambda p, t: ref.crossing(p, t, (1 - RATIO) ** 0.4),
    ),
    "crossing_exponential": (
        CrossingLaw(MOMENTUM, ExponentialReplay()),
        CROSSING | {"decay": DECAY, "a2": 3.2, "replay_rate": -0.5},
        lambda p, t: ref.crossing(p, t, ref.exponential_factor(3.2, RATIO)),
    ),
    "cpt_lr_weighted": (
        CPTLaw(LRWeighted(DECAY, None)),
        BASE | {"kernel_epsilon": 0.15},
        lambda p, t: ref.cpt(p, t, lambda rates, t: ref.lr_weighted(rates, t, 0.15)),
    ),
    "cpt_power": (
        CPTLaw(Power(DECAY, None)),
        BASE | {"C1": 3.0, "C2": 4.0, "kernel_zeta": 0.8},
        lambda p, t: ref.cpt(p, t, lambda rates, t: ref.power(rates, t, 0.8)),
    ),
    "cpt_multipower": (
        CPTLaw(MultiPower(mode="exact")),
        BASE | MP,
        lambda p, t: ref.cpt(p, t, lambda rates, t: ref.multipower(rates, t, 2.0, 0.6, 0.6)),
    ),
    "cpt_functional": (
        CPTLaw(Functional(mode="exact")),
        BASE | FS,
        lambda p, t: ref.cpt(p, t, functional_area),
    ),
}


def phases_of(name):
    if name == "cpt_open_weights":
        return ref.run()[1:]
    return ref.run() if name.startswith(("cpt", "crossing")) else ref.pretraining()


def steps_of(name):
    return np.array([1, 3, 4, 5, 24]) if name == "cpt_open_weights" else STEPS


def open_weights_loss(p, t):
    fall = [2e-4 + (1e-5 - 2e-4) * (u - 4) / 20 for u in range(5, 25)]
    rates = [0.0, *[2e-4 * u / 4 for u in range(1, 5)], *fall]
    shift = p["B"] * (1 - (1 + p["E"] * ref.forward(rates, t)) ** -p["beta"])
    power = p["A"] * (p["S1_pt"] + ref.forward(rates, t)) ** -p["alpha"]
    return p["L0"] + power - p["C2"] * ref.momentum(rates, t) + shift


@pytest.mark.parametrize("name", LAWS)
def test_prediction_equals_scalar_code(name):
    law, params, scalar = LAWS[name]
    assert {p.name for p in law.parameters} == set(params)
    got = law.predict(params, phases_of(name), steps_of(name), SIZE)
    if name == "cpt_open_weights":
        scalar = open_weights_loss
    elif scalar is None:
        scalar = lambda p, t: pretraining_loss(name, p, t)  # noqa: E731
    np.testing.assert_allclose(got, [scalar(params, int(t)) for t in steps_of(name)], rtol=1e-11)


# Their terms are all in other laws of the list, and their kernels' gradients are tested with the kernels.
IN_OTHERS = ("annealing", "cpt", "cpt_lr_weighted", "cpt_power", "cpt_multipower", "cpt_functional")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in IN_OTHERS else ()) for n in LAWS])
def test_gradient_of_parameters_schedules_and_ratio(name):
    law, params, _ = LAWS[name]
    steps = steps_of(name)
    weights = np.random.default_rng(0).uniform(0.5, 2, steps.size)
    tree = ({n: jnp.asarray(v, dtype=float) for n, v in params.items()}, phases_of(name))

    @jax.jit
    @jax.value_and_grad
    def value(tree):
        return jnp.sum(weights * law.predict(tree[0], tree[1], steps, SIZE))

    got, expected = value(tree)[1], finite_difference(lambda tree: value(tree)[0], tree, step=1e-3)
    for g, fd, x in zip(*map(jax.tree.leaves, (got, expected, tree)), strict=True):
        # Relative 1e-6; the floor is what rounding of the value (about 20 nats) leaves of a difference.
        np.testing.assert_allclose(g, fd, rtol=1e-6, atol=3e-11 / max(abs(float(x)), 1e-6))


@pytest.mark.parametrize(
    ("replay", "extra"),
    [
        (None, {}),
        (ExponentialReplay(), {"a2": 0.0, "a1": 0.0}),
        (ShareReplay("pt"), {"replay_gamma": 0.0, "replay_epsilon": 0.03}),
        (ShareReplay("cpt"), {"replay_k": 0.147}),
    ],
)
def test_gradients_are_finite_at_the_limits(replay, extra):
    steps, rate = np.array([0, 1, PT, PT + 1, 54]), {"replay_rate": 1.2}
    for law, changes in (
        (CPTLaw(Momentum(0.9), replay), ({}, {"B": 0.0}, {"C2": 0.0}, {"A": 0.0})),
        (CrossingLaw(Momentum(0.9), replay), ({}, {"E": 0.0}, {"A_new": 0.0, "lr_power": 0.3})),
    ):
        value = jax.jit(jax.value_and_grad(lambda tree, law=law: jnp.sum(law.predict(*tree, steps))))
        _check_finite(value, [BASE | CROSSING | rate | extra | change for change in changes])


def _check_finite(value, changed):
    for params in changed:
        params = {n: jnp.asarray(v, dtype=float) for n, v in params.items()}
        for ratio in (0.0, 0.5, 1.0):
            loss, gradient = value((params, ref.run(ratio)))
            assert np.isfinite(loss)
            assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(gradient))


def test_crossing_between_parallel_curves_is_the_cpt_law():
    parallel = BASE | {"C1": 30.0, "C2": 30.0, "L0": 3.0, "decay": DECAY}
    ends = {"C": 30.0, "L_new": 3.0 + BASE["B"], "A_new": BASE["A"], "C_new": 30.0, "lr_power": 1.0}
    got = CrossingLaw(MOMENTUM).predict(parallel | ends, ref.run(), STEPS)
    expected = CPTLaw(MOMENTUM, carry_momentum=True).predict(parallel, ref.run(), STEPS)
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_crossing_needs_the_history_of_the_base_model():
    law = CrossingLaw()
    run = Run("bare", ref.run()[1:], np.array([3]), {"loss": np.array([3.0])})
    with pytest.raises(InputError, match="no pt phase"):
        law.check(run)


def test_hidden_curve_of_staying():
    law, params, _ = LAWS["cpt"]
    stay = params | {"B": 0.0}
    got = law.predict(params, ref.run(), STEPS) - law.predict(stay, ref.run(), STEPS)
    np.testing.assert_array_equal(got[STEPS <= PT], 0)
    assert np.all(np.diff(got[STEPS >= PT]) < 0)


@pytest.mark.parametrize("name", ["multipower", "cpt_share_pt"])
def test_vmap_over_parameters(name):
    law, params, _ = LAWS[name]
    batch = {n: jnp.array([v, 1.01 * v]) for n, v in params.items()}
    got = jax.vmap(lambda p: law.predict(p, phases_of(name), STEPS))(batch)
    for i in range(2):
        one = law.predict({n: v[i] for n, v in batch.items()}, phases_of(name), STEPS)
        np.testing.assert_allclose(got[i], one, rtol=1e-13)


def test_several_phases_of_a_kind_are_one_part():
    law, params, _ = LAWS["cpt"]
    halves = (Phase(Linear(3e-4, 2e-4, steps=15)), Phase(Linear(2e-4, 1e-4, steps=15)))
    whole = Table(np.asarray(Joined([half.schedule for half in halves]).values()))
    cpt = ref.run()[1]
    one = (Phase(Joined([Constant(3e-4, steps=1), whole])), cpt)
    several = (Phase(Constant(3e-4, steps=1)), *halves, cpt)
    np.testing.assert_allclose(law.predict(params, several, STEPS), law.predict(params, one, STEPS), rtol=1e-13)


def test_initial_warmup_leaves_the_laws_of_flat_kernels_alone():
    law, params, _ = LAWS["annealing"]
    warm, cold = (Phase(Constant(3e-4, steps=54, warmup=w)) for w in (9, 0))
    np.testing.assert_allclose(law.predict(params, (warm,), STEPS), law.predict(params, (cold,), STEPS), rtol=1e-14)
