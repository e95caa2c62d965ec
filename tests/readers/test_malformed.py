import re
from pathlib import Path

import pytest

from cptjax.errors import InputError
from cptjax.readers import read_manifest, read_runs

from .malformed import MALFORMED, Case, message, write


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.id.replace(" ", "_"))
def test_one_line_says_where_what_and_how(case: Case, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        read_runs(write(case, tmp_path))
    said = str(caught.value)
    assert re.fullmatch(message(case, tmp_path), said), said
    assert "\n" not in said


def test_cases_are_many_and_distinct():
    assert len({case.id for case in MALFORMED}) == len(MALFORMED) >= 35


def test_manifest_at_a_folder(tmp_path: Path):
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}: cannot be read (Is a directory): give a TOML file")):
        read_manifest(tmp_path)


def test_faults_of_the_manifest_come_before_those_of_its_tables(tmp_path: Path):
    (tmp_path / "runs.toml").write_text(
        """
        [[run]]
        id = "a"
        file = "missing.csv"
        phase = [{ name = "pt", steps = 5, schedule = { kind = "constant", peak = 0.1 } }]
        [[run]]
        id = "b"
        file = "missing.csv"
        phase = [{ name = "pt", steps = 5, schedule = { kind = "constant", peek = 0.1 } }]
        """
    )
    with pytest.raises(InputError, match="run 'b', phase 1: unknown key 'peek'"):
        read_manifest(tmp_path / "runs.toml")
