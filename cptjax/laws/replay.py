r"""How replay scales the distribution shift.

Replaying a share :math:`r_\text{pt}` of pre-training data (the domain has the share :math:`r_\text{cpt}=1-r_\text{pt}`)
shrinks what continual pre-training does to a loss. Both fillings here scale the shift by a factor that is 1 without
replay and 0 at full replay, so that ``B`` keeps its meaning.

*Exponential*, the form of Wang et al. (2025), arXiv:2505.07796: one family :math:`(e^{a r}-1)/(e^{a}-1)` in
:math:`r=r_\text{cpt}`. Its Eq. 8 prints one sign of :math:`a` for the old domain and the other for the new; the paper's
own separate fits per ratio, its optimal ratios and real curves all want them the other way round (:math:`a>0` for the
old domain, :math:`a<0` for the new), so the sign is left free.

*Share*: the loss on a set falls like a small power of that set's *own* share of the batches, :math:`r_\text{cpt}^{k}`
on the new domain and :math:`(q(r_\text{pt}+\varepsilon)-q(1+\varepsilon))/(q(\varepsilon)-q(1+\varepsilon))`,
:math:`q(z)=(z^{-\gamma}-1)/\gamma`, on the old one. Closer to the paper's fits per ratio and to real curves than any
exponential; the default.
"""

from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from cptjax.areas import safe_power
from cptjax.parameters import Parameter

__all__ = ["ExponentialReplay", "Replay", "ShareReplay", "exponential_share"]

Params = Mapping[str, Any]
Side = Literal["pt", "cpt"]


def exponential_share(a: Float[Array, "..."] | float, r: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r""":math:`(e^{a r}-1)/(e^{a}-1)`, equal to ``r`` in the limit ``a = 0``, smooth through it."""
    a = jnp.asarray(a, dtype=float)
    small = jnp.abs(a) < 1e-3
    safe = jnp.where(small, 1.0, a)
    series = r * (1 + a * (r - 1) / 2 + a**2 * (r - 1) * (2 * r - 1) / 12 + a**3 * r * (r - 1) ** 2 / 24)
    return jnp.where(small, series, jnp.expm1(safe * r) / jnp.expm1(safe))


class Replay(eqx.Module):
    """Base of the replay factors."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the factors."""
        raise NotImplementedError

    @property
    def side(self) -> Side | None:
        """Which domain the factor is written for: ``"pt"`` (old, ``B > 0``), ``"cpt"`` (new, ``B < 0``), or either."""
        return None

    def alternatives(self) -> tuple["Replay", ...]:
        """The forms a fit chooses among."""
        return (self,)

    def shift(self, params: Params, replay_ratio: Float[Array, " n"]) -> Float[Array, " n"]:
        """Factor of the shift term at each replay ratio."""
        raise NotImplementedError

    def annealing(self, params: Params, replay_ratio: Float[Array, " n"]) -> Float[Array, " n"]:
        """Factor of the continual annealing term at each replay ratio."""
        return jnp.ones_like(replay_ratio)


class ExponentialReplay(Replay):
    r"""The paper's factors: shift :math:`(e^{a_2 r_\text{cpt}}-1)/(e^{a_2}-1)`, annealing :math:`e^{a_1 r_\text{pt}}`.

    Args:
        anneal: whether replay also scales the annealing term (parameter ``a1``, else fixed at 0).
    """

    anneal: bool = eqx.field(static=True, default=True)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        a2 = Parameter("a2", "real", search=(-12.0, 12.0), bounds=(-100.0, 100.0), meaning="replay factor of the shift")
        a1 = Parameter("a1", "real", search=(-0.5, 0.5), bounds=(-10.0, 10.0), meaning="replay factor of the annealing")
        return (a2, a1) if self.anneal else (a2,)

    def shift(self, params: Params, replay_ratio: Float[Array, " n"]) -> Float[Array, " n"]:
        return exponential_share(params["a2"], 1 - replay_ratio)

    def annealing(self, params: Params, replay_ratio: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.exp(params["a1"] * replay_ratio) if self.anneal else jnp.ones_like(replay_ratio)


class ShareReplay(Replay):
    r"""A small power of the set's own share of the batches (see the module's text).

    The old domain's factor is :func:`exponential_share` with :math:`a=\gamma\Lambda` in the variable
    :math:`\log\frac{1+\varepsilon}{r_\text{pt}+\varepsilon}/\Lambda`, with
    :math:`\Lambda=\log\frac{1+\varepsilon}{\varepsilon}`.

    Args:
        of: the domain of the validation set, ``"pt"`` (parameters ``replay_gamma``, ``replay_epsilon``) or ``"cpt"``
            (``replay_k``). Left open, a fit tries both and keeps the better.
    """

    of: Side | None = eqx.field(static=True, default=None)

    @property
    def side(self) -> Side | None:
        return self.of

    def alternatives(self) -> tuple[Replay, ...]:
        return (self,) if self.of else (ShareReplay("pt"), ShareReplay("cpt"))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        if self.of == "cpt":
            return (Parameter("replay_k", search=(0.03, 1.0), bounds=(1e-4, 10.0), meaning="power of the new share"),)
        return (
            Parameter("replay_gamma", "real", search=(-0.5, 1.5), bounds=(-3.0, 5.0), meaning="power of the old share"),
            Parameter("replay_epsilon", search=(3e-3, 0.3), bounds=(1e-5, 10.0), meaning="offset of the old share"),
        )

    def shift(self, params: Params, replay_ratio: Float[Array, " n"]) -> Float[Array, " n"]:
        if (self.of or ("cpt" if "replay_k" in params else "pt")) == "cpt":
            return safe_power(1 - replay_ratio, params["replay_k"])
        gamma, epsilon = params["replay_gamma"], params["replay_epsilon"]
        whole = jnp.log1p(epsilon) - jnp.log(epsilon)
        part = (jnp.log1p(epsilon) - jnp.log(replay_ratio + epsilon)) / whole
        return exponential_share(gamma * whole, part)
