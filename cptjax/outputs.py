"""Files a command writes: all refused before the work if one is there already, and each written whole or not at all."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cptjax.errors import InputError
from cptjax.fitting import FitResult
from cptjax.runs import Run

__all__ = ["claim", "write_fit", "write_plot", "written"]


def claim(folder: str | Path, names: Sequence[str], force: bool = False) -> list[Path]:
    """The paths of files to be written into ``folder``. Nothing is made yet: :func:`written` makes what is missing.

    Args:
        folder: where to write.
        names: what to write there.
        force: whether files that are there may be replaced.

    Raises:
        InputError: a file is there and ``force`` is not set, or the folder is none or cannot be written to.
    """
    try:
        return _claim(Path(folder), names, force)
    except OSError as fault:
        raise InputError(f"{folder}: cannot be written to ({fault.strerror}); choose another --out") from None


def _claim(folder: Path, names: Sequence[str], force: bool) -> list[Path]:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"{there}: is a file, not a folder; choose another --out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there}: cannot be written to; choose another --out")
    paths = [folder / name for name in names]
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path}: a folder is in the way; choose another --out")
        if path.exists() and not force:
            raise InputError(f"{path}: exists already; replace it with --force, or choose another --out")
    return paths


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to, moved over ``path`` when the block ends well and removed when it does not.

    Raises:
        InputError: the disk refuses.
    """
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        beside.replace(path)
    except OSError as fault:
        raise InputError(f"{path}: cannot be written ({fault.strerror}); choose another --out") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_fit(path: Path, result: FitResult) -> None:
    """Write a ``fit.json``."""
    with written(path) as beside:
        beside.write_text(json.dumps(result.to_json(), indent=2) + "\n")


def write_plot(path: Path, result: FitResult, runs: Sequence[Run]) -> None:
    """Write the picture of a fit or a prediction."""
    from cptjax.plots import plot_fit, save  # Matplotlib is slow to load, and a wrong command should not wait for it

    with written(path) as beside:
        save(plot_fit(result, runs), beside)
