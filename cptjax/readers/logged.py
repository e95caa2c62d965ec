"""Schedules that were logged rather than stated: the LR column of a run's file, linear between its rows.

A log shows the LR every so many steps. Between two rows the LR runs straight from one to the other; before the first
row and after the last it holds. Each phase looks at its own rows only, so that a jump of the LR between phases stays
a jump instead of turning into a ramp from the last row of one phase to the first of the next.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from cptjax.readers.places import Place
from cptjax.schedules import Table, find_warmup, from_array

__all__ = ["LoggedLR", "RowsOfPhase"]


@dataclass(frozen=True)
class LoggedLR:
    """The rows of a run's file that show a LR.

    Args:
        steps: their steps, strictly increasing, counted from the start of the phase (or of the run).
        rates: the LR at each of them.
        place: where they were read, for messages.
        opens_run: the steps count from the start of the run.
    """

    steps: Int[np.ndarray, " rows"]
    rates: Float[np.ndarray, " rows"]
    place: Place
    opens_run: bool = True

    def of_phase(self, start: int, end: int | None, place: Place) -> "LoggedLR":
        """The rows of the phase that runs from step ``start`` to ``end``; all the rest for the last (``None``)."""
        inside = (self.steps >= start) & (self.steps <= (np.inf if end is None else end))
        return LoggedLR(self.steps[inside] - start, self.rates[inside], place, opens_run=start == 0)

    def schedule(self, steps: int, warmup: int | None = None, warmup_from: float | None = None) -> Table:
        """The LR of each step of a phase.

        Args:
            steps: length of the phase.
            warmup: steps of warm-up. By default, in the first phase, the opening strict rise of the rows; in a later
                one none. A later phase with a warm-up rises from the row at its start, which it else leaves to the
                phase before.
            warmup_from: LR before the first step, where that is not the last LR of the phase before.

        Raises:
            InputError: no row shows a LR in this phase.
        """
        own = self.steps >= (0 if self.opens_run or warmup else 1)
        at, lr = self.steps[own], self.rates[own]
        if not at.size:
            raise self.place.error("no row of this phase shows a LR", "log it, or state the phase's schedule")
        if warmup is None:
            rise = find_warmup(lr) if self.opens_run else 0
            warmup = min(int(at[rise - 1]), steps) if rise else 0
        rates = np.interp(np.arange(1, steps + 1), at, lr)
        table = from_array(rates, warmup=warmup)
        return table if warmup_from is None else replace(table, warmup_from=jnp.asarray(warmup_from, dtype=float))


RowsOfPhase = Callable[[int], LoggedLR]
"""Given the length of a phase, its rows; called only for a ``logged`` schedule, so that others need no LR column."""
