"""Training runs: what was done (phases with their schedules) and what was seen (losses at some steps).

A run counts its steps from the start of its first phase; step 0 is before the first update. Pre-training phases
come first, continual ones after them; the step where the first continual phase starts is the *transfer step*.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, overload

import numpy as np
from jaxtyping import Float, Int

from cptjax.errors import InputError
from cptjax.namespace import on_host
from cptjax.schedules import Joined, Phase

__all__ = ["Run", "Runs"]


@dataclass(frozen=True, eq=False)
class Run:
    """One training run and its loss curves.

    Args:
        id: name of the run, unique among its fellows.
        phases: stages in order: ``pt`` phases, then ``cpt`` phases.
        steps: observed optimiser steps, strictly increasing, in ``[0, total_steps]``.
        losses: for each validation set, the loss in nats per token at every one of ``steps``; NaN where not observed.
        split: ``"fit"`` for curves a law may be fitted on, ``"test"`` for those held out.
        model_size: millions of non-embedding parameters, if known.
        source: where the run was read from, for messages.

    Raises:
        InputError: phases out of order, steps that do not increase or lie outside the run, losses that are not
            positive, or an unknown split.
    """

    id: str
    phases: tuple[Phase, ...]
    steps: Int[np.ndarray, " n"]
    losses: Mapping[str, Float[np.ndarray, " n"]]
    split: Literal["fit", "test"] = "fit"
    model_size: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        where = f"run {self.id!r}"
        names = [phase.name for phase in self.phases]
        if not names:
            raise InputError(f"{where} has no phase: give it at least one")
        if names != sorted(names, reverse=True):
            raise InputError(f"{where}: a pt phase comes after a cpt phase; put the pt phases first")
        if self.split not in ("fit", "test"):
            raise InputError(f"{where}: split must be 'fit' or 'test', got {self.split!r}")
        object.__setattr__(self, "phases", tuple(self.phases))
        object.__setattr__(self, "steps", np.asarray(self.steps, dtype=np.int64))
        object.__setattr__(self, "losses", {k: np.asarray(v, dtype=float) for k, v in self.losses.items()})
        if self.model_size is not None and not 0 < self.model_size < np.inf:
            raise InputError(f"{where}: model_size must be positive and finite, got {self.model_size:g}")
        if np.any(np.diff(self.steps) <= 0):
            raise InputError(f"{where}: observed steps must increase")
        if self.steps.size and not (self.steps[0] >= 0 and self.steps[-1] <= self.total_steps):
            raise InputError(f"{where}: observed steps must lie in [0, {self.total_steps}], the length of its phases")
        for name, loss in self.losses.items():
            if loss.shape != self.steps.shape:
                raise InputError(f"{where}: {name} has {loss.size} values for {self.steps.size} steps")
            if np.any(np.isinf(loss)) or np.any(loss <= 0):
                raise InputError(f"{where}: {name} must be positive and finite (leave out what was not observed)")

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all phases together."""
        return sum(phase.schedule.steps for phase in self.phases)

    @property
    def transfer_step(self) -> int | None:
        """Last step of pre-training when continual pre-training follows, else ``None``."""
        if self.phases[-1].name == "pt":
            return None
        return sum(phase.schedule.steps for phase in self.phases if phase.name == "pt")

    @property
    def rates(self) -> Float[np.ndarray, " steps"]:
        """LR of every optimiser step, 1 to the last."""
        whole = Joined([phase.schedule for phase in self.phases])  # pyright: ignore[reportCallIssue]
        return on_host(whole).values()

    @cached_property
    def first_trained_step(self) -> int:
        """The first step with a LR, before which nothing was trained; one past the last if there is none."""
        trained = np.flatnonzero(self.rates)
        return int(trained[0]) + 1 if trained.size else self.total_steps + 1

    def observed(self, loss: str) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Steps and values where ``loss`` was observed (both empty if the run never logs it)."""
        if loss not in self.losses:
            return self.steps[:0], np.empty(0)
        seen = np.isfinite(self.losses[loss])
        return self.steps[seen], self.losses[loss][seen]


@dataclass(frozen=True, eq=False)
class Runs(Sequence[Run]):
    """An ordered collection of runs, with the splits as attributes.

    >>> runs.fit, runs.test, runs["cosine_24000"]  # doctest: +SKIP
    """

    runs: tuple[Run, ...] = field(default=())
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(self.runs))
        seen: set[str] = set()
        for run in self.runs:
            if run.id in seen:
                raise InputError(f"two runs are called {run.id!r}: give each run its own id")
            seen.add(run.id)

    @overload
    def __getitem__(self, index: int | str) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: int | str | slice) -> "Run | Runs":
        if isinstance(index, str):
            for run in self.runs:
                if run.id == index:
                    return run
            raise KeyError(index)
        if isinstance(index, slice):
            return Runs(self.runs[index], self.name)
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def where(self, keep: Callable[[Run], bool]) -> "Runs":
        """The runs for which ``keep(run)`` holds."""
        return Runs(tuple(run for run in self.runs if keep(run)), self.name)

    @property
    def fit(self) -> "Runs":
        """Runs a law may be fitted on."""
        return self.where(lambda run: run.split == "fit")

    @property
    def test(self) -> "Runs":
        """Runs held out."""
        return self.where(lambda run: run.split == "test")

    @property
    def losses(self) -> tuple[str, ...]:
        """Names of every loss that some run observes, in order of appearance."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.losses if run.observed(name)[0].size))
