"""The commands do what they say, and write what design.md promises other programs."""

import csv
import re
import subprocess
import sys

import numpy as np
import pytest

import cptjax as cj
from cptjax.outputs import written

METRICS = {"r2", "mae", "rmse", "mean_rel", "worst_rel", "n"}


def test_demo_leaves_the_shipped_curves_and_their_fits(demo, read):
    assert {p.name for p in demo.iterdir()} == {
        "curves.csv.gz",
        "runs.toml",
        *(f"fit_{side}.{kind}" for side in ("old", "new") for kind in ("json", "png")),
    }
    runs, shipped = cj.read_manifest(demo / "runs.toml"), cj.load_dataset("tiny-cpt/code")
    assert [run.id for run in runs] == [run.id for run in shipped]
    for side in ("old", "new"):
        fitted = read(demo / f"fit_{side}.json")
        assert fitted["converged"]
        assert fitted["metrics"]["test"]["mean_rel"] < 0.01


def test_demo_compares_its_decision_with_runs_really_trained(demo, tmp_path, call):
    said = call("demo", "--out", tmp_path)
    assert said.code == 0
    result, runs = cj.FitResult.load(demo / "fit_old.json"), cj.load_dataset("tiny-cpt/code")
    table = [line.split() for line in said.out.splitlines() if re.match(r"\s+0\.\d\d ", line)]
    assert [float(row[0]) for row in table] == [0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8]
    assert [len(row) > 3 for row in table] == [False, False, True, False, True, False, True]
    new = cj.FitResult.load(demo / "fit_new.json")
    run = runs["code_r50_linear"]
    half = [float(np.mean([run.losses[loss][-1] for loss in ("loss_pt", "loss_code")]))]
    half.insert(0, float(np.mean([fit.predict(run, [run.total_steps])[0] for fit in (result, new)])))
    assert [float(x) for x in table[4][1:3]] == pytest.approx(half, abs=6e-5)


def test_fit_json_is_the_contract(demo, tmp_path, call, read):
    said = call("fit", demo / "runs.toml", "--loss", "loss_code", "--out", tmp_path)
    assert said.code == 0
    content = read(tmp_path / "fit.json")
    assert {"law", "kernel", "loss", "params", "stderr", "objective", "converged", "warnings", "metrics"} <= set(
        content
    )
    assert (content["law"], content["kernel"], content["loss"]) == ("cpt", "momentum", "loss_code")
    assert set(content["params"]) == set(content["stderr"])
    assert set(content["metrics"]) == {"fit", "test", "runs"}
    assert set(content["metrics"]["fit"]) == set(content["metrics"]["test"]) == METRICS
    runs = cj.read_manifest(demo / "runs.toml")
    assert set(content["metrics"]["runs"]) == {run.id for run in runs}
    again = cj.FitResult.load(tmp_path / "fit.json")
    summed = 0.0
    for run in runs.fit:
        r = np.abs(np.log(run.losses["loss_code"]) - np.log(again.predict(run)))
        summed += np.sum(np.where(r <= 1e-3, r**2 / 2, 1e-3 * (r - 5e-4)))
    assert content["objective"] == pytest.approx(summed, rel=1e-9)
    assert "objective" in said.out
    assert str(tmp_path / "fit.png") in said.out
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")


def test_predict_gives_what_the_fit_predicts(demo, tmp_path, call):
    said = call("predict", demo / "fit_old.json", "--manifest", demo / "runs.toml", "--out", tmp_path, "--every", 500)
    assert said.code == 0
    result = cj.FitResult.load(demo / "fit_old.json")
    runs = cj.read_manifest(demo / "runs.toml")
    rows = list(csv.DictReader((tmp_path / "predictions.csv").open()))
    for run in runs:
        own = [row for row in rows if row["run"] == run.id]
        steps = np.array([int(row["step"]) for row in own])
        assert set(range(500, run.total_steps, 500)) | set(run.steps.tolist()) | {run.total_steps} == set(
            steps.tolist()
        )
        np.testing.assert_allclose([float(row["predicted"]) for row in own], result.predict(run, steps), rtol=1e-8)
        np.testing.assert_allclose([float(row["lr"]) for row in own], run.rates[steps - 1], rtol=1e-8)
        observed = {int(row["step"]): float(row["observed"]) for row in own if row["observed"]}
        assert observed == dict(zip(run.steps.tolist(), run.losses["loss_pt"].tolist(), strict=True))


