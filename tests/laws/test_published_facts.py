"""What the published constants of Wang et al. (2025) must reproduce, through the public interface."""

import jax
import numpy as np
import pytest

from cptjax import WSD, Constant, Cosine, CPTLaw, ExponentialReplay, Linear, Phase, published
from cptjax.laws.published import published_names

PEAK = 2e-4
NEW, OLD = "knowledge-pile/106M", "fineweb/knowledge-pile/106M"
TABLE = """
fineweb/knowledge-pile/106M            3.057 .490 .497 .366 28 .189 .299 .298
knowledge-pile/106M                    3.024 .412 .677 -.666 5662 .146 .278 .324
fineweb/pile-of-law/106M               3.064 .482 .511 1.353 37 .262 .294 .264
pile-of-law/106M                       2.978 .485 .701 -1.409 383 .368 .274 .298
fineweb/knowledge-pile/106M/replay-33% 3.067 .481 .515 .077 6 .608 .298 .284
fineweb/knowledge-pile/106M/replay-50% 3.068 .480 .518 .046 3 .915 .294 .269
fineweb/knowledge-pile/106M/replay-67% 3.069 .479 .519 .105 11 .069 .295 .280
knowledge-pile/106M/replay-33%         3.020 .441 .696 -.632 5046 .145 .273 .275
knowledge-pile/106M/replay-50%         3.017 .442 .686 -.599 6484 .144 .277 .277
knowledge-pile/106M/replay-67%         3.017 .442 .685 -.532 5693 .166 .274 .276
fineweb/knowledge-pile/594M            2.688 .526 .483 29.121 100 .001 .437 .395
knowledge-pile/594M                    2.657 .443 .566 -.518 100 .424 .360 .358
fineweb/knowledge-pile/1720M           2.496 .569 .474 8.710 100 .004 .485 .438
knowledge-pile/1720M                   2.557 .407 .682 -.527 100 .390 .440 .412
"""
NAMES = ("L0", "A", "alpha", "B", "E", "beta", "C1", "C2")
SIZED = {
    "fineweb/knowledge-pile/all-sizes": {
        "L0": 1.829,
        "A": 0.504,
        "alpha": 0.537,
        "B": 0.278,
        "E": 12,
        "beta": 0.359,
        "C1": 0.090,
        "gamma1": 0.235,
        "C2": 0.103,
        "gamma2": 0.199,
        "F": 3.072,
        "gamma3": 0.195,
    },
    "knowledge-pile/all-sizes": {
        "L0": 1.860,
        "A": 0.438,
        "alpha": 0.585,
        "B": -0.552,
        "E": 187,
        "beta": 0.326,
        "C1": 0.333,
        "gamma1": 0.012,
        "C2": 0.140,
        "gamma2": 0.145,
        "F": 2.718,
        "gamma3": 0.189,
    },
}
MULTIPOWER = {
    "multipower/25M": {
        "L0": 3.04045,
        "A": 0.52469,
        "alpha": 0.50787,
        "B": 363.788,
        "C": 2.0656,
        "beta": 0.58279,
        "gamma": 0.64142,
    },
    "multipower/100M": {
        "L0": 2.65145,
        "A": 0.60115,
        "alpha": 0.45296,
        "B": 437.946,
        "C": 2.13246,
        "beta": 0.59785,
        "gamma": 0.65524,
    },
}


def base(potential):
    return Phase(WSD(PEAK, potential * PEAK, steps=40_000, decay_start=32_000))


def final(name, potential, schedule):
    law, params = published(name)
    phases = (base(potential), Phase(schedule, "cpt"))
    return float(law.predict(params, phases, [40_000 + schedule.steps])[0])


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_printed_rows(row):
    name, *numbers = row.split()
    law, params = published(name)
    assert isinstance(law, CPTLaw)
    assert params == dict(zip(NAMES, map(float, numbers), strict=True))
    assert {p.name for p in law.parameters} == set(params)


