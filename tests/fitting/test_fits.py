"""Fits find the truth, the optimum, and what the user asked for, without being given a start."""

import json
import logging

import jax
import numpy as np
import pytest
from fitting.fit_reference import huber_sum, largest_error, objective_of
from scipy import optimize
from synthetic import annealing_problem, cpt_problem

import cptjax as cj
from cptjax.fitting.problem import observe
from cptjax.laws.base import compiled_evaluate

NOISE = 1e-3
FAMILIES = {"annealing": annealing_problem, "cpt": cpt_problem}
# Seeds 1 and 2 stand for a fitted and a fixed decay, and for both replay factors.
SEEDS = [pytest.param(seed, marks=() if seed in (1, 2) else pytest.mark.slow) for seed in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_without_noise_predictions_are_exact(family, seed):
    problem = FAMILIES[family](seed)
    result = cj.fit(problem.law, problem.runs)
    assert result.converged
    assert largest_error(problem, result) <= 1e-6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_with_noise_the_truth_is_no_better(family, seed):
    problem = FAMILIES[family](seed, NOISE)
    result = cj.fit(problem.law, problem.runs)
    assert result.objective <= objective_of(problem, problem.truth)
    assert result.objective == pytest.approx(objective_of(problem, result.params), rel=1e-9)


@pytest.mark.parametrize(
    ("family", "seed"), [("annealing", 1), *(pytest.param("cpt", seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_scipy_from_many_starts_finds_nothing_lower(family, seed):
    problem = FAMILIES[family](seed, NOISE)
    result = cj.fit(problem.law, problem.runs)
    data = observe(problem.law, problem.runs, "loss")
    history, names = data.history(problem.law), list(problem.truth)
    if problem.law.kernel.decay is not None:
        history = history.tabulated(problem.law.kernel)  # the areas themselves, as the decay is given
    positive = np.array([problem.truth[name] > 0 for name in names])
    signs = np.where(positive, 1.0, -1.0)

    @jax.jit
    @jax.value_and_grad
    def objective(x):
        values = signs * jax.numpy.exp(x)
        params = {name: values[i] for i, name in enumerate(names)}
        params["decay"] = 1 - values[names.index("decay")]
        r = abs(np.log(data.loss) - jax.numpy.log(problem.law.evaluate(params, history)))
        return jax.numpy.sum(jax.numpy.where(r <= 1e-3, r**2 / 2, 1e-3 * (r - 5e-4)))

    box = {p.name: p.bounds for p in problem.law.parameters if not p.linear and not p.unit}
    box = {n: (1 - high, 1 - low) if n == "decay" else (max(low, 1e-300), high) for n, (low, high) in box.items()}
    limits = np.log([box.get(name, (1e-300, np.inf)) for name in names])  # SciPy searches where the law allows
    truth = np.array([1 - problem.truth[n] if n == "decay" else abs(problem.truth[n]) for n in names])
    rng = np.random.default_rng(0)
    lowest = np.inf
    for i in range(6):
        start = np.log(truth) + (rng.normal(0, 0.3, truth.size) if i else 0)
        found = optimize.minimize(
            lambda x: tuple(map(np.asarray, objective(x))),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=limits,
            options={"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-12},
        )
        lowest = min(lowest, found.fun if np.isfinite(found.fun) else np.inf)
    assert result.objective <= lowest * (1 + 1e-8)


PEAK = 1e-3
SCHEDULES = (
    cj.Cosine(PEAK, 0.0, steps=3000),
    cj.WSD(PEAK, 0.0, steps=3000, decay_start=2000),
    cj.Steps((1500,), [PEAK, 0.3 * PEAK], steps=3000),
)
TRUTH = {"L0": 2.5, "A": 0.4, "alpha": 0.5, "C": 0.3}


def curve(law, truth, name="r", schedule=SCHEDULES[0], noise=0.0, seed=0, **more):
    steps = np.linspace(100, schedule.steps, 60).astype(int)
    clean = np.asarray(law.predict(truth, [cj.Phase(schedule)], steps, more.get("model_size")))
    losses = clean * np.exp(noise * np.random.default_rng(seed).standard_normal(steps.size))
    return cj.Run(name, (cj.Phase(schedule),), steps, {"loss": losses}, **more)


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        (cj.LRWeighted(0.99, None), {"kernel_epsilon": 0.15, "C": 0.8}),
        (cj.Power(0.99, None), {"kernel_zeta": 0.8, "C": 0.8}),
    ],
    ids=["lr-weighted", "power"],
)
def test_other_kernels_are_recovered(kernel, values):
    law = cj.AnnealingLaw(kernel)
    runs = [curve(law, TRUTH | values, f"r{i}", schedule) for i, schedule in enumerate(SCHEDULES)]
    result = cj.fit(law, runs)
    for run in runs:
        np.testing.assert_allclose(result.predict(run), run.losses["loss"], atol=1e-6)


@pytest.fixture(scope="module")
def runs():
    return [curve(cj.AnnealingLaw(), TRUTH, f"r{i}", s, NOISE, i) for i, s in enumerate(SCHEDULES)]


@pytest.fixture(scope="module")
def free(runs):
    return cj.fit(cj.AnnealingLaw(), runs)


def test_fixed_parameters_stay(runs, free):
    result = cj.fit(cj.AnnealingLaw(), runs, fixed={"alpha": 0.7})
    assert result.params["alpha"] == 0.7
    assert "alpha" not in result.fitted
    assert np.isnan(result.stderr["alpha"])
    assert result.objective > free.objective
    at_the_best = cj.fit(cj.AnnealingLaw(), runs, fixed={"alpha": free.params["alpha"]})
    assert at_the_best.objective == pytest.approx(free.objective, rel=1e-9)


@pytest.mark.parametrize(("name", "low", "high"), [("alpha", 0.6, 0.9), ("C", 0.0, 0.2), ("L0", 2.6, 3.0)])
def test_bounds_hold_and_are_reported(runs, free, name, low, high):
    result = cj.fit(cj.AnnealingLaw(), runs, bounds={name: (low, high)})
    edge = low if free.params[name] < low else high
    assert result.params[name] == pytest.approx(edge)
    assert np.isnan(result.stderr[name])
    assert any(name in text and "bound" in text for text in result.warnings)
    assert free.objective < result.objective < 100 * free.objective
    assert all(np.isfinite(e) for n, e in result.stderr.items() if n != name)


def test_of_several_laws_the_best_is_kept(runs, free):
    laws = [cj.AnnealingLaw(cj.Momentum(0.9)), cj.AnnealingLaw(), cj.AnnealingLaw(cj.Momentum(0.99))]
    result = cj.fit(laws, runs)
    assert float(result.law.kernel.decay) == 0.999
    assert result.objective == pytest.approx(free.objective, rel=1e-9)


def test_an_open_replay_factor_is_decided_by_the_data():
    for side, seed in (
        ("pt", next(s for s in range(2, 40, 4) if cpt_problem(s).law.replay.of == "pt")),
        ("cpt", next(s for s in range(2, 40, 4) if cpt_problem(s).law.replay.of == "cpt")),
    ):
        problem = cpt_problem(seed, NOISE)
        result = cj.fit(cj.CPTLaw(problem.law.kernel, replay=True), problem.runs)
        assert result.law.replay.of == side


def test_reported_runs_are_not_fitted(runs, free):
    law = cj.AnnealingLaw()
    held = curve(law, TRUTH | {"L0": 3.5}, "held", split="test")
    result = cj.fit(law, runs, report=[held])
    assert result.params == pytest.approx(free.params, rel=1e-9)
    assert result.metrics["test"]["mae"] == pytest.approx(1.0, abs=0.05)
    assert set(result.metrics["runs"]) == {"r0", "r1", "r2", "held"}


def test_seed_and_order_change_nothing(runs, free):
    again = cj.fit(cj.AnnealingLaw(), runs[::-1], seed=7)
    assert again.objective == pytest.approx(free.objective, rel=1e-9)
    assert again.params == pytest.approx(free.params, rel=1e-4)


def test_jointly_with_shared_parameters():
    law = cj.AnnealingLaw(cj.Momentum(None))
    truths = {"a": TRUTH | {"decay": 0.995}, "b": TRUTH | {"decay": 0.995, "L0": 1.5, "C": 0.5}}
    runs = []
    for i, schedule in enumerate(SCHEDULES):
        each = {name: curve(law, truth, f"r{i}", schedule, NOISE, 7 * i + len(name)) for name, truth in truths.items()}
        runs.append(cj.Run(f"r{i}", each["a"].phases, each["a"].steps, {n: r.losses["loss"] for n, r in each.items()}))
    laws = dict.fromkeys(truths, law)
    apart = cj.fit_jointly(laws, runs)
    joint = cj.fit_jointly(laws, runs, shared=("decay", "alpha"))
    for name in truths:
        assert apart[name].objective == pytest.approx(cj.fit(law, runs, name).objective, rel=1e-9)
        assert joint[name].objective >= apart[name].objective * (1 - 1e-9)
        assert joint[name].loss == name
        own = sum(huber_sum(run.losses[name], joint[name].predict(run)) for run in runs)
        assert joint[name].objective == pytest.approx(own, rel=1e-9)
    for shared in ("decay", "alpha"):
        assert joint["a"].params[shared] == joint["b"].params[shared]
        assert apart["a"].params[shared] != apart["b"].params[shared]
        assert joint["a"].stderr[shared] == pytest.approx(joint["b"].stderr[shared])
        assert joint["a"].stderr[shared] < max(apart[n].stderr[shared] for n in truths)
    truth_sum = sum(huber_sum(r.losses[n], law.predict(truths[n], r.phases, r.steps)) for n in truths for r in runs)
    assert sum(result.objective for result in joint.values()) <= truth_sum


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"fixed": {"gamma": 1.0}}, "'gamma'"),
        ({"bounds": {"gamma": (0, 1)}}, "'gamma'"),
        ({"bounds": {"alpha": (0.5, 0.1)}}, "leave nothing"),
        ({"bounds": {"C": (-2.0, -1.0)}}, "leave nothing"),
        ({"fixed": TRUTH}, "nothing to fit"),
        ({"loss": "los"}, "'los'"),
        ({"fixed": {"alpha": np.nan}}, "'alpha'"),
        ({"fixed": {"alpha": -0.5}}, "'alpha'"),
        ({"fixed": {"alpha": np.inf}}, "'alpha'"),
        ({"bounds": {"alpha": (np.nan, 1.0)}}, "leave nothing"),
    ],
)
def test_what_cannot_be_fitted_is_said(runs, change, part):
    with pytest.raises(cj.InputError, match=part) as caught:
        cj.fit(cj.AnnealingLaw(), runs, **change)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_absurd_losses_are_refused(runs):
    law = cj.AnnealingLaw()
    for scale in (1e-300, 1e300):
        absurd = cj.Run("a", runs[0].phases, runs[0].steps, {"loss": runs[0].losses["loss"] * scale})
        try:
            result = cj.fit(law, [absurd])
        except cj.InputError as said:
            assert "ordinary units" in str(said)  # noqa: PT017
        else:
            json.dumps(result.to_json(), allow_nan=False)


