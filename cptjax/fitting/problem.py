r"""A fit as a vector problem: which numbers are free, in which coordinates, and what the residuals are.

The solver works on one vector ``u``. Parameters that enter linearly appear as they are; positive non-linear ones as
logarithms; a decay as the logarithm of its memory, :math:`-\log(1-\lambda)`. With several validation sets each set has
its own copy of every parameter, except those declared shared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cptjax.areas import History
from cptjax.errors import InputError
from cptjax.laws import Law
from cptjax.namespace import AnyArray
from cptjax.parameters import Parameter
from cptjax.runs import Run
from cptjax.shapes import filled

__all__ = ["Data", "Observations", "Problem", "Slot", "observe", "recorded"]

SIGNS = {"positive": (0.0, np.inf), "negative": (-np.inf, 0.0)}


@dataclass(frozen=True)
class Observations:
    """Losses of one validation set over several runs, in one list (host arrays)."""

    runs: tuple[Run, ...]
    run: Int[np.ndarray, " n"]
    step: Int[np.ndarray, " n"]
    loss: Float[np.ndarray, " n"]

    def thinned(self, count: int) -> "Observations":
        """About ``count`` of the observations, evenly spread over each run, ends kept."""
        if self.run.size <= count:
            return self
        share = count / self.run.size
        keep = []
        for i in range(len(self.runs)):
            own = np.flatnonzero(self.run == i)
            size = max(min(own.size, 3), round(own.size * share))
            keep.append(own[np.unique(np.linspace(0, own.size - 1, size).round().astype(int))] if own.size else own)
        index = np.concatenate(keep)
        return Observations(self.runs, self.run[index], self.step[index], self.loss[index])

    def filled(self) -> "Observations":
        """The same observations with the last one repeated, up to a rounded count (see :mod:`cptjax.shapes`)."""
        return Observations(self.runs, filled(self.run), filled(self.step), filled(self.loss))

    def history(self, law: Law) -> History:
        """The parameter-free part of the law's predictions for these observations."""
        phases = [run.phases for run in self.runs]
        return law.record(phases, self.run, self.step, [run.model_size for run in self.runs])


def observe(law: Law, runs: Sequence[Run], loss: str) -> Observations:
    """Collect what the law can be fitted on.

    Raises:
        InputError: no run, a run the law cannot describe, or no usable observation of ``loss``.
    """
    kept, index, steps, values = [], [], [], []
    for run in runs:
        law.check(run)
        step, value = run.observed(loss)
        usable = law.usable(run, step)
        if not np.any(usable):
            continue
        index.append(np.full(int(usable.sum()), len(kept)))
        steps.append(step[usable])
        values.append(value[usable])
        kept.append(run)
    if not kept:
        known = sorted({name for run in runs for name in run.losses})
        there = f"the runs have {', '.join(known)}" if known else "there are no runs to fit"
        raise InputError(f"no observation of {loss!r} to fit: {there}")
    return Observations(tuple(kept), np.concatenate(index), np.concatenate(steps), np.concatenate(values))


class Data(eqx.Module):
    """What the residuals need, set after set; the counts are rounded up, and what fills the gaps weighs nothing."""

    history: tuple[History, ...]
    log_loss: Float[AnyArray, " n"]
    weight: Float[AnyArray, " n"]

    @staticmethod
    def of(laws: Sequence[Law], observations: Sequence[Observations]) -> "Data":
        """The data of each law's observations."""
        whole = [each.filled() for each in observations]
        histories = tuple(o.history(law).tabulated(law.kernel) for law, o in zip(laws, whole, strict=True))
        weights = [np.arange(f.loss.size) < o.loss.size for f, o in zip(whole, observations, strict=True)]
        return Data(histories, np.log(np.concatenate([o.loss for o in whole])), np.concatenate(weights).astype(float))

    @property
    def real(self) -> Int[np.ndarray, " n"]:
        """Where the observations stand among what fills the gaps."""
        return np.flatnonzero(np.asarray(self.weight))


@dataclass(frozen=True)
class Slot:
    """One coordinate of ``u``: a parameter and the sets that use it."""

    parameter: Parameter
    sets: tuple[int, ...]

    @property
    def logarithmic(self) -> bool:
        """Whether the coordinate is a logarithm (of the value, or of a decay's memory)."""
        return self.parameter.support != "real" and not self.parameter.linear

    def inward(self, value: float) -> float:
        """The coordinate of a parameter value."""
        if self.parameter.support == "memory":
            return -float(np.log1p(-value))
        with np.errstate(divide="ignore"):
            return float(np.log(value)) if self.logarithmic else float(value)

    def outward(self, u: Any) -> Any:
        """The parameter value at a coordinate."""
        if self.parameter.support == "memory":
            return -jnp.expm1(-u)
        return jnp.exp(u) if self.logarithmic else u

    def slope(self, u: float) -> float:
        """Derivative of the value with respect to the coordinate."""
        if self.parameter.support == "memory":
            return float(np.exp(-u))
        return float(np.exp(u)) if self.logarithmic else 1.0


