r"""The law of continual pre-training: both losses at every step, under any schedule.

When a model pre-trained on one domain goes on with data of another, two things happen at once: it is trained further
(forward and annealing areas go on growing, as in the annealing law), and its data distribution shifts. Wang et al.
(2025), arXiv:2505.07796, found that the shift adds a term which depends only on the forward area since the transfer,
not on where the transfer happened, and gave it a power law. On the old domain it raises the loss (forgetting,
:math:`B>0`), on the new one it lowers it (adaptation, :math:`B<0`).

Between two *hidden curves* the observed one moves: staying on the old domain (the law with :math:`B=0`), and training
on the new domain from scratch (where the shift has saturated).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cptjax.areas import Areas, History, Kernel, Momentum, record
from cptjax.errors import InputError
from cptjax.laws.annealing import ALPHA, L0, SIZE, A, size_exponent
from cptjax.laws.base import Law, Params, inverse_power
from cptjax.laws.replay import Replay, ShareReplay
from cptjax.namespace import AnyArray
from cptjax.parameters import Parameter, Support
from cptjax.schedules import Phase

if TYPE_CHECKING:
    from cptjax.runs import Run

__all__ = ["CPTLaw", "ContinualLaw", "replay_of"]

SIGN: dict[str | None, Support] = {"pt": "positive", "cpt": "negative", None: "real"}


def replay_of(choice: Replay | bool | None) -> Replay | None:
    """The replay factor that ``True``, ``False``, ``None`` or a factor itself stands for."""
    if isinstance(choice, bool) or choice is None:
        return ShareReplay() if choice else None
    return choice


class ContinualLaw(Law):
    """Base of the laws in which a shift of data sets in at the transfer, at rate ``E`` with exponent ``beta``."""

    replay: eqx.AbstractVar[Replay | None]

    def alternatives(self) -> tuple[Law, ...]:
        if self.replay is None:
            return (self,)
        return tuple(eqx.tree_at(lambda law: law.replay, self, form) for form in self.replay.alternatives())

    @staticmethod
    def limits(params: Params) -> tuple[Params, Params]:
        """Parameters under which the shift never happens, and under which it is over at once."""
        return {**params, "E": 0.0}, {**params, "E": 1e300, "beta": 1.0}

    def hidden_curves(
        self,
        params: Params,
        phases: Sequence[Phase],
        steps: Int[AnyArray, " n"] | Sequence[int],
        model_size: float | None = None,
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The two curves between which continual pre-training moves; arguments as in :meth:`predict`.

        Returns:
            The loss had the run stayed on the old domain, and the loss with the shift complete, where training from
            scratch on the new mixture would be.
        """
        stayed, arrived = (self.predict(each, phases, steps, model_size) for each in self.limits(params))
        return stayed, arrived


