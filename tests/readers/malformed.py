"""Malformed manifests and tables, each with the one line that a reader must answer with.

``MALFORMED`` is a table to run through the Python readers and through the command line alike::

    path = write(case, tmp_path)          # the file to hand over
    message(case, tmp_path)               # a regular expression of the whole line
"""

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MALFORMED", "Case", "message", "write"]

CURVES = "run,step,lr,loss\na,1,0.1,3.0\na,2,0.1,2.5\nb,2,0.1,2.0\n"


@dataclass(frozen=True)
class Case:
    """One fault: the files to write, the one to read, and what is said after the path of the file ``at``.

    ``…`` in ``says`` stands for words of another library.
    """

    id: str
    files: dict[str, str | bytes]
    says: str
    at: str = "runs.toml"

    @property
    def entry(self) -> str:
        return "runs.toml" if "runs.toml" in self.files else next(iter(self.files), self.at)


def write(case: Case, folder: Path) -> Path:
    """Write the files of a case into ``folder``; returns the path to read."""
    for name, content in case.files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / case.entry


def message(case: Case, folder: Path) -> str:
    """A regular expression that the whole message must match."""
    return re.escape(f"{folder / case.at}: ") + "[^\n]+".join(map(re.escape, case.says.split("…")))


PHASE = {"name": "pt", "steps": 10, "schedule": {"kind": "constant", "peak": 0.1}}
RUN = {"id": "a", "file": "curves.csv", "where": {"run": "a"}, "phase": [PHASE]}


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, (str, bool)) else repr(value)


def manifest(**changes: object) -> str:
    """A manifest of one run; ``changes`` replace keys of the run (``None`` takes a key away)."""
    return f"run = [{_toml({key: value for key, value in (RUN | changes).items() if value is not None})}]\n"


def _run(id: str, says: str, **changes: object) -> Case:
    return Case(id, {"runs.toml": manifest(**changes), "curves.csv": CURVES}, f"run 'a'{says}")


def _phases(id: str, says: str, *phases: dict[str, object], curves: str = CURVES) -> Case:
    files = {"runs.toml": manifest(phase=list(phases)), "curves.csv": curves}
    return Case(id, files, f"run 'a', phase {len(phases)}: {says}")


def _phase(id: str, says: str, **changes: object) -> Case:
    return _phases(id, says, {key: value for key, value in (PHASE | changes).items() if value is not None})


def _schedule(id: str, says: str, **schedule: object) -> Case:
    return _phase(id, says, schedule=schedule)


def _rows(id: str, says: str, curves: str | bytes, file: str = "curves.csv", **changes: object) -> Case:
    files: dict[str, str | bytes] = {"runs.toml": manifest(**({"file": file} | changes)), file: curves}
    return Case(id, files, f"run 'a'{says}", at=file)


def _plain(id: str, says: str, content: str | bytes, file: str = "log.csv") -> Case:
    return Case(id, {file: content}, says, at=file)


CPT = {"name": "cpt", "steps": 10, "schedule": {"kind": "constant", "peak": 0.1}}
LOGGED = {"kind": "logged"}

