"""``predict`` under jit and vmap, over steps too, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cptjax as cj

PHASES = (cj.Phase(cj.Constant(3e-3, steps=30)), cj.Phase(cj.Cosine(3e-3, 0.0, steps=20), "cpt", 0.3))
STEPS = np.arange(1, 51)
LAWS = [
    cj.CPTLaw(cj.Momentum(0.9)),
    cj.CPTLaw(cj.LRWeighted(0.9), carry_momentum=True),
    cj.CPTLaw(cj.Power(0.9), cj.ShareReplay("pt")),
    cj.CPTLaw(cj.MultiPower()),
    cj.CPTLaw(cj.Functional()),
    cj.CPTLaw.open_weights(),
]


def values(law):
    return {p.name: 0.4 for p in law.parameters} | {"L0": 3.0}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kernel.name)
def test_steps_may_be_traced(law):
    params = values(law)
    steps = STEPS[30:] if law.unknown_history else STEPS
    expected = law.predict(params, PHASES, steps)
    traced = jax.jit(lambda s: law.predict(params, PHASES, s))(jnp.asarray(steps))
    np.testing.assert_allclose(traced, expected, rtol=1e-9)
    mapped = jax.jit(jax.vmap(lambda s: law.predict(params, PHASES, s[None])[0]))(jnp.asarray(steps))
    np.testing.assert_allclose(mapped, expected, rtol=1e-9)


@pytest.mark.parametrize("step", [-1, 51, 1000])
def test_steps_outside_the_run_are_refused(step):
    with pytest.raises(cj.InputError, match="0 to 50"):
        LAWS[0].predict(values(LAWS[0]), PHASES, [step])


@pytest.mark.parametrize("ratio", [-0.1, 1.5, np.nan])
def test_a_replay_ratio_is_a_share(ratio):
    with pytest.raises(ValueError, match="replay_ratio"):
        cj.Phase(cj.Constant(1.0, steps=5), "cpt", ratio)


def test_counts_of_steps_are_whole():
    assert cj.Constant(1.0, steps=np.int64(3)).steps == 3
    with pytest.raises(TypeError):
        cj.Constant(1.0, steps=3.0)
