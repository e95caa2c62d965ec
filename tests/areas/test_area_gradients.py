"""Gradients of areas with respect to every LR and every kernel parameter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from area_reference import END, FUNCTIONAL, MULTIPOWER, PEAK, areas_of
from differences import finite_difference

from cptjax.areas import Functional, LRWeighted, Momentum, MultiPower, Power
from cptjax.schedules import WSD, Constant, Cosine, Joined, Linear, Phase, Steps, Table

RNG = np.random.default_rng(0)
PT, CPT = 14, 12
AT = np.array([1, 5, PT, PT + 1, PT + 5, PT + CPT])
WEIGHTS = RNG.uniform(0.5, 2, (4, AT.size))
MOMENTUM = {"decay": 0.9, "kernel_epsilon": 0.15, "kernel_zeta": 0.8}
KERNELS = {
    "momentum": (Momentum(None), ["decay"]),
    "lr-weighted": (LRWeighted(None, None), ["decay", "kernel_epsilon"]),
    "power": (Power(None, None), ["decay", "kernel_zeta"]),
    "multipower": (MultiPower(mode="exact", warmup="full"), list(MULTIPOWER)),
    "functional": (Functional(mode="exact", warmup="full"), list(FUNCTIONAL)),
}
PARAMS = {"momentum": MOMENTUM, "lr-weighted": MOMENTUM, "power": MOMENTUM}
PARAMS |= {"multipower": MULTIPOWER, "functional": FUNCTIONAL}


def total(kernel, params, phases, at=AT):
    areas = areas_of(kernel, params, phases, at)
    parts = (areas.forward_pt, areas.forward_cpt, areas.annealing_pt, areas.annealing_cpt)
    return 1e3 * sum(jnp.sum(w[: at.size] * x) for w, x in zip(WEIGHTS, parts, strict=True))


@pytest.mark.parametrize("carry", [False, True])
def test_momentum_gradient_of_a_carried_run(carry):
    rates = jnp.asarray(RNG.uniform(1e-4, 4e-4, PT))

    @jax.jit
    def value(rates):
        phases = (Phase(Table(rates)), Phase(Table(rates[:CPT]), "cpt"))
        return 1e3 * jnp.sum(areas_of(Momentum(0.9), {}, phases, AT, carry_momentum=carry).annealing_cpt * WEIGHTS[0])

    np.testing.assert_allclose(jax.grad(value)(rates), finite_difference(value, rates), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_of_every_lr_and_parameter(name):
    kernel, names = KERNELS[name]
    tree = {
        "pt": np.linspace(4e-4, 1e-4, PT) * RNG.uniform(0.97, 1, PT),
        "cpt": RNG.uniform(1e-4, 4e-4, CPT),
        "params": {n: PARAMS[name][n] for n in names},
    }

    @jax.jit
    @jax.value_and_grad
    def value(tree):
        return total(kernel, tree["params"], (Phase(Table(tree["pt"])), Phase(Table(tree["cpt"]), "cpt")))

    got, expected = value(tree)[1], finite_difference(lambda tree: value(tree)[0], tree)
    for key in ("pt", "cpt"):
        scale = np.abs(expected[key]).max()
        np.testing.assert_allclose(got[key], expected[key], rtol=1e-6, atol=1e-9 * scale)
    for n in names:
        np.testing.assert_allclose(got["params"][n], expected["params"][n], rtol=1e-6)


PHASES = (
    Phase(WSD(PEAK, END, steps=PT, warmup=3, decay_start=8, decay="exponential")),
    Phase(Joined([Cosine(PEAK, END, steps=6, warmup=2), Steps((3,), [2e-4, END], steps=6)]), "cpt", 0.3),
)


# The chain from leaves to LRs is the same for all momentum kernels.
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in ("lr-weighted", "power") else ()) for n in KERNELS]
)
def test_gradient_of_schedule_leaves(name):
    kernel, _ = KERNELS[name]
    if name in ("multipower", "functional"):
        kernel = type(kernel)(warmup="full")  # the fast mode follows leaves, too

    value = jax.jit(jax.value_and_grad(lambda phases: total(kernel, PARAMS[name], phases)))
    got, expected = value(PHASES)[1], finite_difference(lambda phases: value(phases)[0], PHASES)
    for g, fd in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(g, fd, rtol=1e-6, atol=1e-3)


ZERO = [0.0] * PT
EDGES = {
    "zero": (ZERO, ZERO),
    "to_zero_and_back": (np.linspace(PEAK, 0, PT), [*np.linspace(0, PEAK, 4), *np.linspace(PEAK, 0, CPT - 4)]),
    "stays_at_zero": ([PEAK] * 5 + ZERO[5:], ZERO),
    "no_drop": ([PEAK] * PT, [PEAK] * CPT),
}
ONE_STEP = (Phase(Constant(PEAK, steps=1)), Phase(Linear(PEAK, 0.0, steps=1), "cpt"))
EVERYWHERE = [
    *[kernel for kernel, _ in KERNELS.values()],
    MultiPower(),
    Functional(),
    pytest.param(MultiPower(warmup="full"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("kernel", EVERYWHERE, ids=lambda k: f"{k.name}-{getattr(k, 'mode', 'exact')}-{k.warmup}")
def test_gradients_are_finite_at_the_edges(kernel):
    params = {**MOMENTUM, **MULTIPOWER, **FUNCTIONAL}
    at = np.array([0, 1, 2, PT, PT + 1, PT + CPT])
    gradient = jax.jit(jax.grad(lambda tree: total(kernel, tree[0], tree[1], at)))
    for name, (pt, cpt) in EDGES.items():
        phases = (Phase(Table(pt, breaks=(5,))), Phase(Table(cpt[:CPT]), "cpt"))
        for leaf in jax.tree.leaves(gradient((params, phases))):
            assert np.all(np.isfinite(leaf)), name


@pytest.mark.parametrize("kernel", [Power(None, None), MultiPower(), Functional(mode="exact")], ids=lambda k: k.name)
def test_gradients_are_finite_in_phases_of_one_step(kernel):
    params = {**MOMENTUM, **MULTIPOWER, **FUNCTIONAL}
    gradient = jax.jit(jax.grad(lambda tree: total(kernel, tree[0], tree[1], np.array([0, 1, 2]))))
    for leaf in jax.tree.leaves(gradient((params, ONE_STEP))):
        assert np.all(np.isfinite(leaf))


def test_areas_vmap_over_schedules():
    base = Cosine(PEAK, END, steps=PT, warmup=3)
    batch = jax.tree.map(lambda x: x * jnp.array([0.5, 1.0]), base)

    def area(schedule):
        return areas_of(MultiPower(), MULTIPOWER, (Phase(schedule),), AT[:3]).annealing_pt

    got = jax.jit(jax.vmap(area))(batch)
    np.testing.assert_allclose(got[1], area(base), rtol=1e-12)
