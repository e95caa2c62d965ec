"""What a law needs to know of the training that led to each observation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from cptjax.areas.clock import Clock, ClockSeries
from cptjax.areas.kernels import Kernel
from cptjax.areas.paths import continual_path, grid_length, pretraining_path, replay_ratio, whole_path
from cptjax.namespace import AnyArray, namespace, on_host
from cptjax.schedules import Phase

__all__ = ["Areas", "History", "compute_areas", "record"]


class Areas(eqx.Module):
    """Forward and annealing areas of each observation, pre-training (``pt``) and continual (``cpt``) part apart.

    The pre-training areas stop growing at the transfer step, the continual ones start from zero there.
    ``replay_ratio`` is 0 before the transfer; ``model_size`` is in millions of parameters (NaN if unknown). ``clock``
    is what drives the shift of domain in laws that ask for it (see :mod:`cptjax.areas.clock`).
    """

    forward_pt: Float[AnyArray, " n"]
    forward_cpt: Float[AnyArray, " n"]
    annealing_pt: Float[AnyArray, " n"]
    annealing_cpt: Float[AnyArray, " n"]
    replay_ratio: Float[AnyArray, " n"]
    model_size: Float[AnyArray, " n"]
    clock: Float[AnyArray, " n"] | None = None


class History(eqx.Module):
    """Everything about the observations that no parameter changes; see :func:`compute_areas`."""

    forward_pt: Float[AnyArray, " n"]
    forward_cpt: Float[AnyArray, " n"]
    prepared: Mapping[str, Any]
    replay_ratio: Float[AnyArray, " n"]
    model_size: Float[AnyArray, " n"]
    clock: Clock | ClockSeries | None = None

    def tabulated(self, kernel: Kernel) -> "History":
        """The same history, prepared for many evaluations (see :meth:`Kernel.tabulated`)."""
        prepared = {name: kernel.tabulated(part) for name, part in self.prepared.items()}
        clock = self.clock.tabulated() if isinstance(self.clock, Clock) else self.clock
        return replace(self, prepared=prepared, clock=clock)


def _forward(path: Any, run: Int[AnyArray, " n"], step: Int[AnyArray, " n"]) -> Float[AnyArray, " n"]:
    return np.zeros(step.shape) if path is None else path.forward()[run, step]


def record(
    kernel: Kernel,
    runs: Sequence[Sequence[Phase]],
    run: Int[AnyArray, " n"],
    step: Int[AnyArray, " n"],
    model_sizes: Sequence[float | None] | None = None,
    carry_momentum: bool = False,
    clocked: bool = False,
) -> History:
    """The history behind observations of several runs at once.

    Args:
        kernel: annealing kernel of the law.
        runs: phases of each run.
        run: which run each observation belongs to.
        step: its optimiser step, counted from the start of the run.
        model_sizes: millions of parameters of each run.
        carry_momentum: let pre-training drops go on annealing after the transfer, instead of starting afresh.
        clocked: record the clock of the continual phases, too.
    """
    runs, run, step = [on_host(tuple(phases)) for phases in runs], on_host(run), on_host(step)
    xp = namespace(runs, run, step)
    if xp is jnp:
        runs, run, step = jax.tree.map(jnp.asarray, (runs, run, step))
    lengths = [sum(phase.schedule.steps for phase in phases if phase.name == "pt") for phases in runs]
    transfer = xp.asarray(lengths)[run]
    before, after = xp.minimum(step, transfer), xp.maximum(step - transfer, 0)
    length = grid_length(runs)
    pt = pretraining_path(runs, kernel.warmup, length)
    cpt = continual_path(runs, pt, length)
    prepared: dict[str, Any] = {}
    if carry_momentum and cpt is not None:
        whole = whole_path(runs, kernel.warmup)
        prepared = {"pt": kernel.prepare(whole, run, before), "whole": kernel.prepare(whole, run, step)}
    else:
        for name, path, at in (("pt", pt, before), ("cpt", cpt, after)):
            if path is not None:
                prepared[name] = kernel.prepare(path, run, at)
    sizes = [float("nan") if size is None else size for size in model_sizes or [None] * len(runs)]
    ratios = xp.stack([replay_ratio(phases) for phases in runs])
    clock = None
    if clocked and pt is not None:
        moving = cpt.lr if cpt is not None else xp.zeros((len(runs), 1))
        clock = Clock(moving, xp.max(pt.lr, axis=1), run, after)
    return History(
        _forward(pt, run, before),
        _forward(cpt, run, after),
        prepared,
        xp.where(after > 0, ratios[run], 0.0),
        xp.asarray(sizes, dtype=float)[run],
        clock,
    )


def compute_areas(kernel: Kernel, params: Mapping[str, Any], history: History) -> Areas:
    """Areas of the recorded observations under the kernel's parameters."""
    area = {name: kernel.area(params, prepared) for name, prepared in history.prepared.items()}
    zero = jnp.zeros_like(history.forward_pt)
    pt = area.get("pt", zero)
    cpt = area["whole"] - pt if "whole" in area else area.get("cpt", zero)
    clock = None if history.clock is None else history.clock.at(params["lr_power"])
    return Areas(history.forward_pt, history.forward_cpt, pt, cpt, history.replay_ratio, history.model_size, clock)
