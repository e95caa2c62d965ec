r"""The crossing law: continual pre-training as a passage from one annealing law to another.

A run of continual pre-training moves between two *hidden curves*: the loss it would have had it stayed on the old
data, and the loss of a model that knows the new data. The CPT law of Wang et al. (2025), arXiv:2505.07796, makes them
parallel: their distance is a constant ``B``, whatever the forward area, the annealing, the transfer point. On small
models this fails in four ways, found on the fit runs of our own curves (``benchmarks/tiny_law``); each is repaired:

* What is forgotten depends on what was known: a base model transferred early has less to lose, and ends at the same
  loss as the others. So each hidden curve is an annealing law of its own, and the run crosses from one to the other.
* Annealing helps the set a model is at home on: a low LR improves the old loss while the model has forgotten little,
  the new one once it has adapted. This follows from the crossing, with no parameter for it.
* The LR is no clock: per unit of forward area a high LR forgets more and adapts less than a low one (exponent ``p``,
  see :mod:`cptjax.areas.clock`).
* Replay does not slow the first forgetting in proportion to how much it prevents; it ends it sooner (``replay_rate``).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cptjax.areas import LR_POWER, Areas, History, Kernel, Momentum, record
from cptjax.errors import InputError
from cptjax.laws.annealing import ALPHA, L0, A
from cptjax.laws.base import Params, inverse_power
from cptjax.laws.cpt import ContinualLaw, replay_of
from cptjax.laws.replay import ExponentialReplay, Replay
from cptjax.namespace import AnyArray
from cptjax.parameters import Parameter
from cptjax.schedules import Phase

if TYPE_CHECKING:
    from cptjax.runs import Run

__all__ = ["CrossingLaw"]

SMALLEST_FACTOR = 1e-3


def _shift_only(choice: Replay | bool | None) -> Replay | None:
    """A replay factor without its part for the annealing, which follows from the crossing here."""
    replay = replay_of(choice)
    return ExponentialReplay(anneal=False) if isinstance(replay, ExponentialReplay) else replay


class CrossingLaw(ContinualLaw):
    r"""Loss of one validation set on its way between two annealing laws.

    .. math::
        L &= (1-g)\,(L_0 + A S_1^{-\alpha} - C S_2) + g\,(L_n + A_n S_1^{-\alpha} - C_n S_2) \\
        g &= \rho\,(1-(1+E S_p)^{-\beta\rho^{-q}})

    with :math:`S_1` and :math:`S_2` of the whole run (annealing does not restart at the transfer), :math:`S_p` the LR
    clock since the transfer and :math:`\rho` the replay factor (1 without replay). With :math:`A_n=A`, :math:`C_n=C`,
    :math:`p=1`, :math:`q=0` it is the CPT law, :math:`B=L_n-L_0`.

    Args:
        kernel: annealing kernel.
        replay: ``True`` for :class:`~cptjax.laws.ShareReplay`, ``None`` or ``False`` for none, or a
            :class:`~cptjax.laws.Replay`. Its factor for the annealing term is left out.

    Parameters (nats per token unless said): ``L0``, ``A``, ``C`` of the curve on the old data, ``L_new``, ``A_new``,
    ``C_new`` of the one on the new, ``alpha`` their exponent; ``E`` rate of the passage per unit of the clock, ``beta``
    its exponent, ``lr_power`` that of the LR; those of the replay factor, and ``replay_rate``, the power :math:`q` of
    that factor by which the passage ends sooner; those of the kernel.
    """

    kernel: Kernel = eqx.field(default_factory=Momentum)
    replay: Replay | None = eqx.field(default=None, converter=_shift_only)
    name: ClassVar[str] = "crossing"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        replay = ()
        if self.replay:
            rate = Parameter(
                "replay_rate",
                "real",
                search=(-1.0, 3.0),
                bounds=(-10.0, 10.0),
                meaning="how much sooner replay ends it",
            )
            replay = (*self.replay.parameters, rate)
        return (
            L0,
            A,
            ALPHA,
            Parameter("C", "real", linear=True, meaning="loss per annealing area, on the old data"),
            Parameter("L_new", linear=True, meaning="irreducible loss on the new data"),
            Parameter("A_new", "real", linear=True, meaning="amplitude of the forward area on the new data"),
            Parameter("C_new", "real", linear=True, meaning="loss per annealing area, on the new data"),
            Parameter("E", search=(0.3, 3e4), bounds=(1e-3, 1e8), unit="1/forward_cpt", meaning="rate of the passage"),
            Parameter("beta", search=(0.03, 1.5), bounds=(1e-3, 20.0), meaning="exponent of the passage"),
            LR_POWER,
            *replay,
            *self.kernel.parameters,
        )

    @property
    def kernel_names(self) -> tuple[str, ...]:
        return (LR_POWER.name, *super().kernel_names)

    def check(self, run: "Run") -> None:
        if run.phases[0].name == "cpt":
            raise InputError(f"run {run.id!r} has no pt phase: give its history, or use law 'cpt' with open weights")

    def record(
        self,
        runs: Sequence[Sequence[Phase]],
        run: Int[AnyArray, " n"],
        step: Int[AnyArray, " n"],
        model_sizes: Sequence[float | None] | None = None,
    ) -> History:
        return record(self.kernel, runs, run, step, model_sizes, carry_momentum=True, clocked=True)

    def passage(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        """How far the run has come from the old curve (0) to the new one (1): ``g``."""
        p, clock = params, jnp.zeros_like(areas.forward_cpt) if areas.clock is None else areas.clock
        beta, factor = p["beta"], jnp.ones_like(clock)
        if self.replay:
            factor = self.replay.shift(p, areas.replay_ratio)
            beta = beta * jnp.maximum(factor, SMALLEST_FACTOR) ** -p["replay_rate"]
        return -factor * jnp.expm1(-beta * jnp.log1p(p["E"] * clock))

    def ends(self, params: Params, areas: Areas) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The two hidden curves: had the run stayed on the old data, and if it knew the new data entirely."""
        p = params
        annealed = areas.annealing_pt + areas.annealing_cpt
        fallen = inverse_power(areas.forward_pt + areas.forward_cpt, p["alpha"])
        old = p["L0"] + p["A"] * fallen - p["C"] * annealed
        return old, p["L_new"] + p["A_new"] * fallen - p["C_new"] * annealed

    def loss(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        old, new = self.ends(params, areas)
        return old + (new - old) * self.passage(params, areas)
