"""Every mistake of a user: exit code 2, one line on stderr, nothing written."""

import os

import pytest
from readers.malformed import MALFORMED, write

ONE_LINE = pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.id.replace(" ", "_"))


def assert_refused(said, *parts):
    assert said.code == 2, said
    assert said.out == ""
    assert said.err.startswith("cptjax: ")
    assert said.err.count("\n") == 1
    for part in parts:
        assert part in said.err


@ONE_LINE
def test_malformed_files(case, tmp_path, call):
    out = tmp_path / "out"
    said = call("fit", write(case, tmp_path), "--out", out)
    assert_refused(said)
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["fit"], ["manifest"]),
        (["fit", "{demo}", "--foo"], ["--foo"]),
        (["nothing"], ["nothing"]),
        (["fit", "{demo}"], ["--loss", "loss_pt, loss_code"]),
        (["fit", "{demo}", "--loss", "loss"], ["'loss'", "loss_pt, loss_code"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--law", "cosine"], ["--law", "annealing, cpt"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--law", "annealing"], ["code_linear", "law 'cpt'"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--kernel", "triangle"], ["--kernel", "momentum"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--law", "multipower", "--kernel", "power"], ["--kernel"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--decay", "1"], ["--decay", "[0, 1)"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--decay", "half"], ["--decay", "'fit'"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--kernel", "multipower", "--decay", "fit"], ["--decay"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--replay", "half"], ["--replay", "share"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--warmup", "cold"], ["--warmup", "flat"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--law", "multipower", "--size"], ["--size"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--law", "annealing", "--replay", "share"], ["--replay"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--law", "annealing", "--open-weights"], ["--open-weights"]),
        (["fit", "{tmp}"], ["{tmp}"]),
        (["predict", "{fit}"], ["--manifest", "--schedule"]),
        (["predict", "{fit}", "--manifest", "{demo}", "--schedule", "{demo}"], ["--manifest", "--schedule"]),
        (["predict", "{fit}", "--manifest", "{demo}", "--every", "0"], ["--every"]),
        (["predict", "{demo}", "--manifest", "{demo}"], ["not JSON", "cptjax fit"]),
        (["predict", "missing.json", "--manifest", "{demo}"], ["missing.json", "no such file"]),
        (["predict", "{tmp}", "--manifest", "{demo}"], ["{tmp}", "cannot be read"]),
        (["fit", "{demo}", "--loss", "loss_pt", "--seed", "-1"], ["--seed"]),
        (["predict", "{fit}", "--schedule", "missing.toml"], ["missing.toml", "no such file"]),
        (["predict", "{fit}", "--schedule", "{demo}"], ["'run'"]),
    ],
    ids=lambda x: " ".join(x[:6]) if isinstance(x, list) and "-" in " ".join(x) else None,
)
def test_wrong_words(words, parts, demo, tmp_path, call):
    places = {"demo": demo / "runs.toml", "fit": demo / "fit_old.json", "tmp": tmp_path}
    out = tmp_path / "out"
    into = [] if words in (["fit"], ["nothing"]) else ["--out", out]
    said = call(*(word.format(**places) for word in words), *into)
    assert_refused(said, *(part.format(**places) for part in parts))
    assert not out.exists()


def test_every_run_held_out(tmp_path, call):
    (tmp_path / "c.csv").write_text("step,loss\n1,3\n2,2\n")
    phase = '[[run.phase]]\nname = "pt"\nsteps = 9\nschedule = { kind = "constant", peak = 1 }\n'
    manifest = tmp_path / "m.toml"
    manifest.write_text(f'[[run]]\nid = "a"\nfile = "c.csv"\nsplit = "test"\n{phase}')
    assert_refused(call("fit", manifest, "--out", tmp_path / "out"), "m.toml", "'fit'")


def test_size_of_runs_that_have_none(tmp_path, call):
    (tmp_path / "log.csv").write_text("step,lr,loss\n" + "".join(f"{i},1e-3,{3 + 1 / i}\n" for i in range(1, 20)))
    assert_refused(call("fit", tmp_path / "log.csv", "--size", "--out", tmp_path / "out"), "log", "model_size")


