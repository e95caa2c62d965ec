"""Runs without a manifest: a single table file is one pre-training run under the schedule it logged."""

from pathlib import Path

from cptjax.readers.manifest import read_manifest
from cptjax.readers.observations import Observations
from cptjax.readers.places import Place
from cptjax.readers.tables import read_table, table_format
from cptjax.runs import Run, Runs
from cptjax.schedules import Phase

__all__ = ["read_runs"]


def read_runs(path: str | Path) -> Runs:
    """Read a manifest (``.toml``) or a plain table file.

    A plain file needs the columns ``step``, ``lr`` (or ``learning_rate``) and at least one loss. It is one ``pt`` run
    for fitting, named after the file, that ends at its last observation.

    Args:
        path: the manifest, or a csv, csv.gz, jsonl or parquet file.

    Raises:
        InputError: the file cannot be read or something in it will not do; one line that names the place.
    """
    path = Path(path)
    if path.suffix.lower() == ".toml" or path.is_dir():
        return read_manifest(path)
    place = Place(str(path))
    seen = Observations(read_table(path, place), place)
    logged = seen.logged()
    steps, losses = seen.curves()
    if steps[-1] == 0:
        raise place.error("step 0 is the only one observed", "log a later one")
    name = path.name[: -len(f".{table_format(path)}")]
    return Runs((Run(name, (Phase(logged.schedule(int(steps[-1]))),), steps, losses, source=str(path)),), name)
