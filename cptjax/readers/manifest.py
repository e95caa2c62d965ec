"""The run manifest: a TOML file that says which runs there are, how they were trained and where their curves lie.

::

    name = "tiny-code"
    [[run]]
    id    = "cpt_cos_r20"
    file  = "curves.csv"                 # relative to the manifest; several runs may share a file
    where = { run = "cpt_cos_r20" }      # picks the rows of this run, optional
    split = "fit"                        # or "test", which is held out; fit by default
    model_size = 0.1                     # millions of non-embedding parameters, optional
      [[run.phase]]                      # pt phases, then cpt phases
      name = "pt"
      steps = 5000
      schedule = { kind = "constant", peak = 3e-3, warmup = 100 }
      [[run.phase]]
      name = "cpt"
      steps = 2000
      replay_ratio = 0.2
      schedule = { kind = "cosine", peak = 3e-3, end = 0.0 }

In the file, ``step`` counts from the start of the run's first phase, ``lr`` (or ``learning_rate``) is the LR, and every
other numeric column is a loss, save those that a ``where`` looks at. :mod:`cptjax.readers.phases` lists the kinds of
schedules.
"""

import tomllib
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from cptjax.readers.fields import Fields
from cptjax.readers.logged import LoggedLR
from cptjax.readers.observations import Observations
from cptjax.readers.phases import phase_from_dict
from cptjax.readers.places import Place
from cptjax.readers.tables import TableFile, read_table
from cptjax.runs import Run, Runs
from cptjax.schedules import Phase

__all__ = ["load_toml", "read_manifest"]


@dataclass(frozen=True)
class _Entry:
    """One ``[[run]]`` table, its own keys checked and its phases as they stand."""

    place: Place
    id: str
    file: Path
    where: dict[str, Any]
    split: Literal["fit", "test"]
    model_size: float | None
    phases: list[Any]


def read_manifest(path: str | Path) -> Runs:
    """Read the runs that a manifest describes, with their curves.

    Args:
        path: the TOML file.

    Returns:
        The runs in the order of the manifest, named after its ``name`` (by default the file's name).

    Raises:
        InputError: anything in the manifest or in the files it names that is unknown, missing, of the wrong type or
            out of range. The message is one line, ``FILE: run, phase, row, column: what is wrong: cure``.
    """
    path = Path(path)
    place = Place(str(path))
    fields = Fields(load_toml(path, place), place, "the manifest")
    fields.check_known(("name", "run"))
    name = fields.text("name", default=path.stem)
    entries = [_entry(data, place, number) for number, data in enumerate(fields.tables("run", "run"), start=1)]

    ids: set[str] = set()
    picking: dict[Path, set[str]] = defaultdict(set)
    for entry in entries:
        if entry.id in ids:
            raise entry.place.error("an earlier run has the same id", "give each run its own")
        ids.add(entry.id)
        picking[entry.file] |= set(entry.where)

    tables: dict[Path, TableFile] = {}
    sources = [_Source(entry, picking[entry.file], tables) for entry in entries]
    phases = [_phases(source) for source in sources]
    return Runs(tuple(map(_run, sources, phases)), name)


def load_toml(path: Path, place: Place) -> dict[str, Any]:
    """The content of a TOML file; an unreadable one is an error at ``place``."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise place.error("no such file", "correct the path") from None
    except UnicodeDecodeError as error:
        raise place.error(f"not UTF-8 text ({error.reason})", "save it as UTF-8") from None
    except OSError as error:
        raise place.error(f"cannot be read ({error.strerror})", "give a TOML file") from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        wrong = str(error).replace("at end of document", f"at line {text.count(chr(10)) + 1}, the end of the file")
        raise place.error(f"not TOML: {wrong}", "correct the line") from None


def _entry(data: object, place: Place, number: int) -> _Entry:
    id = Fields(data, Place(place.file, run=number), "run").text("id")
    fields = Fields(data, Place(place.file, run=id), "run")
    fields.check_known(("id", "file", "where", "split", "model_size", "phase"))
    where = Fields(
        fields.take("where", "a table of columns and values", lambda v: isinstance(v, dict), {}), fields.place, "where"
    )
    for key in where.data:
        where.take(key, "a text, a number, true or false", lambda v: isinstance(v, (str, int, float)))
    return _Entry(
        place=fields.place,
        id=id,
        file=Path(place.file).parent / fields.text("file"),
        where=where.data,
        split="test" if fields.choice("split", ("fit", "test"), default="fit") == "test" else "fit",
        model_size=fields.positive("model_size", default=None),
        phases=fields.tables("phase", "run.phase"),
    )


class _Source:
    """The table behind an entry, read when something in it is asked for, so that faults of the manifest come first."""

    def __init__(self, entry: _Entry, picking: set[str], tables: dict[Path, TableFile]) -> None:
        self.entry = entry
        self.picking = picking
        self.tables = tables
        self.place = Place(str(entry.file), run=entry.id)

    @cached_property
    def observations(self) -> Observations:
        """The rows of the run; a file that several runs share is read once."""
        file = self.entry.file
        if file not in self.tables:
            self.tables[file] = read_table(file, self.place)
        return Observations(self.tables[file], self.place, self.entry.where, self.picking)

    def rows_of_phase(self, start: int, number: int, steps: int) -> LoggedLR:
        """The LR rows of the phase of this ``number`` and length that begins after step ``start``."""
        end = None if number == len(self.entry.phases) else start + steps
        return self.observations.logged().of_phase(start, end, replace(self.place, phase=number))


def _phases(source: _Source) -> tuple[Phase, ...]:
    phases: list[Phase] = []
    for number, data in enumerate(source.entry.phases, start=1):
        start = sum(phase.schedule.steps for phase in phases)
        place = replace(source.entry.place, phase=number)
        phase = phase_from_dict(data, place=place, rows=partial(source.rows_of_phase, start, number))
        if phase.name == "pt" and phases and phases[-1].name == "cpt":
            raise place.error("a pt phase after a cpt phase", "put the pt phases first")
        phases.append(phase)
    return tuple(phases)


def _run(source: _Source, phases: tuple[Phase, ...]) -> Run:
    entry = source.entry
    steps, losses = source.observations.curves(sum(phase.schedule.steps for phase in phases))
    return Run(entry.id, phases, steps, losses, entry.split, entry.model_size, str(entry.file))
