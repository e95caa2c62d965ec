"""Learning-rate schedules as pytrees.

A schedule gives the learning rate (LR) :math:`\\eta(t)` of the optimiser's step :math:`t = 1 \\dots n`, counted
from the start of its phase. What is a *rate* (peak, end, the values of knots) is a leaf of the pytree, so that
gradients flow into it; what is a *count of steps* is static, so that a schedule can be a jit argument. Step 0
stands for "before the first update", and steps past the last hold the last LR.

Every schedule may open with ``warmup`` steps of linear rise that end *at* the main shape: step ``warmup`` has the
LR the shape has there, the main shape runs on from it, and step ``n`` has the end LR exactly.

>>> schedule = Cosine(peak=3e-4, end=3e-5, steps=24_000, warmup=2_160)
>>> float(schedule(2_160)), float(schedule(24_000))
(0.0003, 3e-05)
"""

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from cptjax.namespace import AnyArray, is_known, namespace

__all__ = [
    "WSD",
    "Constant",
    "Cosine",
    "Decay",
    "Joined",
    "Knots",
    "Linear",
    "Phase",
    "Schedule",
    "Steps",
    "Table",
    "find_cuts",
    "find_warmup",
    "from_array",
    "from_optax",
]

Rate = float | Float[AnyArray, ""]
StepsLike = int | Int[AnyArray, "*shape"] | Float[AnyArray, "*shape"]
Decay = Literal["linear", "exponential", "cosine", "sqrt"]


def _as_float(x: object) -> Float[AnyArray, "..."]:
    return jnp.asarray(x, dtype=jnp.result_type(float))


class Schedule(eqx.Module):
    """Base of all schedules: a main shape, preceded by a linear warm-up.

    Args (of every schedule):
        steps: length of the phase in optimiser steps, at least 1.
        warmup: steps of linear rise at the start, from ``warmup_from`` to the main shape.
        warmup_from: LR the rise starts from; ``None`` means 0 in a first phase and the previous phase's last LR in
            a later one (see :class:`Joined`).

    Raises:
        ValueError: ``steps < 1``, ``warmup`` outside ``[0, steps]``, or a rate that is negative or not finite.
    """

    steps: eqx.AbstractVar[int]
    warmup: eqx.AbstractVar[int]
    warmup_from: eqx.AbstractVar[Float[AnyArray, ""] | None]

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        """LR of the main shape at ``step`` (a float in ``[0, steps]``), the warm-up left out."""
        raise NotImplementedError

    def kinks(self) -> tuple[int, ...]:
        """Steps ``c`` inside the main shape after which the LR difference stops being smooth."""
        return ()

    def __check_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a schedule needs at least 1 step, got steps = {self.steps}")
        if not 0 <= self.warmup <= self.steps:
            raise ValueError(f"warmup must lie in [0, steps = {self.steps}], got {self.warmup}")
        for leaf in filter(is_known, jax.tree.leaves(self)):
            values = np.asarray(leaf)
            if not np.all(np.isfinite(values)) or np.any(values < 0):
                raise ValueError("learning rates must be finite and not negative")

    def __call__(self, step: StepsLike, previous_lr: Rate = 0.0) -> Float[AnyArray, "*shape"]:
        r"""LR :math:`\eta` at ``step`` (0 … steps; held outside).

        Args:
            step: optimiser step inside the phase, scalar or array.
            previous_lr: where the warm-up starts if the schedule does not say it itself.
        """
        xp = namespace(self, step, previous_lr)
        t = xp.clip(xp.asarray(step, dtype=float), 0, self.steps)
        if self.warmup == 0:
            return self.shape(t)
        start = previous_lr if self.warmup_from is None else self.warmup_from
        top = self.shape(xp.asarray(float(self.warmup)))
        u = t / self.warmup
        return xp.where(t < self.warmup, start * (1 - u) + top * u, self.shape(xp.maximum(t, self.warmup)))

    def values(self, steps: StepsLike | None = None, previous_lr: Rate = 0.0) -> Float[AnyArray, " steps"]:
        """LRs at ``steps``; by default at every optimiser step 1 … n of the phase."""
        xp = namespace(self, previous_lr)
        return self(xp.arange(1, self.steps + 1) if steps is None else steps, previous_lr)

    def without_warmup(self) -> "Schedule":
        """The same schedule with its LR already at the top during warm-up (the laws' convention from scratch)."""
        return _Held(self, steps=self.steps)

    @property
    def cuts(self) -> tuple[int, ...]:
        """Sorted steps ``c_0 = 0 < … < c_m = n``: LR differences are smooth inside each ``(c_i, c_{i+1}]``."""
        inner = {c for c in (*self.kinks(), self.warmup) if 0 < c < self.steps}
        return (0, *sorted(inner), self.steps)

    def to_optax(self) -> Callable[[StepsLike], Float[AnyArray, "*shape"]]:
        """An optax schedule: the LR of the update that follows ``count`` finished updates, ``self(count + 1)``."""
        return lambda count: self(count + 1)


