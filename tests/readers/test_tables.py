import gzip
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cptjax.readers import read_runs
from cptjax.readers.places import Place
from cptjax.readers.tables import TableFile, read_table

COLUMNS = {
    "run": ["a", "a", "007"],
    "step": [1, 2, 128],
    "lr": [0.1, 3e-4 / 7, 1e-5],
    "loss": [3.0415926535897931, None, 2.0 / 3.0],
}
CSV = f"run,step,lr,loss\na,1,0.1,3.0415926535897931\na,2,{3e-4 / 7},\n007,128.0,1e-5,{2.0 / 3.0!r}\n"


def load(path: Path) -> TableFile:
    return read_table(path, Place(str(path)))


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def as_jsonl() -> str:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    return "".join(json.dumps({key: v for key, v in row.items() if v is not None}) + "\n" for row in rows)


def test_every_format_holds_the_same_numbers(tmp_path: Path):
    parquet.write_table(pa.table(COLUMNS), tmp_path / "t.parquet")
    csv = load(write(tmp_path, "t.csv", CSV))
    others = [
        load(write(tmp_path, "t.csv.gz", gzip.compress(CSV.encode()))),
        load(write(tmp_path, "t.jsonl", as_jsonl())),
        load(tmp_path / "t.parquet"),
    ]
    assert csv.numbers("loss").values[2] == 2 / 3
    for other in others:
        assert list(other.cells) == list(csv.cells)
        assert list(other.texts("run")) == ["a", "a", "007"]
        for name in ("step", "lr", "loss"):
            np.testing.assert_array_equal(other.numbers(name).values, csv.numbers(name).values)


def test_rows_are_those_of_an_editor(tmp_path: Path):
    assert load(write(tmp_path, "t.csv", "step,loss\n1,3\n\n2,3\n,\n3,3\n\n")).rows == [2, 4, 6]
    assert load(write(tmp_path, "t.jsonl", '{"step": 1}\n\n{"step": 2}\n')).rows == [1, 3]
    parquet.write_table(pa.table({"step": [4, 5]}), tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").rows == [1, 2]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfstep,lr,loss\n1,0.1,3\n2,0.1,2\n",
        b"step,lr,loss\r\n1,0.1,3\r\n2,0.1,2\r\n",
        b"step,lr,loss\n1,0.1,3\n2,0.1,2\n\n\n",
        b"step,lr,loss\n1,0.1,3\n2,0.1,2",
        b'"step","lr","loss"\n1,0.1,3\n"2","0.1","2"\n',
        b"step,lr,loss\n1.0,0.1,3\n2.0,1e-1,2.0\n",
        b"loss,step,lr\n3,1,0.1\n2,2,0.1\n",
        b"step , lr,\tloss \n1 , 0.1, 3\n 2,0.1 ,2 \n",
        b",step,lr,loss\n0,1,0.1,3\n1,2,0.1,2\n",
        b"step,lr,loss,\n1,0.1,3,\n2,0.1,2,\n",
        b"step,lr,loss,note\n1,0.1,3,\n2,0.1,2,decayed\n3,0.1,,\n4,,NaN,end\n",
        b"step,learning_rate,loss,is_best\n1,0.1,3,True\n2,0.1,2,False\n",
    ],
    ids=["bom", "crlf", "blanks", "no end", "quotes", "floats", "unsorted", "spaces", "index", "comma", "text", "bool"],
)
def test_odd_but_valid_csv(tmp_path: Path, content: bytes):
    run = read_runs(write(tmp_path, "odd.csv", content))["odd"]
    assert run.steps.tolist() == [1, 2]
    assert {name: loss.tolist() for name, loss in run.losses.items()} == {"loss": [3, 2]}
    np.testing.assert_array_equal(run.phases[0].schedule.values(), [0.1, 0.1])


def test_sparse_jsonl_with_odd_cells(tmp_path: Path):
    lines = [
        '\ufeff{"step": 1, "lr": 0.1, "loss": 3, "note": {"deep": [1]}, "ok": true}',
        '{"step": 2, "lr": null, "eval": 2.5}',
        '{"step": 3, "loss": NaN, "eval": "2.25", "ok": false}',
        '{"step": 4, "lr": 0.3}',
    ]
    run = read_runs(write(tmp_path, "log.jsonl", "\r\n".join(lines)))["log"]
    assert run.steps.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(run.losses["loss"], [3, np.nan, np.nan])
    np.testing.assert_array_equal(run.losses["eval"], [np.nan, 2.5, 2.25])
    assert set(run.losses) == {"loss", "eval"}
    np.testing.assert_allclose(run.phases[0].schedule.values(), [0.1, 0.1 + 0.2 / 3, 0.1 + 0.4 / 3])


def test_parquet_with_an_index_and_categories(tmp_path: Path):
    table = pa.table(
        {
            "run": pa.array(["a", "a"]).dictionary_encode(),
            "step": pa.array([1, 2], pa.int32()),
            "lr": pa.array([0.25, 0.25], pa.float32()),
            "loss": pa.array([Decimal("3.5"), None], pa.decimal128(4, 2)),
            "at": pa.array([0, 1], pa.timestamp("s")),
            "__index_level_0__": [0, 1],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    run = read_runs(tmp_path / "t.parquet")["t"]
    assert {name: loss.tolist() for name, loss in run.losses.items()} == {"loss": [3.5]}


def test_a_column_is_numeric_by_most_of_its_cells(tmp_path: Path):
    table = load(write(tmp_path, "t.csv", "a,b,c,d\n1,x,,nan\n2,1,,\nx,y,,x\n"))
    assert [table.numbers(name).is_numeric for name in "abcd"] == [True, False, False, False]
    assert table.numbers("a").bad.tolist() == [False, False, True]