MALFORMED = [
    # the manifest as a whole
    Case("no manifest", {}, "no such file: correct the path"),
    Case("not toml", {"runs.toml": 'name = "x"\nrun = [\n'}, "not TOML: …line 3…: correct the line"),
    Case("not toml inside", {"runs.toml": "name = \n"}, "not TOML: …line 1…: correct the line"),
    Case("not utf-8", {"runs.toml": b'name = "\xff"\n'}, "not UTF-8 text (invalid start byte): save it as UTF-8"),
    Case("no run", {"runs.toml": 'name = "x"\n'}, "the manifest has no 'run': give at least one [[run]] table"),
    Case("runs empty", {"runs.toml": "run = []\n"}, "'run' in the manifest is []: give at least one [[run]] table"),
    Case("run not a table", {"runs.toml": "run = [1]\n"}, "run 1: run is 1: give a table of keys"),
    Case("run not repeated", {"runs.toml": "[run]\n"}, "'run' in the manifest is {}: give at least one [[run]] table"),
    Case("key at the top", {"runs.toml": "runs = 1\n"}, "unknown key 'runs' in the manifest: did you mean 'run'?"),
    Case("name not text", {"runs.toml": "name = 3\n"}, "'name' in the manifest is 3: give a text in quotes"),
    Case(
        "ids twice",
        {"runs.toml": f"run = [{_toml(RUN)}, {_toml(RUN)}]\n", "curves.csv": CURVES},
        "run 'a': an earlier run has the same id: give each run its own",
    ),
    # a run
    Case("id missing", {"runs.toml": manifest(id=None)}, "run 1: run has no 'id': give a text in quotes"),
    Case("id blank", {"runs.toml": manifest(id=" ")}, "run 1: 'id' in run is ' ': give a text in quotes"),
    _run("key of a run", ": unknown key 'splits' in run: did you mean 'split'?", splits="fit"),
    _run("file missing", ": run has no 'file': give a text in quotes", file=None),
    _run("split unknown", ": 'split' in run is 'train': the choices are 'fit', 'test'", split="train"),
    _run("size zero", ": 'model_size' in run is 0: give a finite number > 0", model_size=0),
    _run("size true", ": 'model_size' in run is True: give a finite number > 0", model_size=True),
    _run("size infinite", ": 'model_size' in run is inf: give a finite number > 0", model_size=float("inf")),
    _run("where not a table", ": 'where' in run is 'a': give a table of columns and values", where="a"),
    _run("where a list", ": 'run' in where is ['a']: give a text, a number, true or false", where={"run": ["a"]}),
    _run("no phase", ": run has no 'phase': give at least one [[run.phase]] table", phase=None),
    _run("phases empty", ": 'phase' in run is []: give at least one [[run.phase]] table", phase=[]),
    # a phase
    _phase("key of a phase", "unknown key 'step' in phase: did you mean 'steps'?", step=3),
    _phase("phase without name", "phase has no 'name': give one of 'pt', 'cpt'", name=None),
    _phase("phase name", "'name' in phase is 'sft': the choices are 'pt', 'cpt'", name="sft"),
    _phase("steps missing", "phase has no 'steps': give a whole number from 1 to 20000000", steps=None),
    _phase("steps zero", "'steps' in phase is 0: give a whole number from 1 to 20000000", steps=0),
    _phase("steps float", "'steps' in phase is 10.0: give a whole number from 1 to 20000000", steps=10.0),
    _phase("steps true", "'steps' in phase is True: give a whole number from 1 to 20000000", steps=True),
    _phase("no schedule", "phase has no 'schedule': give a table with 'kind'", schedule=None),
    _phase("schedule text", "'schedule' in phase is 'cosine': give a table with 'kind'", schedule="cosine"),
    _phase("replay on pt", "'replay_ratio' in phase is 0.2: remove it, only a cpt phase replays", replay_ratio=0.2),
    _phases("replay above 1", "'replay_ratio' in phase is 1.2: give a number from 0 to 1", CPT | {"replay_ratio": 1.2}),
    _phases("replay below 0", "'replay_ratio' in phase is -1: give a number from 0 to 1", CPT | {"replay_ratio": -1}),
    _phases("replay true", "'replay_ratio' in phase is True: give a number from 0 to 1", CPT | {"replay_ratio": True}),
    _phases("pt after cpt", "a pt phase after a cpt phase: put the pt phases first", CPT, PHASE),
    # a schedule
    _schedule(
        "no kind",
        "schedule has no 'kind': give one of 'constant', 'linear', 'cosine', 'wsd', 'steps', 'knots', 'logged'",
        peak=0.1,
    ),
    _schedule("kind misspelt", "'kind' in schedule is 'cosin': did you mean 'cosine'?", kind="cosin", peak=0.1, end=0),
    _schedule("key misspelt", "unknown key 'peek' in schedule: did you mean 'peak'?", kind="constant", peek=0.1),
    _schedule(
        "key of another kind",
        "unknown key 'end' in schedule: the keys are 'kind', 'warmup', 'warmup_from', 'peak'",
        kind="constant",
        peak=0.1,
        end=0.0,
    ),
    _schedule("end missing", "schedule has no 'end': give a finite number >= 0", kind="cosine", peak=0.1),
    _schedule("peak negative", "'peak' in schedule is -0.1: give a finite number >= 0", kind="constant", peak=-0.1),
    _schedule("peak nan", "'peak' in schedule is nan: give a finite number >= 0", kind="constant", peak=float("nan")),
    _schedule("peak true", "'peak' in schedule is True: give a finite number >= 0", kind="constant", peak=True),
    _schedule("peak huge", "'peak' in schedule is 1000…: give a finite number >= 0", kind="constant", peak=10**400),
    _schedule(
        "warmup past the phase",
        "'warmup' in schedule is 11: give a whole number from 0 to 10",
        kind="constant",
        peak=0.1,
        warmup=11,
    ),
    _schedule(
        "warmup_from alone",
        "'warmup_from' in schedule is 0.01: give 'warmup' too, the steps the rise takes",
        kind="constant",
        peak=0.1,
        warmup_from=0.01,
    ),
    _schedule(
        "decay past the phase",
        "'decay_start' in schedule is 11: give a whole number from 2 to 10",
        kind="wsd",
        peak=0.1,
        end=0.01,
        decay_start=11,
        warmup=2,
    ),
    _schedule(
        "decay unknown",
        "'decay' in schedule is 'exp': the choices are 'linear', 'exponential', 'cosine', 'sqrt'",
        kind="wsd",
        peak=0.1,
        end=0.01,
        decay_start=5,
        decay="exp",
    ),
    _schedule(
        "exponential to 0",
        "wsd schedule: exponential decay never reaches 0: give end > 0",
        kind="wsd",
        peak=0.1,
        end=0,
        decay_start=5,
        decay="exponential",
    ),
    _schedule(
        "too few values",
        "steps schedule: 2 boundaries need 3 values, got 2",
        kind="steps",
        boundaries=[3, 5],
        values=[0.1, 0.2],
    ),
    _schedule(
        "boundaries fall",
        "steps schedule: boundaries must increase, but 3 follows 5",
        kind="steps",
        boundaries=[5, 3],
        values=[1, 2, 3],
    ),
    _schedule(
        "boundary past the phase",
        "steps schedule: boundaries must lie in [1, 10]",
        kind="steps",
        boundaries=[11],
        values=[0.1, 0.2],
    ),
    _schedule(
        "boundary no integer",
        "'boundaries' in schedule is [5.5]: give a list of whole numbers",
        kind="steps",
        boundaries=[5.5],
        values=[0.1, 0.2],
    ),
    _schedule(
        "knots unequal", "knots schedule: 2 knots need as many values, got 1", kind="knots", steps=[0, 5], values=[1]
    ),
    _schedule(
        "knot value text",
        "'values' in schedule is ['x']: give a list of finite numbers >= 0",
        kind="knots",
        steps=[0],
        values=["x"],
    ),
    _schedule(
        "logged values short", "logged schedule: 10 steps need as many values, got 1", kind="logged", values=[0.1]
    ),
    # a table
    Case("no table", {"runs.toml": manifest()}, "run 'a': no such file: correct the path…", at="curves.csv"),
    Case(
        "name too long",
        {"runs.toml": manifest(file="x" * 999 + ".csv")},
        "run 'a': cannot be read (…): check that it is a whole csv file",
        at="x" * 999 + ".csv",
    ),
    _rows(
        "unknown format", ": not a table file by its name: give one of csv, csv.gz, jsonl, parquet", "x", file="x.txt"
    ),
    _rows("empty table", ": not a csv (…): write a header, then rows of cells with commas between", ""),
    _rows("header only", ": the file has no rows: log at least one observation", "step,lr,loss\n", where=None),
    _rows("table not utf-8", ", row 2: not UTF-8 text (…): save it as UTF-8", b"step,loss\n\xff,1,2\n"),
    _rows("jsonl not utf-8", ", row 2: not UTF-8 text (…): save it as UTF-8", b'{}\n"\xc3"', file="x.jsonl"),
    _rows("not gzip", ": cannot be read (…): check that it is a whole csv.gz file", CURVES, file="x.csv.gz"),
    _rows("half a gzip", ": cannot be read (…): …", gzip.compress(CURVES.encode() * 99)[:40], file="x.csv.gz"),
    _rows("not parquet", ": not a parquet file (…): write it again", CURVES, file="x.parquet"),
    _rows("not json", ", row 2: not JSON (…): write one JSON object a line", '{"step": 1}\n{"step"\n', file="x.jsonl"),
    _rows("no object", ", row 1: [1] is no object: write one JSON object a line", "[1]\n", file="x.jsonl"),
    _rows(
        "row too long",
        ", row 3: 5 cells where the header has 4 ('a,2,0.1,2.5,7'): give each row as many cells as the header has",
        "run,step,lr,loss\na,1,0.1,3.0\na,2,0.1,2.5,7\n",
    ),
    _rows(
        "row cut off",
        ", row 3: 2 cells where the header has 4 ('a,2'): give each row as many cells as the header has",
        "run,step,lr,loss\na,1,0.1,3.0\na,2\n",
    ),
    _rows(
        "column twice",
        ", column 'loss': 2 columns have this name: give each column its own",
        "step, loss,loss\n1,2,3\n",
    ),
    _rows(
        "no column for where",
        ": there is no column 'run': its columns are 'step', 'lr', 'loss'",
        "step,lr,loss\n1,0.1,3\n",
    ),
    _rows("where without rows", ", column 'run': no row has 'z': it has 'a', 'b'", CURVES, where={"run": "z"}),
    _rows(
        "where never together",
        ": no row has all of {'run': 'b', 'step': 1}: correct `where`",
        CURVES,
        where={"run": "b", "step": 1},
    ),
    _rows(
        "no step",
        ": there is no column 'step': rename 'Step'? its columns are 'run', 'Step', 'loss'",
        "run,Step,loss\na,1,3\n",
    ),
    _rows(
        "step empty",
        ", row 3, column 'step': there is no step: give a whole number from 0 to 20000000",
        "run,step,loss\na,1,3\na,,3\n",
    ),
    _rows("step text", ", row 2, column 'step': 'x' is no number: correct it…", "run,step,loss\na,x,3\na,1,3\n"),
    _rows(
        "step broken",
        ", row 2, column 'step': step 1.5: give a whole number from 0 to 20000000",
        "run,step,loss\na,1.5,3\n",
    ),
    _rows(
        "step negative",
        ", row 2, column 'step': step -1: give a whole number from 0 to 20000000",
        "run,step,loss\na,-1,3\n",
    ),
    _rows(
        "steps fall",
        ", row 4, column 'step': step 1 comes after step 2: "
        "sort the rows by step, with one row a step (or pick the rows of one run: `where`)",
        "run,step,loss\na,2,3\nb,3,3\na,1,3\n",
    ),
    _rows(
        "step twice",
        ", row 4, column 'step': step 1 comes after step 1: …",
        "run,step,loss\n\na,1,3\na,1,3\n",
    ),
    _rows(
        "past the last phase",
        ", row 3, column 'step': step 11 is past the last phase, which ends at step 10: "
        "drop the row, or correct the steps of the phases",
        "run,step,loss\na,10,3\na,11,3\n",
    ),
    _rows(
        "loss text",
        ", row 3, column 'loss': 'oops' is no number: correct it, or leave the cell empty",
        "run,step,loss\na,1,3\na,2,oops\na,3,3\n",
    ),
    _rows(
        "loss zero",
        ", row 2, column 'loss': 0 is no loss, which is finite and > 0: "
        "leave the cell empty if it was not observed, or drop the column if it is no loss",
        "run,step,loss\na,1,0\n",
    ),
    _rows("loss infinite", ", row 2, column 'loss': inf is no loss, which…", "run,step,loss\na,1,inf\na,2,3\n"),
    _rows("loss negative", ", row 1, column 'loss': -3 is no loss…", '{"run":"a","step":1,"loss":-3}', file="x.jsonl"),
    _rows(
        "empty run",
        ": the run is empty, no loss is observed: log numbers in a column besides step and LR (there are 'loss')",
        "run,step,lr,loss\na,1,0.1,\na,2,0.1,nan\nb,1,0.1,3\n",
    ),
    _rows(
        "lr negative",
        ", row 3, column 'lr': LR -0.1: give a finite number >= 0, or leave the cell empty",
        "run,step,lr,loss\na,1,0.1,3\na,2,-0.1,3\n",
    ),
    _rows("lr infinite", ", row 2, column 'learning_rate': LR inf: …", "run,step,learning_rate,loss\na,1,inf,3\n"),
    _rows("lr text", ", row 2, column 'lr': 'high' is no number: …", "run,step,lr,loss\na,1,high,3\n"),
    _rows(
        "lr twice", ": two LR columns, 'lr', 'learning_rate': keep one", "run,step,lr,learning_rate,loss\na,1,1,1,3\n"
    ),
    _rows(
        "logged without rows",
        ", phase 2: no row of this phase shows a LR: log it, or state the phase's schedule",
        CURVES,
        phase=[PHASE, CPT | {"schedule": LOGGED}],
    ),
    _rows(
        "logged without lr",
        ": there is no LR column: name it 'lr' or 'learning_rate': its columns are 'run', 'step', 'loss'",
        "run,step,loss\na,1,3\n",
        phase=[PHASE | {"schedule": LOGGED}],
    ),
    # a plain table
    Case("no plain file", {}, "no such file: correct the path…", at="log.csv"),
    _plain(
        "plain format", "not a table file by its name: give one of csv, csv.gz, jsonl, parquet", "x", file="log.txt"
    ),
    _plain(
        "plain without step", "there is no column 'step': its columns are 'it', 'lr', 'loss'", "it,lr,loss\n1,1,1\n"
    ),
    _plain(
        "plain without lr",
        "there is no LR column: name it 'lr' or 'learning_rate': its columns are 'step', 'loss'",
        "step,loss\n1,3\n",
    ),
    _plain(
        "plain without loss",
        "the run is empty, no loss is observed: log numbers in a column besides step and LR (there are 'note')",
        "step,lr,note\n1,0.1,x\n",
    ),
    _plain("plain at step 0", "step 0 is the only one observed: log a later one", "step,lr,loss\n0,0.1,3\n"),
    _plain(
        "quote left open",
        "row 4, column 'loss': '3\\n4,0.1,3\\n' is no number: correct it, or leave the cell empty",
        'step,lr,loss\n1,0.1,3\n2,0.1,3\n3,0.1,"3\n4,0.1,3\n',
    ),
]
