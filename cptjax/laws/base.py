"""What every law is: named parameters and a formula, from the areas of a schedule to a loss."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cptjax.areas import Areas, History, Kernel, compute_areas, record
from cptjax.errors import InputError
from cptjax.namespace import AnyArray, is_known
from cptjax.parameters import Parameter
from cptjax.schedules import Phase
from cptjax.shapes import filled

if TYPE_CHECKING:
    from cptjax.runs import Run

__all__ = ["Law", "compiled_evaluate", "inverse_power"]

Params = Mapping[str, Any]


def inverse_power(area: Float[Array, "*shape"], exponent: Float[Array, ""] | float) -> Float[Array, "*shape"]:
    """``area ** -exponent``, the area floored at 1e-12 so that values and gradients stay finite at area 0."""
    return jnp.exp(-exponent * jnp.log(jnp.maximum(area, 1e-12)))


class Law(eqx.Module):
    """Base of all laws; a subclass lists its ``parameters`` and gives the loss as a function of areas.

    A law holds no parameter values: ``params`` maps each name in ``parameters`` to a number and is a pytree, so
    ``jit``, ``grad`` and ``vmap`` go over it as over the phases (through their schedules' leaves).
    """

    kernel: eqx.AbstractVar[Kernel]
    name: ClassVar[str]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The law's own parameters and those of its kernel."""
        raise NotImplementedError

    def loss(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        """Loss in nats per token of each observation, from its areas."""
        raise NotImplementedError

    def alternatives(self) -> tuple["Law", ...]:
        """The laws a fit chooses among; more than one where the law leaves a form open."""
        return (self,)

    def check(self, run: "Run") -> None:
        """Raise :class:`InputError` if the law cannot describe the run."""

    def usable(self, run: "Run", steps: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Which observed steps the law speaks of: those after the first with a LR, before which nothing was trained."""
        return steps >= run.first_trained_step

    def record(
        self,
        runs: Sequence[Sequence[Phase]],
        run: Int[AnyArray, " n"],
        step: Int[AnyArray, " n"],
        model_sizes: Sequence[float | None] | None = None,
    ) -> History:
        """The parameter-free part of a prediction, for many runs at once (see :func:`cptjax.areas.record`)."""
        return record(self.kernel, runs, run, step, model_sizes)

    def evaluate(self, params: Params, history: History) -> Float[Array, " n"]:
        """Losses of recorded observations."""
        return self.loss(params, compute_areas(self.kernel, self.kernel_params(params), history))

    def kernel_params(self, params: Params) -> Params:
        """The kernel's parameters under the names the kernel uses."""
        return params

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The names under which this law lists its kernel's parameters."""
        return tuple(p.name for p in self.kernel.parameters)

    def predict(
        self,
        params: Params,
        phases: Sequence[Phase],
        steps: Int[AnyArray, " n"] | Sequence[int],
        model_size: float | None = None,
    ) -> Float[Array, " n"]:
        """Loss at ``steps`` of a run of these ``phases``.

        Pure JAX: differentiable in ``params`` and in every leaf of the phases' schedules, and batched by ``vmap``.

        Args:
            params: one number for each of ``parameters`` (further entries are ignored).
            phases: ``pt`` phases, then ``cpt`` phases.
            steps: optimiser steps counted from the start of the run.
            model_size: millions of parameters, for laws with size.

        Returns:
            Loss in nats per token.
        """
        step = steps if isinstance(steps, jax.Array) else np.asarray(steps)
        return self.predict_runs(params, [tuple(phases)], np.zeros(step.shape, dtype=int), step, [model_size])

    def predict_runs(
        self,
        params: Params,
        runs: Sequence[Sequence[Phase]],
        run: Int[np.ndarray, " n"],
        step: Int[AnyArray, " n"],
        model_sizes: Sequence[float | None] | None = None,
    ) -> Float[Array, " n"]:
        """Losses of several runs in one compiled call; arguments as in :meth:`record`."""
        count = step.shape[0]
        if is_known(step):
            ends = np.array([sum(phase.schedule.steps for phase in phases) for phases in runs])[run]
            if np.any((np.asarray(step) < 0) | (np.asarray(step) > ends)):
                raise InputError(f"a step lies outside its run, which has steps 0 to {ends.max()}")
            run, step = filled(run), filled(np.asarray(step))
        return compiled_evaluate(self, params, self.record(runs, run, step, model_sizes))[:count]

    def _need_size(self, run: "Run") -> None:
        if run.model_size is None:
            raise InputError(f"run {run.id!r} has no model_size, which this law needs: add it to the manifest")


def compiled_evaluate(law: Law, params: Params, history: History) -> Float[Array, " n"]:
    """``law.evaluate``, compiled once for each shape of history, whatever the numbers in ``law`` and ``params``."""
    numbers = {name: jnp.asarray(value, dtype=float) for name, value in params.items()}
    return _evaluate(jax.tree.map(jnp.asarray, law), numbers, history)


@eqx.filter_jit
def _evaluate(law: Law, params: Params, history: History) -> Float[Array, " n"]:
    return law.evaluate(params, history)
