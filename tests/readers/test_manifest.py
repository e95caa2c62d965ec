import csv
import os
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cptjax.readers.manifest as manifest_module
from cptjax.errors import InputError
from cptjax.readers import (
    phase_from_dict,
    phase_to_dict,
    read_manifest,
    read_runs,
    schedule_from_dict,
    schedule_to_dict,
)
from cptjax.schedules import WSD, Constant, Cosine, Joined, Knots, Linear, Phase, Steps, Table, from_array

SHARED = Path(os.environ.get("CPTJAX_SHARED", Path(__file__).parents[2] / ".." / "shared"))


def write(folder: Path, manifest: str, **tables: str) -> Path:
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content)
    (folder / "runs.toml").write_text(manifest)
    return folder / "runs.toml"


def one_phase(schedule: str, steps: int = 10) -> str:
    return f"""
        [[run]]
        id = "a"
        file = "a.csv"
        phase = [{{ name = "pt", steps = {steps}, schedule = {{ {schedule} }} }}]
        """


def table(lr: dict[int, float]) -> str:
    return "step,lr,loss\n" + "".join(f"{step},{rate!r},2.5\n" for step, rate in lr.items())


TWO = """
name = "two"
[[run]]
id = "base"
file = "curves.csv"
where = { run = "base" }
  [[run.phase]]
  name = "pt"
  steps = 4
  schedule = { kind = "constant", peak = 3e-3, warmup = 1 }
[[run]]
id = "cpt"
file = "./curves.csv"
where = { run = "cpt", seed = 1 }
split = "test"
model_size = 25
  [[run.phase]]
  name = "pt"
  steps = 4
  schedule = { kind = "constant", peak = 3e-3 }
  [[run.phase]]
  name = "cpt"
  steps = 4
  replay_ratio = 0.25
  schedule = { kind = "linear", peak = 3e-3, end = 0, warmup = 2 }
"""
CURVES = """run,seed,step,code,web,note
base,1,2,3.5,,x
base,1,4,3.25,nan,
cpt,0,1,9,9,
cpt,1,0,,,
cpt,1,6,,3.0,
cpt,1,8,2.5,inf-free,
web,1,1,inf,1,
web,1,2,1,1,
"""


def test_runs_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reads = []
    original = manifest_module.read_table
    monkeypatch.setattr(manifest_module, "read_table", lambda *args: reads.append(args) or original(*args))
    path = write(tmp_path, TWO, curves=CURVES.replace("inf-free", ""))
    runs = read_manifest(path)

    assert len(reads) == 1
    assert runs.name == "two"
    assert [run.id for run in runs] == ["base", "cpt"]
    assert runs.losses == ("code", "web")
    base, cpt = runs
    assert (base.split, base.model_size, base.transfer_step) == ("fit", None, None)
    assert (cpt.split, cpt.model_size, cpt.transfer_step) == ("test", 25.0, 4)
    assert cpt.source == str(tmp_path / "curves.csv")
    assert base.steps.tolist() == [2, 4]
    assert {name: loss.tolist() for name, loss in base.losses.items()} == {"code": [3.5, 3.25]}
    assert cpt.steps.tolist() == [6, 8]
    np.testing.assert_array_equal(cpt.losses["code"], [np.nan, 2.5])
    np.testing.assert_array_equal(cpt.losses["web"], [3.0, np.nan])
    expected = Phase(Linear(3e-3, 0.0, steps=4, warmup=2), "cpt", 0.25)
    assert eqx.tree_equal(cpt.phases[1], expected)
    assert eqx.tree_equal(base.phases, (Phase(Constant(3e-3, steps=4, warmup=1)),))


def test_bad_cell_in_the_rows_of_a_run(tmp_path: Path):
    path = write(tmp_path, TWO, curves=CURVES)
    with pytest.raises(InputError, match=r"curves.csv: run 'cpt', row 7, column 'web': 'inf-free' is no number"):
        read_manifest(path)


