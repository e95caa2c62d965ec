"""A planned run: phases and their schedules, with nothing observed yet. What a prediction is asked for.

::

    name = "cosine, a third replayed"    # optional; the file's name by default
    model_size = 0.1                     # optional
    [[phase]]                            # as under [[run.phase]] of a manifest
    name = "pt"
    steps = 5000
    schedule = { kind = "constant", peak = 3e-3, warmup = 100 }
    [[phase]]
    name = "cpt"
    steps = 2000
    replay_ratio = 0.33
    schedule = { kind = "cosine", peak = 3e-3, end = 0.0 }

or a table with the columns ``step`` and ``lr``, which is one phase that ends at its last row.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from cptjax.readers.fields import Fields
from cptjax.readers.manifest import load_toml
from cptjax.readers.observations import Observations
from cptjax.readers.phases import phase_from_dict
from cptjax.readers.places import Place
from cptjax.readers.tables import read_table, table_format
from cptjax.runs import Run
from cptjax.schedules import Phase

__all__ = ["read_planned"]

_NOTHING = np.empty(0, dtype=int)


def read_planned(path: str | Path, table_is: Literal["pt", "cpt"] = "pt") -> Run:
    """Read a planned run from TOML or from a table of LRs.

    Args:
        path: a ``.toml`` file, or a csv, csv.gz, jsonl or parquet file.
        table_is: the kind of phase that a table describes.

    Returns:
        A run without observations.

    Raises:
        InputError: the file cannot be read or something in it will not do; one line that names the place.
    """
    path = Path(path)
    place = Place(str(path))
    if path.suffix.lower() == ".toml" or path.is_dir():
        return _from_toml(path, place)
    lr = Observations(read_table(path, place), place, needs_loss=False).logged()
    if not lr.steps.size or lr.steps[-1] < 1:
        raise place.error("no row after step 0 shows a LR", "give the LR up to the last step")
    name = path.name[: -len(f".{table_format(path)}")]
    return Run(name, (Phase(lr.schedule(int(lr.steps[-1])), table_is),), _NOTHING, {}, source=str(path))


def _from_toml(path: Path, place: Place) -> Run:
    fields = Fields(load_toml(path, place), place, "the file")
    fields.check_known(("name", "model_size", "phase"))
    phases: list[Phase] = []
    for number, data in enumerate(fields.tables("phase", "phase"), start=1):
        phase = phase_from_dict(data, place=replace(place, phase=number))
        if phase.name == "pt" and phases and phases[-1].name == "cpt":
            raise replace(place, phase=number).error("a pt phase after a cpt phase", "put the pt phases first")
        phases.append(phase)
    name = fields.text("name", default=path.stem)
    size = fields.positive("model_size", default=None)
    return Run(name, tuple(phases), _NOTHING, {}, model_size=size, source=str(path))