@pytest.mark.parametrize("form", ["toml", "csv"])
def test_predict_a_plan(form, demo, tmp_path, call):
    plan = tmp_path / f"plan.{form}"
    rates = np.linspace(2e-4, 1e-4, 5000)
    if form == "toml":
        text = '{ kind = "linear", peak = 2e-4, end = 1e-4 }'
        plan.write_text(f'model_size = 106\n[[phase]]\nname = "pt"\nsteps = 5000\nschedule = {text}\n')
        schedule = cj.Linear(2e-4, 1e-4, steps=5000)
    else:
        plan.write_text("step,lr\n" + "".join(f"{i},{lr!r}\n" for i, lr in enumerate(rates.tolist(), 1)))
        schedule = cj.from_array(rates)
    said = call("predict", demo / "fit_old.json", "--schedule", plan, "--out", tmp_path / "out")
    assert said.code == 0
    assert "plan: loss_pt" in said.out
    last = list(csv.DictReader((tmp_path / "out" / "predictions.csv").open()))[-1]
    result = cj.FitResult.load(demo / "fit_old.json")
    assert int(last["step"]) == 5000
    assert last["split"] == last["observed"] == ""
    assert float(last["predicted"]) == pytest.approx(result.predict([cj.Phase(schedule)], [5000])[0], rel=1e-6)


def test_any_name_can_be_drawn_and_any_stride_given(demo, tmp_path, call):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'name = "a$_{$b\\\\frac"\n[[phase]]\nname = "pt"\nsteps = 50\nschedule = { kind = "constant", peak = 1e-4 }\n'
    )
    words = ("predict", demo / "fit_old.json", "--schedule", plan, "--out", tmp_path / "out", "--every", 10**20)
    assert call(*words).code == 0
    assert len((tmp_path / "out" / "predictions.csv").read_text().splitlines()) == 2


def test_plain_file_and_quiet(tmp_path, call, read):
    law, truth = cj.AnnealingLaw(), {"L0": 2.5, "A": 0.5, "alpha": 0.5, "C": 0.4}
    schedule = cj.Cosine(1e-3, 0.0, steps=4000)
    steps = np.arange(100, 4001, 100)
    losses = np.asarray(law.predict(truth, [cj.Phase(schedule)], steps))
    log = tmp_path / "log.csv"
    rates = np.asarray(schedule(steps))
    log.write_text(
        "step,lr,loss\n"
        + "".join(f"{s},{lr!r},{y!r}\n" for s, lr, y in zip(steps, rates.tolist(), losses.tolist(), strict=True))
    )
    said = call("fit", log, "--out", tmp_path / "a", "--quiet", "--warmup", "flat")
    assert (said.code, said.out, said.err) == (0, "", "")
    content = read(tmp_path / "a" / "fit.json")
    assert content["law"] == "annealing"
    assert content["metrics"]["test"] in (None, {})
    assert content["metrics"]["fit"]["mae"] < 1e-3
    assert call("fit", log, "--out", tmp_path / "a").code == 2
    assert call("fit", log, "--out", tmp_path / "a", "--force", "--quiet").code == 0


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")

    def fail():
        with written(path) as beside:
            beside.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_installed_command_answers():
    done = subprocess.run([sys.executable, "-m", "cptjax.cli", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("cptjax ")
    done = subprocess.run([sys.executable, "-m", "cptjax.cli", "fit", "no.toml"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "cptjax: no.toml: no such file: correct the path\n"