class _Shaped(Schedule):
    """A schedule of stated length."""

    steps: int = eqx.field(static=True, kw_only=True, converter=operator.index)
    warmup: int = eqx.field(static=True, default=0, kw_only=True, converter=operator.index)
    warmup_from: Float[AnyArray, ""] | None = eqx.field(default=None, kw_only=True)


class Constant(_Shaped):
    r"""A flat LR, :math:`\eta(t) = \eta_\text{peak}`."""

    peak: Rate = eqx.field(converter=_as_float)

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        return self.peak + 0 * step


class _Decaying(_Shaped):
    """From ``peak`` at the end of warm-up to ``end`` at the last step, by a factor that falls from 1 to 0."""

    peak: Rate = eqx.field(converter=_as_float)
    end: Rate = eqx.field(converter=_as_float)

    def progress(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        return ((step - self.warmup) / max(self.steps - self.warmup, 1)).clip(0, 1)


class Linear(_Decaying):
    r"""A straight line, :math:`\eta = \eta_\text{peak}(1-u) + \eta_\text{end}u`, ``u`` from 0 (warm-up's end) to 1."""

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        u = self.progress(step)
        return self.peak * (1 - u) + self.end * u


class Cosine(_Decaying):
    r"""Half a cosine, :math:`\eta = \eta_\text{peak}c + \eta_\text{end}(1-c)` with :math:`c = (1+\cos\pi u)/2`."""

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        c = 0.5 * (1 + namespace(self, step).cos(math.pi * self.progress(step)))
        return self.peak * c + self.end * (1 - c)


def _graded_cuts(start: int, end: int) -> tuple[int, ...]:
    """``start`` and cuts behind it at growing distances 3, 15, 63 …, below ``end``."""
    return tuple(start + 4**j - 1 for j in range(max(end - start, 1).bit_length()) if j == 0 or start + 4**j <= end)


class WSD(_Decaying):
    r"""Warm-up, stable, decay: flat at ``peak`` until step ``decay_start``, then down to ``end`` at the last step.

    With ``u`` the progress of the decay: ``linear`` falls as :math:`1-u`, ``cosine`` as :math:`(1+\cos\pi u)/2`,
    ``sqrt`` as :math:`1-\sqrt u`; ``exponential`` is :math:`\eta_\text{peak}^{1-u}\,\eta_\text{end}^{u}` and needs
    ``end > 0``.

    Args:
        decay_start: last step at the peak, counted inside the phase.
        decay: shape of the fall.
    """

    decay_start: int = eqx.field(static=True, kw_only=True)
    decay: Decay = eqx.field(static=True, default="linear", kw_only=True)

    def __check_init__(self) -> None:
        if not self.warmup <= self.decay_start <= self.steps:
            raise ValueError(
                f"decay_start must lie between warmup = {self.warmup} and steps = {self.steps}, got {self.decay_start}"
            )
        if self.decay not in get_args(Decay):
            raise ValueError(f"decay must be one of {', '.join(get_args(Decay))}, got {self.decay!r}")
        if self.decay == "exponential" and is_known(self.end) and np.any(np.asarray(self.end) <= 0):
            raise ValueError("exponential decay never reaches 0: give end > 0")

    def kinks(self) -> tuple[int, ...]:
        if self.decay == "sqrt":  # infinitely steep at its start: finer and finer cuts towards it
            return _graded_cuts(self.decay_start, self.steps)
        return (self.decay_start,)

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        xp = namespace(self, step)
        u = ((step - self.decay_start) / max(self.steps - self.decay_start, 1)).clip(0, 1)
        if self.decay == "exponential":
            peak, end = (xp.maximum(x, 1e-30) for x in (self.peak, self.end))
            fallen = xp.exp((1 - u) * xp.log(peak) + u * xp.log(end))
            return xp.where(u == 0, self.peak, xp.where(u == 1, self.end, fallen))
        if self.decay == "cosine":
            c = 0.5 * (1 + xp.cos(math.pi * u))
        elif self.decay == "sqrt":
            c = 1 - xp.sqrt(u)
        else:
            c = 1 - u
        return self.peak * c + self.end * (1 - c)


def _check_increasing(name: str, steps: Sequence[int], low: int, high: int) -> None:
    for before, after in pairwise(steps):
        if after <= before:
            raise ValueError(f"{name} must increase, but {after} follows {before}")
    if len(steps) and not (low <= steps[0] and steps[-1] <= high):
        raise ValueError(f"{name} must lie in [{low}, {high}]")


class Steps(_Shaped):
    """Piecewise constant: ``rates[i]`` before step ``boundaries[i]``, which is the first step of ``rates[i + 1]``."""

    boundaries: tuple[int, ...] = eqx.field(static=True, converter=lambda x: tuple(int(b) for b in x))
    rates: Float[AnyArray, " levels"] = eqx.field(converter=_as_float)

    def __check_init__(self) -> None:
        if self.rates.shape != (len(self.boundaries) + 1,):
            raise ValueError(
                f"{len(self.boundaries)} boundaries need {len(self.boundaries) + 1} values, got {self.rates.size}"
            )
        _check_increasing("boundaries", self.boundaries, 1, self.steps)

    def kinks(self) -> tuple[int, ...]:
        return tuple(c for b in self.boundaries for c in (b - 1, b))

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        xp = namespace(self, step)
        return self.rates[xp.searchsorted(xp.asarray(self.boundaries, dtype=float), step, side="right")]


class Knots(_Shaped):
    """Piecewise linear between ``(knots[i], rates[i])``, flat outside the first and the last knot."""

    knots: tuple[int, ...] = eqx.field(static=True, converter=lambda x: tuple(int(k) for k in x))
    rates: Float[AnyArray, " knots"] = eqx.field(converter=_as_float)

    def __check_init__(self) -> None:
        if not self.knots:
            raise ValueError("a knots schedule needs at least one knot")
        if self.rates.shape != (len(self.knots),):
            raise ValueError(f"{len(self.knots)} knots need as many values, got {self.rates.size}")
        _check_increasing("the steps of knots", self.knots, 0, self.steps)

    def kinks(self) -> tuple[int, ...]:
        return self.knots

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        xp = namespace(self, step)
        return xp.interp(step, xp.asarray(self.knots, dtype=float), self.rates)


class Table(Schedule):
    """The LR of every single step, ``rates[t - 1]`` at step ``t``: logged schedules and free-form designs.

    Args:
        rates: one LR a step.
        warmup: how many of the first steps are warm-up (a mark only: their LRs are in ``rates``).
        breaks: steps after which the LR difference jumps (see :func:`find_cuts`); the quadrature of the kernels
            cuts there. Only their accuracy, never an exact evaluation, depends on it.
    """

    rates: Float[AnyArray, " steps"] = eqx.field(converter=_as_float)
    warmup: int = eqx.field(static=True, default=0, kw_only=True)
    breaks: tuple[int, ...] = eqx.field(static=True, default=(), kw_only=True)
    warmup_from: Float[AnyArray, ""] | None = eqx.field(default=None, kw_only=True)

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rates.shape[0]

    def kinks(self) -> tuple[int, ...]:
        return self.breaks

    def __call__(self, step: StepsLike, previous_lr: Rate = 0.0) -> Float[AnyArray, "*shape"]:
        xp = namespace(self, step, previous_lr)
        t = xp.asarray(step, dtype=float)
        if self.warmup == 0:
            return self.shape(t)
        start = previous_lr if self.warmup_from is None else self.warmup_from
        return xp.where(t < 1, start, self.shape(t))

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        return self.rates[(step.astype(int) - 1).clip(0, self.steps - 1)]


class _Held(_Shaped):
    """A schedule whose warm-up is replaced by the LR at its end."""

    of: Schedule

    def kinks(self) -> tuple[int, ...]:
        return (*self.of.kinks(), self.of.warmup)

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        return self.of(namespace(self, step).maximum(step, self.of.warmup))


class Joined(Schedule):
    """Schedules one after another, as one: a later warm-up starts from the last LR before it.

    The LR before the first update of a later part is the last LR of the part before it, so a change of level
    between parts is a jump at the later part's first step.
    """

    parts: tuple[Schedule, ...] = eqx.field(converter=tuple)
    warmup_from: Float[AnyArray, ""] | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self) -> None:
        if not self.parts:
            raise ValueError("joining needs at least one schedule")

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return sum(part.steps for part in self.parts)

    @property
    def warmup(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.parts[0].warmup

    def kinks(self) -> tuple[int, ...]:
        found: list[int] = []
        start = 0
        for part in self.parts:
            found += [start + c for c in part.cuts] + ([start + 1] if start else [])
            start += part.steps
        return tuple(sorted(set(found)))

    def __call__(self, step: StepsLike, previous_lr: Rate = 0.0) -> Float[AnyArray, "*shape"]:
        xp = namespace(self, step, previous_lr)
        t = xp.asarray(step, dtype=float)
        lr = self.parts[0](t, previous_lr if self.warmup_from is None else self.warmup_from)
        last = self.parts[0](self.parts[0].steps, previous_lr)
        start = self.parts[0].steps
        for part in self.parts[1:]:
            lr = xp.where(t > start, part(xp.maximum(t - start, 1), last), lr)
            last = part(part.steps, last)
            start += part.steps
        return lr

    def shape(self, step: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        return self(step)


class Phase(eqx.Module):
    """One stage of a run: pre-training (``"pt"``) or continual pre-training (``"cpt"``) under one schedule.

    Args:
        schedule: its LR schedule.
        name: ``"pt"`` or ``"cpt"``.
        replay_ratio: share of pre-training data in the batches of a CPT phase, in [0, 1] (a differentiable leaf).
    """

    schedule: Schedule
    name: Literal["pt", "cpt"] = eqx.field(static=True, default="pt")
    replay_ratio: Rate = eqx.field(default=0.0, converter=_as_float)

    def __check_init__(self) -> None:
        if self.name not in ("pt", "cpt"):
            raise ValueError(f"a phase is named 'pt' or 'cpt', got {self.name!r}")
        if is_known(self.replay_ratio) and not np.all((self.replay_ratio >= 0) & (self.replay_ratio <= 1)):
            raise ValueError(f"replay_ratio is a share from 0 to 1, got {self.replay_ratio}")


def find_cuts(lr: Float[np.ndarray, " steps"], tolerance: float = 0.05) -> tuple[int, ...]:
    """Steps after which the difference of a tabulated LR jumps, for :class:`Table`.

    A step ``c`` is a cut where the LR difference changes, from one step to the next, by more than ``tolerance`` of
    the largest difference within four steps and by five times what it usually does there: ends of plateaus, drops,
    re-warm-ups. Changes no larger than the rounding of a LR logged in float32 are none.
    """
    lr = np.asarray(lr, dtype=float)
    if lr.size < 3:
        return ()
    drops = np.abs(np.diff(lr))
    change = np.abs(np.diff(lr, 2))
    around = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(change, 4), 9), axis=1)
    largest = np.max(np.lib.stride_tricks.sliding_window_view(np.pad(drops, 4), 10), axis=1)
    rounding = 2 * np.finfo(np.float32).eps * np.max(lr)
    sharp = (change > np.maximum(tolerance * largest, rounding)) & (change > 5 * around)
    return tuple(int(i) + 2 for i in np.flatnonzero(sharp))


