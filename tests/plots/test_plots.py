"""What the pictures show is what the fit says; how they look is checked by eye."""

import dataclasses

import numpy as np
import pytest

import cptjax as cj
from cptjax.plots import PANELS, plot_fit, save

PEAK, TRANSFER, TOTAL = 1e-3, 2000, 5000
PARAMS = {"L0": 2.5, "A": 0.4, "alpha": 0.5, "C1": 0.2, "C2": 0.2, "B": 0.4, "E": 20.0, "beta": 0.3}
SHARE = {"replay_gamma": 0.2, "replay_epsilon": 0.03}


def continual(name, ratio=0.0, split="fit", observed=True):
    phases = (
        cj.Phase(cj.Constant(PEAK, steps=TRANSFER)),
        cj.Phase(cj.Linear(PEAK, 0, steps=TOTAL - TRANSFER), "cpt", ratio),
    )
    steps = np.arange(50, TOTAL + 1, 50) if observed else np.empty(0, dtype=int)
    run = cj.Run(name, phases, steps, {})
    return cj.Run(name, phases, steps, {"loss": fitted().predict(run, steps) + 0.01} if observed else {}, split)


def fitted():
    law = cj.CPTLaw(replay=cj.ShareReplay("pt"))
    return cj.FitResult(law, "loss", PARAMS | SHARE, {}, 0.0, True)


def panels(figure):
    """Upper and lower axes of each panel."""
    return list(zip(figure.axes[::2], figure.axes[1::2], strict=True))


def line(axes, label):
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return found.get_xdata(), np.asarray(found.get_ydata(), dtype=float)


def test_data_law_and_residuals():
    run = continual("a", 0.25)
    top, bottom = panels(plot_fit(fitted(), [run]))[0]
    steps, law = line(top, "law")
    np.testing.assert_allclose(law, fitted().predict(run, steps), rtol=1e-12)
    shown = top.collections[0].get_offsets()
    np.testing.assert_allclose(shown[:, 1], [run.losses["loss"][run.steps == s][0] for s in shown[:, 0]])
    np.testing.assert_allclose(bottom.collections[0].get_offsets()[:, 1], 10, rtol=1e-9)
    assert "10.0 mnats" in top.get_title()
    assert "nats" in top.get_ylabel()
    assert "mnats" in bottom.get_ylabel()
    assert bottom.get_xlabel() == "step"


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_transfer_and_hidden_curves(ratio):
    run = continual("a", ratio)
    top, _ = panels(plot_fit(fitted(), [run]))[0]
    assert set(line(top, "transfer to new data")[0]) == {TRANSFER}
    steps, stay = line(top, "stayed on old data (hidden)")
    _, scratch = line(top, "from scratch on new data (hidden)")
    after = steps > TRANSFER
    assert np.all(np.isnan(stay[~after]))
    without = fitted().law.predict(PARAMS | SHARE | {"B": 0.0}, run.phases, steps[after])
    np.testing.assert_allclose(stay[after], without, rtol=1e-12)
    endless = fitted().law.predict(PARAMS | SHARE | {"E": 1e300, "beta": 1.0}, run.phases, steps[after])
    np.testing.assert_allclose(scratch[after], endless, rtol=1e-9)
    hidden = fitted().law.hidden_curves(PARAMS | SHARE, run.phases, steps[after])
    np.testing.assert_allclose(stay[after], hidden[0], rtol=1e-12)
    np.testing.assert_allclose(scratch[after], hidden[1], rtol=1e-12)


def test_pretraining_has_neither():
    schedule = cj.Cosine(PEAK, 0, steps=1000)
    law = cj.FitResult(cj.AnnealingLaw(), "loss", {"L0": 2.5, "A": 0.4, "alpha": 0.5, "C": 0.2}, {}, 0.0, True)
    run = cj.Run("p", (cj.Phase(schedule),), np.array([500, 1000]), {"loss": np.array([3.0, 2.9])})
    figure = plot_fit(law, [run])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["observed", "law"]


def test_runs_without_observations_are_predictions():
    top, bottom = panels(plot_fit(fitted(), [continual("plan", observed=False)]))[0]
    assert "predicted" in top.get_title()
    assert not np.any(np.isnan(line(top, "law")[1]))
    assert bottom.collections[0].get_offsets().shape[0] == 0


def test_open_weights_show_the_continual_phase_alone():
    law = cj.CPTLaw.open_weights()
    params = {name: value for name, value in PARAMS.items() if name != "C1"} | {"S1_pt": 3.0}
    result = cj.FitResult(law, "loss", params, {}, 0.0, True)
    for run in (continual("seen"), continual("plan", observed=False)):
        top, _ = panels(plot_fit(result, [run]))[0]
        steps, values = line(top, "law")
        assert steps[0] >= TRANSFER
        assert np.all(np.isfinite(values))


def test_many_runs_show_the_worst():
    runs = [continual(f"r{i}", split="test") for i in range(PANELS + 2)]
    for i, run in enumerate(runs):
        run.losses["loss"][:] += 1e-3 * i
    figure = plot_fit(fitted(), runs)
    titles = [top.get_title() for top, _ in panels(figure)]
    assert [title.split()[0] for title in titles] == [f"r{i}" for i in range(2, PANELS + 2)]
    assert f"{PANELS} largest errors of {PANELS + 2}" in figure.get_suptitle()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_save(suffix, tmp_path):
    save(plot_fit(fitted(), [continual("a")]), tmp_path / f"x.{suffix}")
    assert (tmp_path / f"x.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("count", [1, 2, 3])
def test_title_and_legend_fit_on_the_page(count):
    figures = {"r2": 0.99961, "mae": 3.7e-3, "rmse": 1e-3, "mean_rel": 1e-3, "worst_rel": 1e-3, "n": 9}
    result = dataclasses.replace(fitted(), metrics={"fit": figures, "test": figures})
    figure = plot_fit(result, [continual(f"r{i}") for i in range(count)])
    figure.canvas.draw()
    for artist in (figure._suptitle, figure.legends[0]):
        box = artist.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width


def test_one_point_runs():
    run = continual("a")
    single = cj.Run("a", run.phases, run.steps[-1:], {"loss": run.losses["loss"][-1:]})
    top, _ = panels(plot_fit(fitted(), [single]))[0]
    assert "10.0 mnats" in top.get_title()
