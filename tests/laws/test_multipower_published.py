"""The published multi-power constants on the published curves: a test of the whole evaluator.

Two grids of the warm-up stand side by side. Here LR rises to ``peak`` at step 2160; in the public code step ``t`` has
``linspace(0, peak, 2160)[t]``, which reaches the peak one step earlier. With theirs every printed digit agrees.
"""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from cptjax import Phase, from_array, published, read_manifest
from cptjax.fitting.metrics import curve_metrics, mean_metrics

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("CPTJAX_SHARED", ROOT.parent / "shared"))
DATA = SHARED / "data" / "multipower"
METRICS = ("r2", "mae", "rmse", "mean_rel", "worst_rel")
PRINTED = {
    25: (".9988", ".00376", ".00465", ".00110", ".00409"),
    100: (".9983", ".00435", ".00592", ".00142", ".00583"),
}
OURS = {
    25: (0.998803, 0.003762, 0.00465, 0.001103, 0.004079),
    100: (0.998302, 0.004339, 0.005915, 0.001422, 0.005835),
}
PEAK, LOW, WARMUP = 3e-4, 3e-5, 2160

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no curves at {DATA}: set CPTJAX_SHARED")


def public_code_lr(name, n):
    """LR of steps 1 … n on the public code's grid, from the name of the curve."""
    t = np.arange(1, n + 1, dtype=float)
    kind, *numbers = name.split("_")
    if kind == "cosine":
        u = np.clip((t - WARMUP) / (int(numbers[0]) - WARMUP), 0, 1)
        lr = LOW + 0.5 * (PEAK - LOW) * (1 + np.cos(np.pi * u))
    elif kind == "wsdcon":
        lr = np.where(t >= 8000, int(numbers[0]) * 1e-5, PEAK)
    elif kind == "constant":
        lr = np.full(n, PEAK)
    else:
        start, end = map(int, numbers)
        u = np.clip((t - start) / (end - start), 0, 1)
        lr = PEAK * (LOW / PEAK) ** u if kind == "wsd" else PEAK + (LOW - PEAK) * u
    return np.where(t < WARMUP, PEAK * np.minimum(t / (WARMUP - 1), 1), lr)


def mean_test_metrics(size, schedule_of):
    law, params = published(f"multipower/{size}M")
    figures = []
    for run in read_manifest(DATA / str(size) / "runs.toml"):
        if run.split == "test":
            (loss,) = run.losses.values()
            figures.append(curve_metrics(loss, np.asarray(law.predict(params, schedule_of(run), run.steps))))
    assert len(figures) == 6
    return mean_metrics(figures)


@pytest.mark.parametrize("size", PRINTED)
def test_manifest_schedules(size):
    got = mean_test_metrics(size, lambda run: run.phases)
    for name, printed, ours in zip(METRICS, PRINTED[size], OURS[size], strict=True):
        assert math.isclose(got[name], ours, abs_tol=1e-6), name
        half_a_digit = 0.5 * 10 ** -len(printed.removeprefix("."))
        assert abs(got[name] - float(printed)) <= half_a_digit + 1.2e-5, name


@pytest.mark.parametrize("size", PRINTED)
def test_every_printed_digit_on_the_public_grid(size):
    def schedule(run):
        return (Phase(from_array(public_code_lr(run.id, run.phases[0].schedule.steps), warmup=WARMUP)),)

    got = mean_test_metrics(size, schedule)
    printed = dict(zip(METRICS, PRINTED[size], strict=True))
    shown = {name: f"{got[name]:.{len(text) - 1}f}".lstrip("0") for name, text in printed.items()}
    assert shown == printed, got
