"""Curves that ship with the package: real continual pre-training of tiny models, trained by ourselves.

``tiny-cpt`` holds 96 runs of byte-level transformers of 0.1 to 0.35 M parameters, pre-trained on English dictionaries
and moved to Python code (a strong shift) or to a dictionary of computing (a weak one), under many schedules, replay
ratios, base models and transfer points. How they were made, on what text, and what they are no good for is told in
``cptjax/data/tiny_cpt/DATA_CARD.md``.
"""

from pathlib import Path

from cptjax.errors import InputError
from cptjax.readers import read_manifest
from cptjax.runs import Runs

__all__ = ["dataset_manifest", "dataset_names", "load_dataset"]

FOLDER = Path(__file__).parent / "data"
WHOLE = "runs"


def dataset_names() -> list[str]:
    """Every name :func:`load_dataset` knows: a data set, or a part of one after a slash."""
    names = []
    for path in sorted(FOLDER.glob("*/*.toml")):
        name = path.parent.name.replace("_", "-")
        names.append(name if path.stem == WHOLE else f"{name}/{path.stem}")
    return sorted(names)


def dataset_manifest(name: str) -> Path:
    """Where the manifest of a data set lies; arguments and errors as :func:`load_dataset`."""
    if name not in dataset_names():
        raise InputError(f"no data set is called {name!r}: there are {', '.join(dataset_names())}")
    whole, _, part = name.partition("/")
    return FOLDER / whole.replace("-", "_") / f"{part or WHOLE}.toml"


def load_dataset(name: str) -> Runs:
    """Read a data set that ships with the package.

    Args:
        name: ``"tiny-cpt"`` for all runs, or a part that one law describes: ``"tiny-cpt/code"``, ``"tiny-cpt/foldoc"``
            (fits), ``"tiny-cpt/scratch"`` (trained on the new data from the start), ``"tiny-cpt/sizes"`` (two model
            sizes), ``"tiny-cpt/variants"`` (other seeds and batch sizes).

    Raises:
        InputError: there is no such data set.

    >>> load_dataset("tiny-cpt/code").test["code_cosine"].transfer_step
    3000
    """
    return read_manifest(dataset_manifest(name))
