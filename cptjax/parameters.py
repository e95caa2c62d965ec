"""Parameters of laws and kernels: what they are called, where they may lie, and where a search for them starts.

A law says these things once, next to its formula; the solver, the identifiability report and the tables read them.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Parameter", "Support", "Unit"]

Unit = Literal["", "forward", "1/forward", "forward_cpt", "1/forward_cpt"]
Support = Literal["positive", "negative", "real", "memory"]


@dataclass(frozen=True)
class Parameter:
    """One scalar parameter.

    Args:
        name: its name in the formula and in every table.
        support: ``positive`` (zero allowed if linear), ``negative``, ``real``, or ``memory`` for a decay in [0, 1)
            whose natural scale is the logarithm of its memory 1/(1 − decay).
        linear: whether the loss is linear in it, all other parameters given.
        search: range in which a search starts (non-linear parameters).
        bounds: hard limits, in the same units as ``search``.
        unit: what ``search`` and ``bounds`` are measured in: ``""`` for plain numbers, or a scale of the data the law
            is fitted on, the largest forward area (``"forward"``), that of a continual phase (``"forward_cpt"``) or the
            inverse of either.
        meaning: a few words for tables and reports.
    """

    name: str
    support: Support = "positive"
    linear: bool = False
    search: tuple[float, float] = (0.1, 1.0)
    bounds: tuple[float, float] = (0.0, float("inf"))
    unit: Unit = ""
    meaning: str = ""
