"""What one run saw: the rows of a table that belong to it, with their steps, LRs and losses checked.

Only the run's own rows are judged: a run that diverged does not keep its neighbours in the same file from being read.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cptjax.readers.fields import MOST_STEPS
from cptjax.readers.logged import LoggedLR
from cptjax.readers.places import Place, listed, shown
from cptjax.readers.tables import TableFile

__all__ = ["Observations"]

_LR_NAMES = ("lr", "learning_rate")


class Observations:
    """The rows of one run in a table file.

    Args:
        table: the file.
        place: where that is, for messages.
        where: the value that each of these columns has in the run's rows (none: every row is the run's).
        not_losses: columns that pick rows, for this run or for another in the file.
        needs_loss: whether a run without any loss is an error.

    Raises:
        InputError: no row or no such column, a cell that will not do, steps that do not increase, or no loss at all.
    """

    def __init__(
        self,
        table: TableFile,
        place: Place,
        where: Mapping[str, Any] | None = None,
        not_losses: Collection[str] = (),
        needs_loss: bool = True,
    ) -> None:
        self.table = table
        self.place = place
        self.not_losses = {"step", *_LR_NAMES, *not_losses}
        self.picked = _pick(table, place, where or {})
        if not self.picked.size:
            raise place.error("the file has no rows", "log at least one observation")
        table.check_has("step", place)
        self.row_steps = self._read_steps()
        self.lr = self._read_lr()
        self.row_losses = self._read_losses()
        if needs_loss and not self.row_losses:
            others = listed(name for name in self.table.cells if name not in self.not_losses)
            cure = f"log numbers in a column besides step and LR (there are {others})"
            raise self.place.error("the run is empty, no loss is observed", cure)

    def _row(self, i: int | np.integer, column: str) -> Place:
        """The place of the cell in the run's ``i``-th row."""
        return self.place.at(row=self.table.rows[self.picked[i]], column=column)

    def _numbers(self, name: str) -> Float[np.ndarray, " rows"]:
        column = self.table.numbers(name)
        for i in np.flatnonzero(column.bad[self.picked])[:1]:
            cell = self.table.cells[name][self.picked[i]]
            raise self._row(i, name).error(f"{shown(cell)} is no number", "correct it, or leave the cell empty")
        return column.values[self.picked]

    def _read_steps(self) -> Int[np.ndarray, " rows"]:
        """The step of each row, strictly increasing."""
        steps = self._numbers("step")
        whole = (steps >= 0) & (steps <= MOST_STEPS) & (steps == np.floor(steps))
        for i in np.flatnonzero(~whole)[:1]:
            wrong = "there is no step" if np.isnan(steps[i]) else f"step {steps[i]:.16g}"
            raise self._row(i, "step").error(wrong, f"give a whole number from 0 to {MOST_STEPS}")
        for i in np.flatnonzero(np.diff(steps) <= 0)[:1] + 1:
            raise self._row(i, "step").error(
                f"step {steps[i]:.0f} comes after step {steps[i - 1]:.0f}",
                "sort the rows by step, with one row a step (or pick the rows of one run: `where`)",
            )
        return steps.astype(np.int64)

    def _read_lr(self) -> LoggedLR | None:
        """The rows that show a LR; ``None`` if the file has no LR column."""
        names = [name for name in _LR_NAMES if name in self.table.cells]
        if len(names) > 1:
            raise self.place.error(f"two LR columns, {listed(names)}", "keep one")
        if not names:
            return None
        rates = self._numbers(names[0])
        for i in np.flatnonzero(np.isinf(rates) | (rates < 0))[:1]:
            raise self._row(i, names[0]).error(f"LR {rates[i]:g}", "give a finite number >= 0, or leave the cell empty")
        shown_rows = ~np.isnan(rates)
        return LoggedLR(self.row_steps[shown_rows], rates[shown_rows], self.place)

    def logged(self) -> LoggedLR:
        """The rows that show a LR.

        Raises:
            InputError: the file has no LR column.
        """
        if self.lr is None:
            there = f"its columns are {listed(self.table.cells)}"
            raise self.place.error("there is no LR column", f"name it 'lr' or 'learning_rate': {there}")
        return self.lr

    def _read_losses(self) -> dict[str, Float[np.ndarray, " rows"]]:
        """Every loss that some row observes, at all the rows; NaN where it was not observed."""
        losses: dict[str, Float[np.ndarray, " rows"]] = {}
        for name in self.table.cells:
            if name in self.not_losses or not self.table.numbers(name).is_numeric:
                continue
            values = self._numbers(name)
            for i in np.flatnonzero(np.isinf(values) | (values <= 0))[:1]:
                raise self._row(i, name).error(
                    f"{values[i]:g} is no loss, which is finite and > 0",
                    "leave the cell empty if it was not observed, or drop the column if it is no loss",
                )
            if not np.all(np.isnan(values)):
                losses[name] = values
        return losses

    def curves(
        self, total_steps: int | None = None
    ) -> tuple[Int[np.ndarray, " n"], dict[str, Float[np.ndarray, " n"]]]:
        """The steps at which some loss was observed, and the losses there.

        Args:
            total_steps: length of the run, past which there is nothing to observe.

        Raises:
            InputError: an observation past the end.
        """
        seen = ~np.all(np.isnan(list(self.row_losses.values())), axis=0)
        late = seen & (self.row_steps > (np.inf if total_steps is None else total_steps))
        for i in np.flatnonzero(late)[:1]:
            raise self._row(i, "step").error(
                f"step {self.row_steps[i]} is past the last phase, which ends at step {total_steps}",
                "drop the row, or correct the steps of the phases",
            )
        return self.row_steps[seen], {name: values[seen] for name, values in self.row_losses.items()}


def _pick(table: TableFile, place: Place, where: Mapping[str, Any]) -> Int[np.ndarray, " rows"]:
    """Indices of the rows where each column of ``where`` has its value."""
    keep = np.ones(len(table.rows), dtype=bool)
    for name, value in where.items():
        table.check_has(name, place)
        if isinstance(value, bool):
            same = np.isin(table.texts(name), [str(value), str(value).lower(), str(value).upper()])
        elif isinstance(value, str):
            same = table.texts(name) == value.strip()
        else:
            same = table.numbers(name).values == value
        if not same.any():
            there = listed(dict.fromkeys(table.texts(name)))
            raise place.at(column=name).error(f"no row has {shown(value)}", f"it has {there}")
        keep &= same
    if where and not keep.any():
        raise place.error(f"no row has all of {shown(dict(where))}", "correct `where`")
    return np.flatnonzero(keep)