def test_continued_run_of_unknown_history(tmp_path: Path):
    manifest = one_phase('kind = "constant", peak = 0.1, warmup = 2, warmup_from = 0.05').replace('"pt"', '"cpt"')
    run = read_manifest(write(tmp_path, manifest, a="step,loss\n0,3\n10,2\n"))["a"]
    assert run.transfer_step == 0
    assert run.steps.tolist() == [0, 10]
    assert float(run.phases[0].schedule(1)) == pytest.approx(0.075)


def test_manifest_with_bom_and_crlf(tmp_path: Path):
    path = write(tmp_path, "", a=table({1: 0.1}))
    path.write_bytes(b"\xef\xbb\xbf" + one_phase('kind = "constant", peak = 1').replace("\n", "\r\n").encode())
    assert read_runs(path).name == "runs"


@pytest.mark.parametrize("value", ['"1"', "1", "1.0"])
def test_where_compares_texts_as_written_and_numbers_by_value(tmp_path: Path, value: str):
    manifest = one_phase('kind = "constant", peak = 1').replace(
        'file = "a.csv"', f'file = "a.csv"\nwhere = {{k = {value}}}'
    )
    curves = "k,step,loss\n1,1,3\n01,2,4\n2,3,5\n"
    run = read_manifest(write(tmp_path, manifest, a=curves))["a"]
    assert run.steps.tolist() == ([1] if value == '"1"' else [1, 2])


