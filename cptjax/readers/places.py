"""Where a fault sits in the user's files, and how it is told: one line with the place, what is wrong and the cure.

>>> str(Place("curves.csv", run="a", row=7, column="loss"))
"curves.csv: run 'a', row 7, column 'loss'"
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cptjax.errors import InputError

__all__ = ["Place", "listed", "meant", "nearest", "shown"]

_LONGEST = 60


@dataclass(frozen=True)
class Place:
    """A spot in a file, as the user would look for it.

    Args:
        file: path as the user gave it.
        run: id of the run, or its number in the manifest while the id is not known.
        phase: number of the phase in its run, from 1.
        row: row of a table as an editor counts it, from 1 with the header.
        column: name of a table's column.
    """

    file: str
    run: str | int | None = None
    phase: int | None = None
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        parts = {"run": self.run, "phase": self.phase, "row": self.row, "column": self.column}
        inside = ", ".join(f"{name} {part!r}" for name, part in parts.items() if part is not None)
        return f"{self.file}: {inside}" if inside else self.file

    def at(self, *, row: int | None = None, column: str | None = None) -> "Place":
        """The same place, narrowed down to a row, a column or both."""
        return replace(self, row=row, column=column)

    def error(self, wrong: str, cure: str = "") -> InputError:
        """The error to raise; always one line, whatever the parts contain."""
        text = f"{self}: {wrong}: {cure}" if cure else f"{self}: {wrong}"
        return InputError(" ".join(text.splitlines()))


def shown(value: object) -> str:
    """``repr`` of a value from the user's file, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def listed(names: Iterable[object], limit: int = 8) -> str:
    """Names in quotes, the first ``limit`` of them.

    >>> listed("abc", limit=2)
    "'a', 'b', ... (3 in all)"
    """
    names = list(names)
    text = ", ".join(shown(name) for name in names[:limit])
    return f"{text}, ... ({len(names)} in all)" if len(names) > limit else text or "none"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Which of the ``known`` names was probably meant, whatever its case.

    >>> nearest("Peek", ["peak", "end"])
    'peak'
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def meant(name: str, known: Iterable[str], what: str) -> str:
    """The cure for a name that is not among the ``known``: the one that was probably meant, or all of them."""
    known = list(known)
    close = nearest(name, known)
    return f"{what} are {listed(known, limit=16)}" if close is None else f"did you mean {close!r}?"