@pytest.mark.parametrize("name", SIZED | MULTIPOWER)
def test_printed_fits_of_other_laws(name):
    law, params = published(name)
    assert params == (SIZED | MULTIPOWER)[name]
    assert {p.name for p in law.parameters} == set(params)


def test_all_published_names_are_checked_here():
    assert set(published_names()) == {r.split()[0] for r in TABLE.strip().splitlines()} | set(SIZED) | set(MULTIPOWER)
    with pytest.raises(KeyError, match="known: "):
        published("gpt-5")


@pytest.mark.parametrize(
    ("steps", "losses"), [(20_000, (2.652, 2.609, 2.588, 2.554)), (50_000, (2.619, 2.576, 2.553, 2.516))]
)
def test_fact_1_without_rewarmup(steps, losses):
    got = [final(NEW, p, Linear(p * PEAK, 0.0, steps=steps)) for p in (0.1, 0.3, 0.5, 1.0)]
    np.testing.assert_allclose(got, losses, rtol=0, atol=0.001 + 5e-4)


def test_fact_1_with_rewarmup():
    schedule = Linear(0.1 * PEAK, 0.0, steps=20_000, warmup=500, warmup_from=0.0)
    got = [final(NEW, p, schedule) for p in (0.0, 0.1, 0.5, 1.0)]
    np.testing.assert_allclose(got, (2.6545, 2.6521, 2.6427, 2.6312), rtol=0, atol=1e-4)
    np.testing.assert_allclose(got, (2.654, 2.651, 2.642, 2.630), rtol=0, atol=0.002)


@pytest.mark.parametrize(("name", "losses"), [(NEW, (2.646, 2.622, 2.598, 2.572)), (OLD, (3.304, 3.329, 3.350, 3.364))])
def test_fact_2_peak_lr(name, losses):
    peaks = (0.125, 0.25, 0.5, 1.0)
    got = [final(name, 0.0, Cosine(peak * PEAK, 0.0, steps=20_000, warmup=500)) for peak in peaks]
    np.testing.assert_allclose(got, losses, rtol=0, atol=0.002)


def test_the_optimal_replay_ratio_is_interior_and_wavy():
    ratios = np.linspace(0, 1, 501)
    schedule = Cosine(PEAK, 0.0, steps=20_000)
    change = []
    for name, a2 in ((OLD, 3.238), (NEW, -5.696)):
        _, params = published(name)
        law = CPTLaw(replay=ExponentialReplay(anneal=False))
        params = params | {"a2": a2}

        def last(ratio, law=law, params=params):
            return law.predict(params, (base(0.0), Phase(schedule, "cpt", ratio)), [60_000])[0]

        change.append(np.asarray(jax.jit(jax.vmap(last))(ratios)))
    old, new = change
    best = [ratios[np.argmin(w * old + (1 - w) * new)] for w in np.linspace(0, 1, 11)]
    measured = (0, 0.228, 0.319, 0.380, 0.429, 0.474, 0.520, 0.569, 0.630, 0.720, 1)
    np.testing.assert_allclose(best, measured, rtol=0, atol=0.002)
    np.testing.assert_allclose(best, (0, 0.23, 0.32, 0.38, 0.43, 0.48, 0.52, 0.57, 0.63, 0.72, 1), rtol=0, atol=0.01)


def test_shift_does_not_depend_on_the_transfer_step():
    law, params = published(NEW)
    stay = params | {"B": 0.0}
    shifts = []
    for steps in (10_000, 40_000):
        phases = (Phase(Constant(PEAK, steps=steps)), Phase(Constant(PEAK, steps=5000), "cpt"))
        at = steps + np.array([0, 10, 1000, 5000])
        shifts.append(law.predict(params, phases, at) - law.predict(stay, phases, at))
    np.testing.assert_allclose(shifts[0], shifts[1], atol=1e-13)
    assert shifts[0][0] == 0
