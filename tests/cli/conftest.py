"""What the tests of the command line share: a way to call it and small curves."""

import json
from dataclasses import dataclass

import pytest

from cptjax.cli import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys):
    """Run ``cptjax`` with some words; the exit code and what was said."""

    def run(*words) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return Said(left.value.code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A folder in which ``cptjax demo`` ran."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.raises(SystemExit) as left:
        main(["demo", "--out", str(folder), "--quiet"])
    assert left.value.code == 0
    return folder


@pytest.fixture
def read():
    return lambda path: json.loads(path.read_text())
