"""Tables of training logs: csv, csv.gz, jsonl or parquet, as columns of cells that remember their rows.

The cells stay as the file has them, because what a column means is settled later: the text ``007`` is a run's name in
a column that picks rows and a number in one that holds losses. Row numbers are those an editor shows: the header of a
csv is row 1, a jsonl counts its lines, a parquet file its records from 1.

pyarrow parses csv and parquet (it loads in a tenth of the time of pandas, which every command would wait for).
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cptjax.readers.places import Place, listed, nearest, shown

__all__ = ["Column", "TableFile", "read_table", "table_format"]

_MOST_COLUMNS = 4096


@dataclass(frozen=True)
class Column:
    """The numbers of a column.

    Args:
        values: one number a row; NaN where the cell is empty, ``nan`` or no number.
        bad: the rows whose cell is filled, but not with a number.
    """

    values: Float[np.ndarray, " rows"]
    bad: Bool[np.ndarray, " rows"]

    @property
    def is_numeric(self) -> bool:
        """Most of its filled cells are numbers."""
        return int(np.sum(~np.isnan(self.values))) > int(np.sum(self.bad))


@dataclass(frozen=True)
class TableFile:
    """A table file: the cells of every column and the row each of them stands in.

    Args:
        path: path of the file as the user gave it.
        rows: row numbers, from 1, as an editor shows them.
        cells: the columns in the order of the file: text from csv, native values from jsonl and parquet.
    """

    path: str
    rows: list[int]
    cells: dict[str, list[Any]]
    _numbers: dict[str, Column] = field(default_factory=dict, repr=False)
    _texts: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def numbers(self, name: str) -> Column:
        """The column ``name`` read as numbers."""
        if name not in self._numbers:
            parsed = [_number(cell) for cell in self.cells[name]]
            values = np.array([np.nan if number is None else number for number in parsed], dtype=float)
            self._numbers[name] = Column(values, np.array([number is None for number in parsed], dtype=bool))
        return self._numbers[name]

    def texts(self, name: str) -> np.ndarray:
        """The column ``name`` as texts, the blanks around them cut off."""
        if name not in self._texts:
            self._texts[name] = np.array([_text(cell) for cell in self.cells[name]], dtype=object)
        return self._texts[name]

    def check_has(self, name: str, place: Place) -> None:
        """The table must have a column ``name``.

        Raises:
            InputError: it has not; the message says which columns there are.
        """
        if name not in self.cells:
            close = nearest(name, self.cells)
            hint = "" if close is None else f"rename {close!r}? "
            raise place.error(f"there is no column {name!r}", f"{hint}its columns are {listed(self.cells)}")


def _number(cell: object) -> float | None:
    """The number in a cell: NaN if the cell is empty, ``None`` if it holds something else."""
    if cell is None or cell == "":
        return float("nan")
    if isinstance(cell, bool) or not isinstance(cell, (str, int, float, Decimal)):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return float("nan") if isinstance(cell, str) and cell.isspace() else None


def _text(cell: object) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return "" if cell is None else str(cell).strip()


def table_format(path: Path) -> str | None:
    """The format that a file's name says: csv, csv.gz, jsonl or parquet; ``None`` for any other name."""
    name = path.name.lower()
    return next((ending for ending in _READERS if name.endswith(f".{ending}")), None)


def read_table(path: Path, place: Place) -> TableFile:
    """Read a table file. Blank rows and columns without a name (the index that pandas writes) are left out.

    Args:
        path: a csv, csv.gz, jsonl or parquet file; csv must be UTF-8 (with or without BOM), with a header and commas.
        place: where to say that a fault is.

    Raises:
        InputError: no such file, not one of the formats, broken content, rows of unequal length, two columns of one
            name.
    """
    form = table_format(path)
    if form is None:
        raise place.error("not a table file by its name", f"give one of {', '.join(_READERS)}")
    try:
        if not path.is_file():
            raise place.error("no such file", "correct the path (a manifest's `file` is relative to the manifest)")
        names, columns, rows = _READERS[form](path, place)
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start) + 1
        raise place.at(row=row).error(f"not UTF-8 text ({error.reason})", "save it as UTF-8") from None
    except (OSError, EOFError) as error:
        raise place.error(f"cannot be read ({error})", f"check that it is a whole {form} file") from None
    names = [name.strip() for name in names]
    cells = {
        name: column
        for name, column in zip(names, columns, strict=True)
        if name and not name.startswith("__index_level_")
    }
    for name, count in Counter(names).items():
        if count > 1 and name in cells:
            raise place.at(column=name).error(f"{count} columns have this name", "give each column its own")
    return TableFile(str(path), rows, cells)


_Parts = tuple[list[str], list[list[Any]], list[int]]


def _read_csv(path: Path, place: Place, compression: str | None = None) -> _Parts:
    import pyarrow as pa
    from pyarrow import csv

    unequal: list[Any] = []

    def note(row: Any) -> str:
        unequal.append(row)
        return "skip"

    with pa.input_stream(str(path), compression=compression) as stream:
        content = stream.read()
    content.decode()
    try:
        table = csv.read_csv(
            pa.BufferReader(content),
            read_options=csv.ReadOptions(autogenerate_column_names=True, use_threads=False),
            parse_options=csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=note),
            convert_options=csv.ConvertOptions(column_types={f"f{i}": pa.string() for i in range(_MOST_COLUMNS)}),
        )
    except pa.ArrowInvalid as error:
        raise place.error(f"not a csv ({error})", "write a header, then rows of cells with commas between") from None
    if unequal:
        row = unequal[0]
        raise place.at(row=row.number).error(
            f"{row.actual_columns} cells where the header has {row.expected_columns} ({shown(row.text)})",
            "give each row as many cells as the header has",
        )
    columns = [column.to_pylist() for column in table.columns]
    names = [column.pop(0) for column in columns]
    filled = [i for i, row in enumerate(zip(*columns, strict=True)) if any(row)]
    return names, [[column[i] for i in filled] for column in columns], [i + 2 for i in filled]


def _read_csv_gz(path: Path, place: Place) -> _Parts:
    return _read_csv(path, place, compression="gzip")


def _read_jsonl(path: Path, place: Place) -> _Parts:
    records: list[dict[str, Any]] = []
    rows: list[int] = []
    for number, line in enumerate(path.read_bytes().decode("utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise place.at(row=number).error(f"not JSON ({error})", "write one JSON object a line") from None
        if not isinstance(record, dict):
            raise place.at(row=number).error(f"{shown(record)} is no object", "write one JSON object a line")
        records.append(record)
        rows.append(number)
    names = list(dict.fromkeys(name for record in records for name in record))
    return names, [[record.get(name) for record in records] for name in names], rows


def _read_parquet(path: Path, place: Place) -> _Parts:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
        columns = [column.to_pylist() for column in table.columns]
    except pa.ArrowException as error:
        raise place.error(f"not a parquet file ({error})", "write it again") from None
    except (OverflowError, ValueError) as error:
        raise place.error(f"a cell cannot be read ({error})", "write steps, LRs and losses as numbers") from None
    return table.column_names, columns, list(range(1, table.num_rows + 1))


_READERS = {"csv": _read_csv, "csv.gz": _read_csv_gz, "jsonl": _read_jsonl, "parquet": _read_parquet}