def test_runs_the_law_cannot_describe(runs):
    continual = cj.Run("c", (*runs[0].phases, cj.Phase(SCHEDULES[0], "cpt")), runs[0].steps, runs[0].losses)
    for law in (cj.AnnealingLaw(), cj.MultiPowerLaw(), cj.FunctionalLaw()):
        with pytest.raises(cj.InputError, match="law 'cpt'"):
            cj.fit(law, [continual])
    with pytest.raises(cj.InputError, match="model_size"):
        cj.fit(cj.AnnealingLaw(size=True), runs)
    with pytest.raises(cj.InputError, match="no runs"):
        cj.fit(cj.AnnealingLaw(), [])


def test_ids_must_differ(runs):
    other = curve(cj.AnnealingLaw(), TRUTH, "r0")
    with pytest.raises(cj.InputError, match="'r0'"):
        cj.fit(cj.AnnealingLaw(), runs, report=[other])
    with pytest.raises(cj.InputError, match="'r0'"):
        cj.fit_jointly({"loss": cj.AnnealingLaw()}, runs, report=[other])


def test_rows_before_the_first_training_step_are_left_out():
    """A logged warm-up opens with LR 0: nothing is trained there, whatever the convention."""
    law = cj.AnnealingLaw(cj.Momentum(0.99, warmup="full"))
    rates = np.concatenate([np.zeros(3), np.linspace(0, PEAK, 100), np.linspace(PEAK, 0, 1000)])
    phases = (cj.Phase(cj.from_array(rates)),)
    steps = np.array([1, 2, 4, *range(50, 1104, 20)])
    late = steps > 4
    losses = np.full(steps.size, 11.0)
    losses[late] = np.asarray(law.predict(TRUTH, phases, steps[late]))
    result = cj.fit(law, [cj.Run("warm", phases, steps, {"loss": losses})])
    assert result.metrics["fit"]["n"] == late.sum()
    assert result.params["L0"] == pytest.approx(TRUTH["L0"], rel=1e-6)
    assert np.isnan(result.predict(phases, [0, 1, 4])).all()
    idle = (cj.Phase(cj.Constant(0.0, steps=5)),)
    assert np.isnan(result.predict(idle)).all()