class Problem(eqx.Module):
    """The free coordinates of one or several laws fitted together.

    Args:
        laws: one law for each validation set; their numbers are arrays, so that other numbers need no new compilation.
        slots: what the coordinates of ``u`` stand for.
        fixed: for each set, values of parameters that are not fitted.
        lower, upper: the box of the coordinates.
        search: ranges in which a search starts.
    """

    laws: tuple[Law, ...]
    slots: tuple[Slot, ...] = eqx.field(static=True)
    fixed: tuple[dict[str, AnyArray], ...]
    lower: Float[AnyArray, " p"]
    upper: Float[AnyArray, " p"]
    search: Float[AnyArray, "p 2"]

    @staticmethod
    def build(
        laws: Sequence[Law],
        scales: Mapping[str, float],
        fixed: Mapping[str, float],
        bounds: Mapping[str, tuple[float, float]],
        shared: Sequence[str] = (),
    ) -> "Problem":
        """Lay out the coordinates; ``scales`` are the largest forward areas, see :class:`~cptjax.parameters.Parameter`.

        Raises:
            InputError: a name the laws do not know, bounds that leave nothing, or nothing left to fit.
        """
        known = {p.name for law in laws for p in law.parameters}
        if unknown := [name for name in (*fixed, *bounds, *shared) if name not in known]:
            raise InputError(f"the law has no parameter {unknown[0]!r}: it has {', '.join(sorted(known))}")
        _check_fixed(laws, fixed)
        slots: list[Slot] = []
        for index, law in enumerate(laws):
            for parameter in law.parameters:
                at = next((i for i, slot in enumerate(slots) if slot.parameter.name == parameter.name), None)
                if parameter.name in shared and at is not None:
                    slots[at] = Slot(parameter, (*slots[at].sets, index))
                elif parameter.name not in fixed:
                    slots.append(Slot(parameter, (index,)))
        if not slots:
            raise InputError("every parameter is fixed: there is nothing to fit")
        boxes = np.array([_box(slot, scales, bounds.get(slot.parameter.name)) for slot in slots])
        held = [{p.name: np.asarray(float(fixed[p.name])) for p in law.parameters if p.name in fixed} for law in laws]
        leaves = jax.tree.map(np.asarray, tuple(map(recorded, laws)))
        return Problem(leaves, tuple(slots), tuple(held), boxes[:, 0], boxes[:, 1], boxes[:, 2:])

    @property
    def inner(self) -> tuple[int, ...]:
        """Coordinates on which the annealing areas depend."""
        return tuple(
            i for i, slot in enumerate(self.slots) if slot.parameter.name in self.laws[slot.sets[0]].kernel_names
        )

    @property
    def linear(self) -> tuple[int, ...]:
        """Coordinates in which every prediction is linear, the others given."""
        return tuple(i for i, slot in enumerate(self.slots) if slot.parameter.linear)

    def params(self, u: Float[AnyArray, " p"], index: int = 0) -> dict[str, Any]:
        """Parameters of set ``index`` at ``u``."""
        free = {s.parameter.name: s.outward(u[i]) for i, s in enumerate(self.slots) if index in s.sets}
        return {**self.fixed[index], **free}

    def predictions(self, u: Float[AnyArray, " p"], data: Data) -> Float[Array, " n"]:
        """Predicted losses of all observations, set after set."""
        each = [law.evaluate(self.params(u, i), data.history[i]) for i, law in enumerate(self.laws)]
        return each[0] if len(each) == 1 else jnp.concatenate(each)

    def residuals(self, u: Float[AnyArray, " p"], data: Data) -> Float[Array, " n"]:
        r"""Residuals :math:`\log y - \log \hat y`; NaN where a prediction is not positive."""
        return (data.log_loss - jnp.log(self.predictions(u, data))) * data.weight


def recorded(law: Law) -> Law:
    """The law once its histories are recorded: how the warm-up counted is no part of it any more.

    Laws that differ in nothing else share compiled code.
    """
    return eqx.tree_at(lambda each: each.kernel, law, replace(law.kernel, warmup="flat"))


def _check_fixed(laws: Sequence[Law], fixed: Mapping[str, float]) -> None:
    """A fixed value must be finite and of the parameter's sign."""
    for parameter in {p.name: p for law in laws for p in law.parameters}.values():
        if parameter.name not in fixed:
            continue
        low, high = (
            (0.0, np.nextafter(1, 0))
            if parameter.support == "memory"
            else SIGNS.get(parameter.support, (-np.inf, np.inf))
        )
        value = float(fixed[parameter.name])
        if not (np.isfinite(value) and low <= value <= high):
            raise InputError(f"{parameter.name!r} cannot be fixed at {value:g}: it must lie in [{low:g}, {high:g}]")


def _box(slot: Slot, scales: Mapping[str, float], user: tuple[float, float] | None) -> tuple[float, ...]:
    """Lower bound, upper bound and search range of a coordinate."""
    parameter, scale = slot.parameter, 1.0
    if parameter.unit:
        size = scales[parameter.unit.removeprefix("1/")]
        scale = 1 / size if parameter.unit.startswith("1/") else size
    low, high = (x * scale for x in parameter.bounds)
    if parameter.linear:
        low, high = SIGNS.get(parameter.support, (-np.inf, np.inf))
    if user is not None:
        if not user[0] <= user[1] or user[0] > high or user[1] < low:
            raise InputError(
                f"the bounds {user} of {parameter.name!r} leave nothing: it must lie in [{low:g}, {high:g}]"
            )
        low, high = max(low, user[0]), min(high, user[1])
    search = (min(max(x * scale, low), high) for x in parameter.search)
    return tuple(slot.inward(x) for x in (low, high, *search))
