"""The curves that ship with the package: complete, split by kind, and the same under every name."""

import re
import tomllib

import numpy as np
import pytest

import cptjax as cj
from cptjax.datasets import FOLDER, dataset_manifest

PARTS = ("code", "foldoc", "scratch", "sizes", "variants")
OUT_OF_DOMAIN = [f"loss_ood_{name}" for name in ("bible", "man", "perl", "c", "fortune")]
# what laws.md and the issue want held out: whole schedules, ratios, potentials and the longest runs
HELD_OUT = re.compile(r"cosine|wsd|_r(20|50|80)_|p03|_long_|pt_continued")


@pytest.fixture(scope="module")
def runs():
    return cj.load_dataset("tiny-cpt")


def test_names_are_the_whole_and_its_parts():
    assert cj.dataset_names() == ["tiny-cpt", *(f"tiny-cpt/{part}" for part in PARTS)]
    with pytest.raises(cj.InputError, match=r"'tiny'.*tiny-cpt/code"):
        cj.load_dataset("tiny")


def test_every_run_has_three_training_sets_and_five_never_trained(runs):
    assert len(runs) == 96
    for run in runs:
        assert set(run.losses) == {"loss_pt", "loss_code", "loss_foldoc", *OUT_OF_DOMAIN}
        assert all(np.all(np.isfinite(loss)) for loss in run.losses.values())
        assert run.steps[-1] == run.total_steps
        if run.transfer_step is not None:
            assert run.transfer_step in run.steps
            assert run.total_steps - run.transfer_step >= 1500


def test_the_split_is_by_kind(runs):
    assert {run.id for run in runs.test} == {run.id for run in runs if HELD_OUT.search(run.id)}
    for run in runs.fit:
        if run.transfer_step is not None:
            assert run.total_steps - run.transfer_step == 1500
            assert not isinstance(run.phases[-1].schedule, cj.Cosine | cj.WSD)
            assert float(run.phases[-1].replay_ratio) in (0, 0.1, 0.33, 0.67)


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_runs_of_the_whole(part, runs):
    for run in cj.load_dataset(f"tiny-cpt/{part}"):
        whole = runs[run.id]
        assert (run.split, run.model_size, run.total_steps) == (whole.split, whole.model_size, whole.total_steps)
        np.testing.assert_array_equal(run.rates, whole.rates)
        np.testing.assert_array_equal(run.losses["loss_pt"], whole.losses["loss_pt"])


@pytest.mark.parametrize("domain", ["code", "foldoc"])
def test_one_law_can_describe_a_domain(domain):
    runs = cj.load_dataset(f"tiny-cpt/{domain}")
    assert len({run.model_size for run in runs}) == 1
    peaks = {round(float(np.max(run.rates[run.transfer_step :])), 6) for run in runs if run.transfer_step}
    assert len(peaks) >= (5 if domain == "code" else 3)
    assert len({run.transfer_step for run in runs} - {None}) >= 4
    assert any(run.transfer_step is None for run in runs.fit)


def test_the_rates_are_those_of_the_logged_table(runs):
    """The manifest's schedules say what the trainer did."""
    import pyarrow.csv

    table = pyarrow.csv.read_csv(FOLDER / "tiny_cpt" / "curves.csv.gz").to_pydict()
    names, steps, rates = (np.array(table[name]) for name in ("run", "step", "lr"))
    for run in runs:
        own = (names == run.id) & (steps > 0)
        np.testing.assert_allclose(rates[own], run.rates[steps[own] - 1], rtol=1e-6, atol=1e-9)


def test_manifests_lie_beside_their_table():
    for name in cj.dataset_names():
        path = dataset_manifest(name)
        content = tomllib.loads(path.read_text())
        assert {run["file"] for run in content["run"]} == {"curves.csv.gz"}
    assert (FOLDER / "tiny_cpt" / "DATA_CARD.md").read_text().startswith("# tiny-cpt")


def test_a_law_fitted_on_them_predicts_the_held_out_runs():
    runs = cj.load_dataset("tiny-cpt/foldoc")
    result = cj.fit(cj.CrossingLaw(cj.Momentum(0.97), replay=True), runs.fit, "loss_pt", report=runs.test)
    assert result.converged
    assert result.metrics["test"]["mean_rel"] < 0.006
