r"""The annealing law and its kin: validation loss of pre-training under any learning-rate schedule.

Training moves a model along a valley (the *forward area* :math:`S_1`, the summed LR) and anneals it into the valley
floor (the *annealing area* :math:`S_2`, what past LR drops have released). The laws here share that picture and differ
in the kernel that turns drops into area. Tissue et al. (2024), arXiv:2408.11029; Luo et al. (2025), arXiv:2503.12811;
Li et al. (2025), arXiv:2509.19189.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from cptjax.areas import Areas, Functional, Kernel, Momentum, MultiPower
from cptjax.errors import InputError
from cptjax.laws.base import Law, Params, inverse_power
from cptjax.parameters import Parameter

if TYPE_CHECKING:
    from cptjax.runs import Run

__all__ = ["AnnealingLaw", "FunctionalLaw", "MultiPowerLaw"]

L0 = Parameter("L0", linear=True, meaning="irreducible loss")
A = Parameter("A", linear=True, meaning="amplitude of the forward area")
ALPHA = Parameter("alpha", search=(0.1, 1.2), bounds=(1e-2, 5.0), meaning="exponent of the forward area")
SIZE = (
    Parameter("F", linear=True, meaning="amplitude of the model size"),
    Parameter("gamma3", search=(0.05, 0.6), bounds=(1e-3, 3.0), meaning="exponent of the model size"),
)


def size_exponent(name: str, of: str) -> Parameter:
    """The exponent with which an annealing coefficient grows with model size."""
    return Parameter(name, "real", search=(-0.2, 0.5), bounds=(-2.0, 2.0), meaning=f"exponent of the size in {of}")


class _PretrainingLaw(Law):
    """Laws of pre-training alone: they refuse runs with continual phases."""

    def check(self, run: "Run") -> None:
        if run.transfer_step is not None:
            raise InputError(f"run {run.id!r} has a cpt phase, and law {self.name!r} describes pt alone: use law 'cpt'")


class AnnealingLaw(_PretrainingLaw):
    r"""Loss of a pre-training run, :math:`L_0 + A\,S_1^{-\alpha} - C\,S_2` (Tissue et al. 2024, Eq. 1).

    With model size :math:`N`: :math:`\dots - C\,N^{\gamma_1} S_2 + F\,N^{-\gamma_3}`.

    Args:
        kernel: how LR drops turn into annealing area; :class:`~cptjax.areas.Momentum` with decay 0.999 by default.
        size: whether the loss depends on the model size (every run then needs one, in millions of parameters).

    Parameters (nats per token unless said): ``L0`` irreducible loss, ``A`` amplitude, ``alpha`` exponent (no unit),
    ``C`` loss per unit of annealing area; with size ``F``, ``gamma1``, ``gamma3``.
    """

    kernel: Kernel = eqx.field(default_factory=Momentum)
    size: bool = eqx.field(static=True, default=False, kw_only=True)
    name: ClassVar[str] = "annealing"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        size = (size_exponent("gamma1", "C"), *SIZE) if self.size else ()
        return (
            L0,
            A,
            ALPHA,
            Parameter("C", linear=True, meaning="loss per annealing area"),
            *size,
            *self.kernel.parameters,
        )

    def check(self, run: "Run") -> None:
        super().check(run)
        if self.size:
            self._need_size(run)

    def loss(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        p = params
        released, rest = p["C"] * areas.annealing_pt, p["L0"]
        if self.size:
            released = released * areas.model_size ** p["gamma1"]
            rest = rest + p["F"] * areas.model_size ** -p["gamma3"]
        return rest + p["A"] * inverse_power(areas.forward_pt, p["alpha"]) - released


class MultiPowerLaw(_PretrainingLaw):
    r"""Loss of a pre-training run whose LR drops are released as a power of what is trained after them.

    .. math:: L_0 + A S_1^{-\alpha} - B\sum_k(\eta_{k-1}-\eta_k)(1-(1+C\eta_k^{-\gamma}S_k)^{-\beta})

    Luo et al. (2025), Eq. 1, with its true warm-up, whose rise is part of the sum (see
    :class:`~cptjax.areas.MultiPower`).

    Parameters: ``L0``, ``A``, ``alpha`` as in :class:`AnnealingLaw`; ``B`` loss per unit of LR dropped, ``C`` rate of
    release, ``beta`` exponent of release, ``gamma`` exponent of the LR (no units).
    """

    kernel: Kernel = eqx.field(default_factory=lambda: MultiPower(warmup="full"))
    name: ClassVar[str] = "multipower"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (L0, A, ALPHA, Parameter("B", linear=True, meaning="loss per LR dropped"), *_renamed(self.kernel))

    def kernel_params(self, params: Params) -> Params:
        return {f"kernel_{name}": params[name] for name in self.kernel_names}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in _renamed(self.kernel))

    def loss(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        p = params
        return p["L0"] + p["A"] * inverse_power(areas.forward_pt, p["alpha"]) - p["B"] * areas.annealing_pt


class FunctionalLaw(_PretrainingLaw):
    r"""Loss of a pre-training run by the functional scaling law, in the intrinsic time :math:`T_k = S_1(k)`.

    .. math:: L_0 + c_1 T^{-s} - c_2\sum_k(\eta_{k-1}-\eta_k)(c_3+T_k^{-s})(1-(1+c_4(T-T_k))^{-\gamma})

    Li et al. (2025), App. B.2.

    Parameters: ``L0`` irreducible loss, ``c1`` amplitude, ``s`` exponent, ``c2`` loss per LR dropped, ``c3`` release
    that does not fade over training, ``c4`` rate of release, ``gamma`` exponent of release.
    """

    kernel: Kernel = eqx.field(default_factory=Functional)
    name: ClassVar[str] = "functional"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        own = tuple(p for p in _renamed(self.kernel) if p.name != "s")
        return (
            L0,
            Parameter("c1", linear=True, meaning="amplitude of the forward area"),
            Parameter("s", search=(0.1, 1.2), bounds=(1e-2, 5.0), meaning="exponent of the forward area"),
            Parameter("c2", linear=True, meaning="loss per LR dropped"),
            *own,
        )

    def kernel_params(self, params: Params) -> Params:
        return {f"kernel_{name}": params[name] for name in self.kernel_names}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in _renamed(self.kernel))

    def loss(self, params: Params, areas: Areas) -> Float[Array, " n"]:
        p = params
        return p["L0"] + p["c1"] * inverse_power(areas.forward_pt, p["s"]) - p["c2"] * areas.annealing_pt


def _renamed(kernel: Kernel) -> tuple[Parameter, ...]:
    """The kernel's parameters under their published names."""
    return tuple(replace(p, name=p.name.removeprefix("kernel_")) for p in kernel.parameters)
