r"""The LR clock: how far a shift of data has come, when it is not the summed LR that drives it.

The laws of the papers let forgetting and adaptation run in the forward area :math:`S_1=\sum\eta`: twice the LR for half
the steps is the same. Real runs say otherwise (``benchmarks/tiny_law``): a high LR forgets more, and adapts less, per
unit of forward area than a low one. One exponent says by how much,

.. math:: S_p(t) = \sum_{i\le t} \hat\eta\,(\eta_i/\hat\eta)^{p}

over the steps of continual pre-training, with :math:`\hat\eta` the peak LR of pre-training, so that :math:`S_p` has the
unit of a LR and equals :math:`S_1` at :math:`p=1` and, at any :math:`p`, while :math:`\eta=\hat\eta`.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from cptjax.areas.kernels import safe_power
from cptjax.namespace import AnyArray
from cptjax.parameters import Parameter

__all__ = ["LR_POWER", "Clock", "ClockSeries"]

LR_POWER = Parameter(
    "lr_power", search=(0.5, 1.6), bounds=(0.3, 3.0), meaning="power of the LR that drives the shift of domain"
)


class Clock(eqx.Module):
    """LRs of the continual phases of several runs, and where they were observed.

    Args:
        lr: LR of every step.
        unit: peak LR of each run's pre-training.
        run, step: observations, steps counted from the transfer (0 gives 0).
    """

    lr: Float[AnyArray, "runs steps"]
    unit: Float[AnyArray, " runs"]
    run: Int[AnyArray, " n"]
    step: Int[AnyArray, " n"]

    def at(self, lr_power: Float[AnyArray, ""] | float) -> Float[AnyArray, " n"]:
        """The clock of each observation under an exponent."""
        unit = jnp.asarray(self.unit)[:, None]
        pace = unit * safe_power(jnp.asarray(self.lr) / jnp.where(unit > 0, unit, 1.0), lr_power)
        return jnp.pad(jnp.cumsum(pace, axis=1), ((0, 0), (1, 0)))[self.run, self.step]

    def tabulated(self) -> "ClockSeries":
        """The same as a series in the exponent, for a fit that evaluates it over and over."""
        angle = (np.arange(ClockSeries.TERMS) + 0.5) * np.pi / ClockSeries.TERMS
        basis = np.cos(np.arange(ClockSeries.TERMS)[:, None] * angle) * 2 / ClockSeries.TERMS
        basis[0] /= 2
        return ClockSeries(jnp.asarray(basis) @ _clocks_at(ClockSeries.MIDDLE + ClockSeries.HALF * np.cos(angle), self))


class ClockSeries(eqx.Module):
    """A clock as Chebyshev series in the exponent, over the range its parameter may take."""

    coefficients: Float[AnyArray, "terms n"]

    MIDDLE: ClassVar[float] = 1.65
    HALF: ClassVar[float] = 1.36
    TERMS: ClassVar[int] = 48

    def at(self, lr_power: Float[AnyArray, ""] | float) -> Float[AnyArray, " n"]:
        """As :meth:`Clock.at`."""
        angle = jnp.arccos((jnp.asarray(lr_power, dtype=float) - self.MIDDLE) / self.HALF)
        return jnp.cos(jnp.arange(self.TERMS) * angle) @ self.coefficients


@eqx.filter_jit
def _clocks_at(powers: Float[AnyArray, " k"], clock: Clock) -> Float[AnyArray, "k n"]:
    return jax.lax.map(clock.at, jnp.asarray(powers))