def from_array(lr: Sequence[float] | Float[np.ndarray, " steps"] | Float[AnyArray, " steps"], warmup: int = 0) -> Table:
    """A :class:`Table` from the LRs of steps 1 … n, its discontinuities found when the values are known.

    >>> from_array([3e-4, 3e-4, 3e-5]).steps
    3
    """
    breaks = find_cuts(np.asarray(lr)) if is_known(lr) else ()
    return Table(jnp.asarray(lr), warmup=warmup, breaks=breaks)  # pyright: ignore[reportCallIssue]


def from_optax(schedule: Callable[[Int[AnyArray, " steps"]], Float[AnyArray, " steps"]], steps: int) -> Table:
    """A :class:`Table` of the first ``steps`` updates of an optax schedule (its count 0 is our step 1)."""
    lr = np.asarray(jax.vmap(lambda count: jnp.asarray(schedule(count), dtype=float))(jnp.arange(steps)))
    return from_array(lr, warmup=find_warmup(lr))


def find_warmup(lr: Float[np.ndarray, " steps"]) -> int:
    """How many of the first steps of a tabulated LR are a warm-up: the length of its opening strict rise."""
    falls = np.flatnonzero(np.diff(lr) <= 0)
    rise = int(falls[0]) if falls.size else lr.size - 1
    return rise + 1 if rise > 0 else 0