FIT = (
    '{"law": "annealing", "kernel": "momentum", "loss": "loss", "params": {"L0": 3, "A": 1, "alpha": 0.5, "C": 1},'
    ' "stderr": {}, "objective": 0, "converged": true, "metrics": {}}'
)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{}", "'law'"),
        ("[]", "not a fit"),
        ('{"law": "gravity", "kernel": "momentum"}', "gravity"),
        ('{"law": "annealing", "kernel": "momentum", "options": {"kernel": {"mass": 1}}}', "mass"),
        ('{"law": "annealing", "kernel": "momentum", "loss": "loss", "params": 3}', "type"),
        ('{"law": "annealing", "kernel": "momentum", "loss": "loss", "params": {"L0": "x"}}', "type"),
        ('{"law": "annealing", "kernel": "momentum", "loss": "loss", "params": {"L0": 1}}', "'A'"),
        ("[" * 100_000, "not JSON"),
        ('{"law": "annealing", "kernel": "momentum", "options": {"kernel": {"decay": "x"}}}', "decay"),
        (FIT.replace('"L0": 3', '"L0": NaN'), "'L0'"),
        (FIT.replace('"metrics": {}', '"metrics": [1]'), "type"),
    ],
)
def test_files_that_are_no_fit(content, part, demo, tmp_path, call):
    fitted = tmp_path / "fit.json"
    fitted.write_text(content)
    said = call("predict", fitted, "--manifest", demo / "runs.toml", "--out", tmp_path / "out")
    assert_refused(said, str(fitted), part)


PLANS = {
    "no phase": ('name = "x"\n', "phase"),
    "unknown key": ('[[phase]]\nname = "pt"\nstep = 5\n', "'step'"),
    "pt after cpt": (
        "".join(
            f'[[phase]]\nname = "{n}"\nsteps = 5\nschedule = {{ kind = "constant", peak = 1 }}\n' for n in ("cpt", "pt")
        ),
        "pt phase after",
    ),
    "logged, no file": ('[[phase]]\nname = "pt"\nsteps = 5\nschedule = { kind = "logged" }\n', "values"),
    "too long": ('[[phase]]\nname = "pt"\nsteps = 9000000000\nschedule = { kind = "constant", peak = 1 }\n', "steps"),
    "cpt alone": ('[[phase]]\nname = "cpt"\nsteps = 5\nschedule = { kind = "constant", peak = 1 }\n', "no pt phase"),
    "bad size": (
        'model_size = -1\n[[phase]]\nname = "pt"\nsteps = 5\nschedule = { kind = "constant", peak = 1 }\n',
        "model_size",
    ),
}


@pytest.mark.parametrize(("text", "part"), PLANS.values(), ids=PLANS)
def test_plans_that_will_not_do(text, part, demo, tmp_path, call):
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    said = call("predict", demo / "fit_old.json", "--schedule", plan, "--out", tmp_path / "out")
    assert_refused(said, part)


@pytest.mark.parametrize(
    "rows",
    ["step\n1\n", "step,lr\n", "step,lr\n0,0.1\n", "step,lr\n1,-1\n", "step,lr\n1,\n", "step,lr\n9000000000,1\n"],
)
def test_tables_that_are_no_schedule(rows, demo, tmp_path, call):
    plan = tmp_path / "plan.csv"
    plan.write_text(rows)
    said = call("predict", demo / "fit_old.json", "--schedule", plan, "--out", tmp_path / "out")
    assert_refused(said, "plan.csv")


def test_nothing_is_overwritten(demo, tmp_path, call):
    before = {path.name: path.read_bytes() for path in demo.iterdir()}
    assert_refused(call("demo", "--out", demo), "--force")
    kept = tmp_path / "fit.png"
    kept.write_text("mine")
    assert_refused(call("fit", demo / "runs.toml", "--loss", "loss_pt", "--out", tmp_path), "fit.png", "--force")
    assert kept.read_text() == "mine"
    assert {path.name: path.read_bytes() for path in demo.iterdir()} == before


def test_out_that_cannot_be(demo, tmp_path, call):
    (tmp_path / "file").write_text("")
    words = ("fit", demo / "runs.toml", "--loss", "loss_pt", "--out")
    assert_refused(call(*words, tmp_path / "file"), "not a folder")
    assert_refused(call(*words, tmp_path / "file" / "deeper"), "not a folder")
    assert_refused(call(*words, tmp_path / ("x" * 300)), "cannot be written")
    (tmp_path / "loop").symlink_to("loop")
    assert_refused(call(*words, tmp_path / "loop" / "fit"), "cannot be written")
    (tmp_path / "fit.json").mkdir()
    assert_refused(call(*words, tmp_path, "--force"), "fit.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_out_that_is_read_only(demo, tmp_path, call):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    assert_refused(call("fit", demo / "runs.toml", "--loss", "loss_pt", "--out", folder / "new"), "cannot be written")