@pytest.mark.parametrize("cells", [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
def test_where_takes_booleans(tmp_path: Path, cells: tuple[str, str]):
    manifest = one_phase('kind = "constant", peak = 1').replace(
        'file = "a.csv"', 'file = "a.csv"\nwhere = {eval = true}'
    )
    curves = f"eval,step,loss\n{cells[0]},1,3\n{cells[1]},2,4\n"
    assert read_manifest(write(tmp_path, manifest, a=curves))["a"].steps.tolist() == [1]


SCHEDULES = {
    'kind = "constant", peak = 3e-3': Constant(3e-3, steps=10),
    'kind = "constant", peak = 1, warmup = 4': Constant(1.0, steps=10, warmup=4),
    'kind = "linear", peak = 0.3, end = 0.1': Linear(0.3, 0.1, steps=10),
    'kind = "cosine", peak = 0.3, end = 0, warmup = 2, warmup_from = 0.1': Cosine(
        0.3, 0.0, steps=10, warmup=2, warmup_from=jnp.asarray(0.1)
    ),
    'kind = "wsd", peak = 0.3, end = 0.1, decay_start = 6': WSD(0.3, 0.1, steps=10, decay_start=6),
    'kind = "wsd", peak = 0.3, end = 0.1, decay_start = 6, decay = "sqrt"': WSD(
        0.3, 0.1, steps=10, decay_start=6, decay="sqrt"
    ),
    'kind = "wsd", peak = 0.3, end = 0.1, decay_start = 6, decay = "cosine"': WSD(
        0.3, 0.1, steps=10, decay_start=6, decay="cosine"
    ),
    'kind = "wsd", peak = 0.3, end = 0.1, decay_start = 6, decay = "exponential", warmup = 3': WSD(
        0.3, 0.1, steps=10, decay_start=6, decay="exponential", warmup=3
    ),
    'kind = "steps", boundaries = [3, 6], values = [3, 2, 1]': Steps((3, 6), jnp.array([3.0, 2.0, 1.0]), steps=10),
    'kind = "knots", steps = [0, 5, 10], values = [0, 0.2, 0.1]': Knots(
        (0, 5, 10), jnp.array([0.0, 0.2, 0.1]), steps=10
    ),
    'kind = "logged", values = [3, 3, 3, 1, 1, 1, 1, 1, 1, 1]': from_array([3.0] * 3 + [1.0] * 7),
    'kind = "logged", values = [1, 2, 3, 3, 3, 3, 3, 3, 3, 3], warmup = 3, breaks = [3]': Table(
        rates=jnp.array([1.0, 2] + [3.0] * 8), warmup=3, breaks=(3,)
    ),
}


@pytest.mark.parametrize("text", SCHEDULES)
def test_kinds(tmp_path: Path, text: str):
    run = read_manifest(write(tmp_path, one_phase(text), a=table({1: 0.1})))["a"]
    assert eqx.tree_equal(run.phases[0].schedule, SCHEDULES[text])


def test_logged_between_rows_and_outside(tmp_path: Path):
    path = write(tmp_path, one_phase('kind = "logged"'), a=table({2: 0.4, 4: 0.2, 8: 0.1}))
    schedule = read_manifest(path)["a"].phases[0].schedule
    np.testing.assert_allclose(schedule.values(), [0.4, 0.4, 0.3, 0.2, 0.175, 0.15, 0.125, 0.1, 0.1, 0.1], rtol=1e-15)
    assert isinstance(schedule, Table)
    assert schedule.warmup == 0


@pytest.mark.parametrize(
    ("lr", "extra", "warmup"),
    [
        ({0: 0.0, 2: 0.1, 4: 0.2, 6: 0.2, 8: 0.1}, "", 4),
        ({2: 0.1, 4: 0.2, 6: 0.2, 8: 0.1}, "", 4),
        ({2: 0.1, 4: 0.2, 6: 0.2, 8: 0.1}, ", warmup = 3", 3),
        ({2: 0.1, 4: 0.2, 6: 0.2, 8: 0.1}, ", warmup = 0", 0),
        ({2: 0.2, 4: 0.2, 6: 0.3}, "", 0),
        ({2: 0.1, 8: 0.2}, "", 8),
        ({5: 0.1}, "", 0),
    ],
)
def test_logged_warmup(tmp_path: Path, lr: dict[int, float], extra: str, warmup: int):
    path = write(tmp_path, one_phase('kind = "logged"' + extra), a=table(lr))
    assert read_manifest(path)["a"].phases[0].schedule.warmup == warmup


LATER = """
[[run]]
id = "a"
file = "a.csv"
  [[run.phase]]
  name = "pt"
  steps = 4
  schedule = { kind = "logged" }
  [[run.phase]]
  name = "cpt"
  steps = 6
  schedule = { kind = "logged"REST }
"""


def test_logged_later_phase_looks_at_its_own_rows(tmp_path: Path):
    curves = table({2: 0.4, 4: 0.0, 6: 0.2, 8: 0.2, 10: 0.1})
    pt, cpt = read_manifest(write(tmp_path, LATER.replace("REST", ""), a=curves))["a"].phases
    np.testing.assert_allclose(pt.schedule.values(), [0.4, 0.4, 0.2, 0.0])
    np.testing.assert_allclose(cpt.schedule.values(), [0.2, 0.2, 0.2, 0.2, 0.15, 0.1])
    assert cpt.schedule.warmup == 0

    path = write(tmp_path, LATER.replace("REST", ", warmup = 2, warmup_from = 0.05"), a=curves)
    warmed = read_manifest(path)["a"].phases[1].schedule
    np.testing.assert_allclose(warmed.values(), [0.1, 0.2, 0.2, 0.2, 0.15, 0.1])
    assert (warmed.warmup, float(warmed(0))) == (2, 0.05)


def test_plain_file_is_one_run(tmp_path: Path):
    path = tmp_path / "my.run.csv"
    path.write_text("step,learning_rate,train,web,tag\n0,0,,9,x\n2,0.2,3,,y\n4,0.2,2.5,,z\n6,0.1,,,z\n")
    runs = read_runs(str(path))
    assert (len(runs), runs.name, runs[0].id, runs[0].split) == (1, "my.run", "my.run", "fit")
    assert runs[0].total_steps == 4
    assert runs[0].steps.tolist() == [0, 2, 4]
    assert set(runs[0].losses) == {"train", "web"}
    assert runs[0].phases[0].schedule.warmup == 2
    np.testing.assert_allclose(runs[0].phases[0].schedule.values(), [0.1, 0.2, 0.2, 0.2])


rate = st.floats(0, 1e300, allow_nan=False).map(abs)
positive = st.floats(1e-30, 1.0)


@st.composite
def schedules(draw: st.DrawFn):
    steps = draw(st.integers(1, 40))
    warmup = draw(st.integers(0, steps))
    start = draw(st.none() | rate.map(jnp.asarray))
    rise = {"warmup": warmup, "warmup_from": start}
    kind = draw(st.sampled_from([Constant, Linear, Cosine, WSD, Steps, Knots, Table]))
    if kind is Constant:
        return Constant(draw(rate), steps=steps, **rise)
    if kind is WSD:
        decay = draw(st.sampled_from(["linear", "exponential", "cosine", "sqrt"]))
        decay_start = draw(st.integers(warmup, steps))
        return WSD(draw(positive), draw(positive), steps=steps, decay_start=decay_start, decay=decay, **rise)
    if kind in (Linear, Cosine):
        return kind(draw(rate), draw(rate), steps=steps, **rise)
    if kind is Table:
        rates = draw(st.lists(rate, min_size=steps, max_size=steps))
        breaks = tuple(sorted(draw(st.sets(st.integers(1, steps)))))
        return Table(rates=jnp.asarray(rates), breaks=breaks, **rise)
    first = 1 if kind is Steps else 0
    at = sorted(draw(st.sets(st.integers(first, steps), min_size=1 - first)))
    rates = draw(st.lists(rate, min_size=len(at) + first, max_size=len(at) + first))
    return kind(at, jnp.asarray(rates), steps=steps, **rise)


@settings(max_examples=100, deadline=None)
@given(schedule=schedules(), replay_ratio=st.floats(0, 1))
def test_dicts_round_trip_to_the_last_bit(schedule, replay_ratio: float):
    assert eqx.tree_equal(schedule_from_dict(schedule_to_dict(schedule), schedule.steps), schedule)
    for phase in (Phase(schedule), Phase(schedule, "cpt", replay_ratio)):
        assert eqx.tree_equal(phase_from_dict(phase_to_dict(phase)), phase)


def test_schedules_without_a_kind():
    flat = Constant(0.1, steps=4, warmup=2)
    for schedule in (Joined((flat, flat)), flat.without_warmup()):
        with pytest.raises(TypeError, match="has no kind"):
            schedule_to_dict(schedule)


def test_dicts_outside_a_manifest_name_themselves():
    with pytest.raises(InputError, match=r"^schedule: a logged schedule without a file: give 'values', one LR a step$"):
        schedule_from_dict({"kind": "logged"}, 3)
    with pytest.raises(InputError, match=r"^phase: phase has no 'name': give one of 'pt', 'cpt'$"):
        phase_from_dict({})


@pytest.mark.parametrize("size", ["25", "100"])
def test_real_manifests_agree_with_their_logs(size: str):
    folder = SHARED / "data" / "multipower" / size
    if not folder.is_dir():
        pytest.skip(f"no shared data at {SHARED} (set CPTJAX_SHARED)")
    runs = read_manifest(folder / "runs.toml")
    assert len(runs) == 9
    assert [run.id for run in runs.fit] == ["cosine_24000", "constant_24000", "wsdcon_9"]
    assert len(runs.test) == 6
    assert {run.model_size for run in runs} == {float(size)}
    for run in runs:
        with (folder / f"{run.id}.csv").open() as lines:
            rows = list(csv.DictReader(lines))
        steps = np.array([int(row["step"]) for row in rows])
        np.testing.assert_array_equal(run.steps, steps)
        np.testing.assert_array_equal(run.losses["loss"], [float(row["loss"]) for row in rows])
        stated = np.asarray(run.phases[0].schedule.values(jnp.asarray(steps)))
        np.testing.assert_allclose(stated, [float(row["lr"]) for row in rows], rtol=1e-12, atol=0, err_msg=run.id)
