"""Planned runs: phases in TOML, or a table of rates, and nothing observed."""

import numpy as np
import pytest

import cptjax as cj

PHASE = '[[phase]]\nname = "{}"\nsteps = {}\nschedule = {{ kind = "linear", peak = 0.2, end = 0.1 }}\n'


def test_phases_as_in_a_manifest(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(
        'name = "mine"\nmodel_size = 25\n' + PHASE.format("pt", 10) + PHASE.format("cpt", 5) + "replay_ratio = 0.4\n"
    )
    run = cj.read_planned(path)
    assert (run.id, run.model_size, run.total_steps, run.transfer_step) == ("mine", 25, 15, 10)
    assert float(run.phases[1].replay_ratio) == 0.4
    assert run.steps.size == 0
    assert run.losses == {}
    expected = [*np.linspace(0.2, 0.1, 11)[1:], *np.linspace(0.2, 0.1, 6)[1:]]
    np.testing.assert_allclose(run.rates, expected, rtol=1e-12)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("kind", ["pt", "cpt"])
def test_a_table_of_rates(suffix, kind, tmp_path):
    path = tmp_path / f"plan.{suffix}"
    rows = [(0, 0.5), (2, 0.3), (4, 0.2)]
    csv = "step,lr\n" + "".join(f"{s},{lr}\n" for s, lr in rows)
    jsonl = "".join(f'{{"step": {s}, "lr": {lr}}}\n' for s, lr in rows)
    path.write_text(csv if suffix == "csv" else jsonl)
    run = cj.read_planned(path, kind)
    assert (run.id, run.phases[0].name, run.total_steps) == ("plan", kind, 4)
    np.testing.assert_allclose(run.rates, [0.4, 0.3, 0.25, 0.2])


def test_losses_in_the_table_do_not_matter(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,lr,loss\n1,0.3,\n3,0.1,2.0\n")
    run = cj.read_planned(path)
    assert run.total_steps == 3
    assert run.losses == {}