def test_too_few_observations_do_not_pretend():
    law = cj.AnnealingLaw()
    steps = np.array([1000, 3000])
    run = cj.Run("two", (cj.Phase(SCHEDULES[0]),), steps, {"loss": np.array([3.0, 2.7])})
    result = cj.fit(law, [run])
    assert result.objective < 1e-9
    assert set(result.undetermined) & {"A", "alpha", "L0", "C"}
    assert any("2 observations for 4 parameters" in text for text in result.warnings)
    assert all(np.isnan(error) for error in result.stderr.values())


def test_open_weights_recover_the_law():
    law = cj.CPTLaw.open_weights(cj.Momentum(0.99))
    truth = {"L0": 2.5, "A": 0.5, "alpha": 0.6, "S1_pt": 4.0, "C2": 0.3, "B": 0.5, "E": 3.0, "beta": 0.4}
    runs = []
    for i, schedule in enumerate(
        (
            cj.Constant(PEAK, steps=3000, warmup=50),
            cj.Linear(PEAK, 0, steps=3000, warmup=50),
            cj.Cosine(PEAK / 3, 0, steps=3000),
        )
    ):
        phases = (cj.Phase(schedule, "cpt"),)
        steps = np.arange(0, 3001, 50)
        runs.append(cj.Run(f"r{i}", phases, steps, {"loss": np.asarray(law.predict(truth, phases, steps))}))
    result = cj.fit(law, runs)
    for run in runs:
        np.testing.assert_allclose(result.predict(run), run.losses["loss"], atol=1e-6)


def test_new_numbers_do_not_compile_again(runs, caplog):
    cj.fit(cj.AnnealingLaw(), runs)
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        cj.fit(cj.AnnealingLaw(cj.Momentum(0.99)), runs, bounds={"alpha": (0.2, 0.9)}, seed=3)
    compiled = [text for text in caplog.messages if "ompil" in text]
    assert not [text for text in compiled if any(name in text for name in ("derivatives", "affine", "evaluate"))]


def test_compiled_predictions_match_the_law(runs, free):
    history = free.law.record([runs[0].phases], np.zeros(runs[0].steps.shape, dtype=int), runs[0].steps)
    np.testing.assert_allclose(compiled_evaluate(free.law, free.params, history), free.predict(runs[0]), rtol=1e-13)
