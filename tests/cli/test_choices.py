"""What is left open on the command line is decided by the runs, the way the README says."""

import numpy as np
import pytest

import cptjax as cj
from cptjax.choices import Choices, choose_laws, choose_loss
from cptjax.fitting.fits import fit
from cptjax.laws.registry import KERNELS, LAWS, REPLAYS

FLAT, WARM = cj.Constant(1e-3, steps=100), cj.Constant(1e-3, steps=100, warmup=10)


def run(schedule=FLAT, replay=None, size=None, name="a"):
    phases = [cj.Phase(schedule)] + ([] if replay is None else [cj.Phase(FLAT, "cpt", replay)])
    return cj.Run(name, tuple(phases), np.array([50]), {"loss": np.array([3.0])}, model_size=size)


def names(laws):
    return [(law.name, law.kernel.name, law.kernel.warmup) for law in laws]


def test_law_by_the_phases():
    assert names(choose_laws([run()], Choices())) == [("annealing", "momentum", "flat")]
    assert names(choose_laws([run(), run(replay=0.0)], Choices())) == [("cpt", "momentum", "flat")]
    assert choose_laws([run(replay=0.0)], Choices(open_weights=True))[0].unknown_history


def test_warmup_is_tried_both_ways_where_there_is_one():
    assert [law.kernel.warmup for law in choose_laws([run(WARM)], Choices())] == ["flat", "full"]
    assert [law.kernel.warmup for law in choose_laws([run(WARM)], Choices(warmup="full"))] == ["full"]
    assert names(choose_laws([run(WARM)], Choices("multipower"))) == [("multipower", "multipower", "full")]
    assert names(choose_laws([run(WARM)], Choices("multipower", warmup="flat"))) == [
        ("multipower", "multipower", "flat")
    ]


def test_replay_where_some_run_replays():
    (law,) = choose_laws([run(replay=0.0)], Choices())
    assert law.replay is None
    (law,) = choose_laws([run(replay=0.0), run(replay=0.2)], Choices())
    assert isinstance(law.replay, cj.ShareReplay)
    (law,) = choose_laws([run(replay=0.2)], Choices(replay="exponential"))
    assert isinstance(law.replay, cj.ExponentialReplay)
    (law,) = choose_laws([run(replay=0.2)], Choices(replay="none"))
    assert law.replay is None


def test_size_where_there_are_several():
    assert not choose_laws([run(size=1.0), run(size=1.0)], Choices())[0].size
    assert choose_laws([run(size=1.0), run(size=2.0)], Choices())[0].size
    assert not choose_laws([run(size=1.0), run()], Choices())[0].size
    assert not choose_laws([run(size=1.0), run(size=2.0)], Choices(size=False))[0].size


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("law", ["annealing", "cpt"])
def test_any_kernel(law, kernel):
    (found,) = choose_laws([run(replay=0.0 if law == "cpt" else None)], Choices(law, kernel))
    assert names([found]) == [(law, kernel, "flat")]


def test_decay():
    assert choose_laws([run()], Choices())[0].kernel.decay == 0.999
    assert choose_laws([run()], Choices(decay=0.98))[0].kernel.decay == 0.98
    assert "decay" in [p.name for p in choose_laws([run()], Choices(decay="fit"))[0].parameters]


def test_every_name_is_offered(call):
    said = " ".join(call("fit", "--help").out.split())
    for name in (*LAWS, *KERNELS, *REPLAYS, "flat", "full"):
        assert name in said


def test_loss():
    assert choose_loss([run()], None) == "loss"
    two = cj.Run("b", run().phases, np.array([50]), {"x": np.array([3.0]), "y": np.array([np.nan])})
    assert choose_loss([two], None) == "x"  # y is never observed
    assert choose_loss([run(), two], "x") == "x"
    for runs, loss in (([run(), two], None), ([two], "y")):
        with pytest.raises(cj.InputError, match="--loss"):
            choose_loss(runs, loss)


def test_the_lower_objective_decides_the_warmup():
    truth = {"L0": 2.5, "A": 0.4, "alpha": 0.5, "C": 0.4}
    for warmup in ("flat", "full"):
        law = cj.AnnealingLaw(cj.Momentum(0.99, warmup=warmup))
        phases = (cj.Phase(cj.Cosine(1e-3, 0.0, steps=1000, warmup=300)),)
        steps = np.arange(320, 1001, 20)
        seen = cj.Run("a", phases, steps, {"loss": np.asarray(law.predict(truth, phases, steps))})
        result = fit(choose_laws([seen], Choices(decay=0.99)), [seen])
        assert result.law.kernel.warmup == warmup
