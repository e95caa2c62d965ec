"""The published fits on the public curves of Luo et al. (2025): laws.md, section 4."""

import os
from pathlib import Path

import pytest

import cptjax as cj

SHARED = Path(os.environ.get("CPTJAX_SHARED", Path(__file__).parents[2].parent / "shared"))
DATA = SHARED / "data" / "multipower"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"no public curves at {DATA} (set CPTJAX_SHARED)")


def fit(size, laws):
    runs = cj.read_manifest(DATA / size / "runs.toml")
    return cj.fit(laws, runs.fit, report=runs.test)


@pytest.mark.parametrize(("size", "published"), [("25", 2.79e-4), pytest.param("100", 2.81e-4, marks=pytest.mark.slow)])
def test_multipower_objective_is_below_the_public_codes(size, published):
    result = fit(size, cj.MultiPowerLaw())
    assert result.converged
    assert result.objective <= published


@pytest.mark.parametrize(("size", "r2"), [("25", 0.9979), pytest.param("100", 0.9985, marks=pytest.mark.slow)])
def test_annealing_with_fitted_decay_predicts_the_held_out_curves(size, r2):
    laws = [cj.AnnealingLaw(cj.Momentum(None, warmup=warmup)) for warmup in ("flat", "full")]
    result = fit(size, laws)
    assert result.converged
    assert result.metrics["test"]["r2"] >= r2