class CPTLaw(ContinualLaw):
    r"""Loss of one validation set in pre-training and continual pre-training (Wang et al. 2025, Eq. 4, 6, 8).

    .. math:: L = L_0 + A(S_1^\text{pt}+S_1^\text{cpt})^{-\alpha} - C_1 S_2^\text{pt} - C_2 S_2^\text{cpt}
              + B\,\rho\,(1-(1+E S_1^\text{cpt})^{-\beta})

    with :math:`\rho` the replay factor (1 without replay). With model size: :math:`C_1N^{\gamma_1}`,
    :math:`C_2N^{\gamma_2}` and :math:`+F N^{-\gamma_3}`.

    Args:
        kernel: annealing kernel of both phases.
        replay: ``True`` for :class:`ShareReplay`, ``None`` or ``False`` for none, or a :class:`Replay`.
        size: whether the loss depends on the model size.
        carry_momentum: let pre-training LR drops go on annealing after the transfer (the paper restarts at zero).
        unknown_history: the base model's training is not known (see :meth:`open_weights`).

    Parameters (nats per token unless said): ``L0``, ``A``, ``alpha`` as in the annealing law; ``B`` size of the shift,
    ``E`` its rate per forward area, ``beta`` its exponent; ``C1``, ``C2`` loss per annealing area of each phase; those
    of the replay factor and of the kernel; with size ``gamma1``, ``gamma2``, ``F``, ``gamma3``; with unknown history
    ``S1_pt``, the base model's forward area, and no ``C1``.
    """

    kernel: Kernel = eqx.field(default_factory=Momentum)
    replay: Replay | None = eqx.field(default=None, converter=replay_of)
    size: bool = eqx.field(static=True, default=False, kw_only=True)
    carry_momentum: bool = eqx.field(static=True, default=False, kw_only=True)
    unknown_history: bool = eqx.field(static=True, default=False, kw_only=True)
    name: ClassVar[str] = "cpt"

    @classmethod
    def open_weights(cls, kernel: Kernel | None = None, replay: Replay | bool | None = None) -> "CPTLaw":
        """The law for a base model of unknown history (open weights; paper, Sec. 5).

        Its forward area ``S1_pt`` is fitted, its final LR is taken as 0 (so a continual phase opens with a re-warm-up
        that counts), and its annealing folds into ``L0``. Only continual phases are read.
        """
        return cls(kernel or Momentum(), replay, unknown_history=True)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        side = self.replay.side if self.replay else None
        found = [L0, A, ALPHA]
        if self.unknown_history:
            unit = {"search": (0.3, 100.0), "bounds": (1e-3, 1e5), "unit": "forward_cpt"}
            found.append(Parameter("S1_pt", meaning="forward area of the base model", **unit))
        else:
            found.append(Parameter("C1", linear=True, meaning="loss per annealing area of pre-training"))
        found += [
            Parameter("C2", linear=True, meaning="loss per annealing area of continual pre-training"),
            Parameter("B", SIGN[side], linear=True, meaning="size of the distribution shift"),
            Parameter("E", search=(0.3, 3e4), bounds=(1e-3, 1e8), unit="1/forward_cpt", meaning="rate of the shift"),
            Parameter("beta", search=(0.03, 1.5), bounds=(1e-3, 20.0), meaning="exponent of the shift"),
        ]
        found += self.replay.parameters if self.replay else ()
        if self.size:
            found += [] if self.unknown_history else [size_exponent("gamma1", "C1")]
            found += [size_exponent("gamma2", "C2"), *SIZE]
        return (*found, *self.kernel.parameters)

    def check(self, run: "Run") -> None:
        if self.size:
            self._need_size(run)
        if self.unknown_history and run.phases[-1].name == "pt":
            raise InputError(f"run {run.id!r} has no cpt phase, and an open-weights law speaks of nothing else")
        if not self.unknown_history and run.phases[0].name == "cpt":
            raise InputError(f"run {run.id!r} has no pt phase: give its history, or use the open-weights law")

    def usable(self, run: "Run", steps: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        if self.unknown_history:
            return steps >= (run.transfer_step or 0)
        return super().usable(run, steps)

    def record(
        self,
        runs: Sequence[Sequence[Phase]],
        run: Int[AnyArray, " n"],
        step: Int[AnyArray, " n"],
        model_sizes: Sequence[float | None] | None = None,
    ) -> History:
        if self.unknown_history:
            known = [sum(phase.schedule.steps for phase in phases if phase.name == "pt") for phases in runs]
            runs = [tuple(phase for phase in phases if phase.name == "cpt") for phases in runs]
            step = (step - np.asarray(known)[run]).clip(0)
        return record(self.kernel, runs, run, step, model_sizes, self.carry_momentum)

    def shift(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        r"""The distribution shift :math:`B\rho(1-(1+E S_1^\text{cpt})^{-\beta})`, 0 at the transfer."""
        p = params
        size = -p["B"] * jnp.expm1(-p["beta"] * jnp.log1p(p["E"] * areas.forward_cpt))
        return size * self.replay.shift(p, areas.replay_ratio) if self.replay else size

    def loss(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        p = params
        before = p["S1_pt"] if self.unknown_history else areas.forward_pt
        rest = p["L0"] + p["A"] * inverse_power(before + areas.forward_cpt, p["alpha"])
        released = p["C2"] * areas.annealing_cpt
        if self.replay:
            released = released * self.replay.annealing(p, areas.replay_ratio)
        if self.size:
            released = released * areas.model_size ** p["gamma2"]
            rest = rest + p["F"] * areas.model_size ** -p["gamma3"]
        if not self.unknown_history:
            annealed = p["C1"] * areas.annealing_pt
            released = released + (annealed * areas.model_size ** p["gamma1"] if self.size else annealed)
        return rest - released + self.shift(p, areas)
