"""A result says the same after a trip through JSON, and predicts what its law predicts."""

import json

import numpy as np
import pytest

import cptjax as cj
from cptjax.laws.registry import law_to_json

PEAK = 1e-3
PT, CPT = cj.Cosine(PEAK, 1e-4, steps=2000, warmup=100), cj.Linear(PEAK, 0, steps=1000)
PHASES = (cj.Phase(PT), cj.Phase(CPT, "cpt", 0.3))
FIGURES = {"r2": float("nan"), "mae": 0.1, "rmse": 0.2, "mean_rel": 0.03, "worst_rel": 0.04, "n": 3}
LAWS = [
    cj.AnnealingLaw(),
    cj.AnnealingLaw(cj.Momentum(None, warmup="full"), size=True),
    cj.AnnealingLaw(cj.LRWeighted(0.99, None)),
    cj.AnnealingLaw(cj.Power()),
    cj.MultiPowerLaw(),
    cj.MultiPowerLaw(cj.MultiPower(mode="exact")),
    cj.FunctionalLaw(),
    cj.CPTLaw(),
    cj.CPTLaw(cj.MultiPower(), cj.ExponentialReplay(anneal=False), carry_momentum=True),
    cj.CPTLaw(cj.Functional(), cj.ShareReplay("pt"), size=True),
    cj.CPTLaw(cj.Momentum(0.95), cj.ShareReplay("cpt")),
    cj.CPTLaw.open_weights(cj.Momentum(0.99), cj.ExponentialReplay()),
]


def values(law):
    return {p.name: -0.3 if p.support == "negative" else 0.4 for p in law.parameters} | {"L0": 3.0}


def result_of(law):
    params = values(law)
    errors = dict.fromkeys(params, 0.1) | {"L0": float("nan")}
    names = tuple(params)[1:]
    return cj.FitResult(
        law,
        "loss_x",
        params,
        errors,
        0.25,
        False,
        ("careful",),
        {"fit": FIGURES, "test": {}},
        (names[0],),
        np.eye(len(names)),
        names,
    )


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.name}-{law.kernel.name}")
def test_json_round_trip(law, tmp_path):
    result = result_of(law)
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(result.to_json(), allow_nan=False))
    again = cj.FitResult.load(path)
    assert law_to_json(again.law) == law_to_json(law)
    assert [p.name for p in again.law.parameters] == [p.name for p in law.parameters]
    assert again.params == result.params
    assert np.isnan(again.stderr["L0"])
    for name in ("loss", "objective", "converged", "warnings", "undetermined", "fitted"):
        assert getattr(again, name) == getattr(result, name)
    np.testing.assert_array_equal(again.covariance, result.covariance)
    assert again.metrics["fit"] == pytest.approx(FIGURES, nan_ok=True)
    assert again.summary() == result.summary()
    phases = PHASES if isinstance(law, cj.CPTLaw) else PHASES[:1]
    run = cj.Run("x", phases, np.array([2500 if len(phases) > 1 else 1500]), {}, model_size=50.0)
    np.testing.assert_array_equal(again.predict(run, [run.steps[0]]), result.predict(run, [run.steps[0]]))


def test_predict_is_the_law():
    law = cj.CPTLaw(replay=cj.ShareReplay("pt"))
    result = result_of(law)
    steps = np.array([1, 100, 2000, 2001, 3000])
    run = cj.Run("x", PHASES, steps, {"loss_x": np.ones(5)})
    expected = law.predict(result.params, PHASES, steps)
    np.testing.assert_allclose(result.predict(run), expected, rtol=1e-13)
    np.testing.assert_allclose(result.predict(PHASES, steps), expected, rtol=1e-13)
    assert result.predict(PHASES).shape == (3000,)
    both = result.predict_runs([run, cj.Run("y", PHASES[:1], steps[:2], {})], [steps, steps[:2]])
    np.testing.assert_allclose(both[0], expected, rtol=1e-12)
    np.testing.assert_allclose(both[1], expected[:2], rtol=1e-12)
    assert result.predict_runs([]) == []


def test_predict_is_nan_where_the_law_is_silent():
    assert np.isnan(result_of(cj.CPTLaw()).predict(PHASES, [0, 1])).tolist() == [True, False]
    silent = np.isnan(result_of(cj.CPTLaw.open_weights()).predict(PHASES, [0, 1999, 2000, 2500]))
    assert silent.tolist() == [True, True, False, False]


def test_evaluate_per_run_and_split():
    law = cj.CPTLaw()
    result = result_of(law)
    steps = np.arange(0, 3001, 500)
    runs = []
    for i, split in enumerate(("fit", "test", "test")):
        loss = np.nan_to_num(result.predict(PHASES, steps), nan=9.0) + 0.01 * (i + 1)
        loss[3] = np.nan
        runs.append(cj.Run(f"r{i}", PHASES, steps, {"loss_x": loss}, split))
    blind = cj.Run("blind", PHASES, steps, {"other": np.ones(7)}, "test")
    figures = result.evaluate([*runs, blind])
    assert set(figures["runs"]) == {"r0", "r1", "r2"}
    assert figures["runs"]["r2"]["mae"] == pytest.approx(0.03)
    assert figures["runs"]["r2"]["n"] == 5  # neither step 0 nor the unobserved one
    assert figures["fit"]["mae"] == pytest.approx(0.01)
    assert figures["test"]["mae"] == pytest.approx(0.025)
    assert figures["test"]["n"] == 10


def test_summary_tells_the_whole():
    text = result_of(cj.CPTLaw()).summary()
    for part in ("cpt law", "momentum kernel", "loss_x", "NOT CONVERGED", "± 0.1", "careful", "0.25"):
        assert part in text


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "no such file"),
        ("{", "not JSON"),
        ("3", "not a fit"),
        ("{}", "'law'"),
        ('{"law": "x", "kernel": "momentum"}', "unknown law 'x'"),
        ('{"law": "cpt", "kernel": "x"}', "unknown kernel 'x'"),
        ('{"law": "cpt", "kernel": "momentum", "options": 3}', "options|type"),
        ('{"law": "cpt", "kernel": "momentum", "options": {"replay": {"name": "x"}}}', "options"),
        ('{"law": "cpt", "kernel": "momentum", "loss": "a", "params": {"L0": 1}}', "'A'"),
        ('{"law": ["cpt"], "kernel": "momentum"}', "type"),
    ],
)
def test_files_that_are_no_fit(content, part, tmp_path):
    path = tmp_path / "fit.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(cj.InputError, match=part) as caught:
        cj.FitResult.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
