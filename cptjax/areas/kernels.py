r"""Annealing kernels: how a drop of the LR turns into a drop of the loss.

Every kernel maps the LR of one part of training to an *annealing area* :math:`S_2(t)`, a sum over past LR drops
:math:`d_k = \eta_{k-1}-\eta_k` of what each has released by step ``t``. Laws multiply it by an amplitude and
subtract it.

A kernel works in two steps, so that a fit does once what does not depend on parameters: ``prepare`` turns LRs and
observed steps into plain arrays, ``area`` turns those and parameters into :math:`S_2`. A parameter given as a number
is fixed; one given as ``None`` is fitted, under the name listed in ``parameters``.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from cptjax.areas.paths import Path, Warmup
from cptjax.areas.quadrature import simpson_nodes
from cptjax.areas.recurrence import linear_recurrence
from cptjax.namespace import AnyArray, namespace
from cptjax.parameters import Parameter

__all__ = ["Functional", "Kernel", "LRWeighted", "Momentum", "MultiPower", "Nodes", "Power", "safe_power"]

Params = Mapping[str, Any]
Mode = Literal["fast", "exact"]


def safe_power(base: Float[AnyArray, "*shape"], exponent: Float[AnyArray, "..."] | float) -> Float[AnyArray, "*shape"]:
    """``base ** exponent`` for ``base > 0`` and 0 elsewhere, with zero gradients there instead of infinite ones."""
    positive = base > 0
    return jnp.where(positive, jnp.exp(exponent * jnp.log(jnp.where(positive, base, 1.0))), 0.0)


def safe_log(x: Float[AnyArray, "*shape"], tiny: float) -> Float[AnyArray, "*shape"]:
    """``log x``, and ``log tiny`` with zero gradient where ``x`` is zero."""
    xp = namespace(x)
    return xp.where(x > 0, xp.log(xp.where(x > 0, x, 1.0)), math.log(tiny))


class Kernel(eqx.Module):
    """Base of all kernels."""

    warmup: eqx.AbstractVar[Warmup]
    name: ClassVar[str]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters to fit."""
        return tuple(p for p in self.candidates() if getattr(self, _field(p.name)) is None)

    def candidates(self) -> tuple[Parameter, ...]:
        """Every parameter of the kernel, fixed or not."""
        raise NotImplementedError

    def get(self, params: Params, name: str) -> Float[AnyArray, ""]:
        """The value of a parameter: the fixed one, or that in ``params``."""
        fixed = getattr(self, _field(name))
        return jnp.asarray(params[name] if fixed is None else fixed, dtype=float)

    def prepare(self, path: Path, run: Int[AnyArray, " n"], step: Int[AnyArray, " n"]) -> Any:
        """Arrays that ``area`` needs to give the area of run ``run[i]`` at its step ``step[i]`` (0 gives 0)."""
        raise NotImplementedError

    def area(self, params: Params, prepared: Any) -> Float[AnyArray, " n"]:
        """Annealing areas of the prepared observations."""
        raise NotImplementedError

    def tabulated(self, prepared: Any) -> Any:
        """A form of ``prepared`` that is cheaper to evaluate over and over, as a fit does, and equal to 1e-9."""
        return prepared


def _field(name: str) -> str:
    return name.removeprefix("kernel_")


class _Drops(eqx.Module):
    lr: Float[AnyArray, "runs steps"]
    drops: Float[AnyArray, "runs steps"]
    run: Int[AnyArray, " n"]
    step: Int[AnyArray, " n"]


def _with_zero(x: Float[AnyArray, "runs steps"]) -> Float[AnyArray, "runs steps_and_0"]:
    return jnp.pad(x, ((0, 0), (1, 0)))


def _decay(search: tuple[float, float] = (0.9, 0.9999)) -> Parameter:
    return Parameter("decay", "memory", search=search, bounds=(0.0, 0.99999), meaning="decay of the LR momentum a step")


class Series(eqx.Module):
    r"""Momentum areas as Chebyshev series in the logarithm of the memory, :math:`-\log(1-\lambda)`.

    A fit evaluates the same observations under hundreds of decays. As functions of the log memory their areas are
    smooth, so a series replaces a pass over all steps by a sum of ``terms`` cosines an observation. With a fixed decay
    one term is left.
    """

    coefficients: Float[AnyArray, "terms n"]

    MIDDLE: ClassVar[float] = 5.75
    HALF: ClassVar[float] = 5.8
    TERMS: ClassVar[int] = 112

    @staticmethod
    def of(decay: Any, drops: _Drops) -> "Series":
        """The series of the areas, of one term if the decay is given."""
        if decay is not None:
            return Series(_areas_at(jnp.asarray(decay, dtype=float)[None], drops))
        angle = (np.arange(Series.TERMS) + 0.5) * np.pi / Series.TERMS
        decays = -np.expm1(-(Series.MIDDLE + Series.HALF * np.cos(angle)))
        basis = np.cos(np.arange(Series.TERMS)[:, None] * angle) * 2 / Series.TERMS
        basis[0] /= 2
        return Series(jnp.asarray(basis) @ _areas_at(jnp.asarray(decays), drops))

    def at(self, decay: Float[AnyArray, ""]) -> Float[AnyArray, " n"]:
        """The areas under a decay."""
        if self.coefficients.shape[0] == 1:
            return self.coefficients[0]
        angle = jnp.arccos((-jnp.log1p(-decay) - self.MIDDLE) / self.HALF)
        return jnp.cos(jnp.arange(self.TERMS) * angle) @ self.coefficients


@eqx.filter_jit
def _areas_at(decays: Float[AnyArray, " k"], drops: _Drops) -> Float[AnyArray, "k n"]:
    return jax.lax.map(lambda decay: _momentum_area(decay, drops), decays)


def _momentum_area(decay: Float[AnyArray, ""], prepared: _Drops | Series) -> Float[AnyArray, " n"]:
    if isinstance(prepared, Series):
        return prepared.at(decay)
    at = (prepared.run, prepared.step)
    momentum = _with_zero(linear_recurrence(decay, prepared.drops))[at]
    net = _with_zero(jnp.cumsum(prepared.drops, axis=1))[at]
    return (net - decay * momentum) / (1 - decay)


class Momentum(Kernel):
    r"""Momentum of LR drops, :math:`S_2(t)=\sum_{i\le t} m_i` with :math:`m_i=\lambda m_{i-1}+(\eta_{i-1}-\eta_i)`.

    Evaluated through :math:`S_2(t)=((\eta_0-\eta_t)-\lambda m_t)/(1-\lambda)`. Tissue et al. (2024), arXiv:2408.11029.

    Args:
        decay: :math:`\lambda` in [0, 1), a memory of :math:`1/(1-\lambda)` steps; ``None`` to fit it.
    """

    decay: float | Float[AnyArray, ""] | None = 0.999
    warmup: Warmup = eqx.field(static=True, default="flat", kw_only=True)
    name: ClassVar[str] = "momentum"

    def __check_init__(self) -> None:
        if isinstance(self.decay, int | float) and not 0 <= self.decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {self.decay}")

    def candidates(self) -> tuple[Parameter, ...]:
        return (_decay(),)

    def prepare(self, path: Path, run: Int[AnyArray, " n"], step: Int[AnyArray, " n"]) -> _Drops:
        return _Drops(path.lr, path.drops, run, step)

    def tabulated(self, prepared: _Drops) -> Series:
        return Series.of(self.decay, prepared)

    def area(self, params: Params, prepared: _Drops | Series) -> Float[AnyArray, " n"]:
        return _momentum_area(self.get(params, "decay"), prepared)


class LRWeighted(Kernel):
    r"""Momentum weighted by the LR, :math:`S_2=\sum_i m_i\,\eta_i^{\varepsilon}` (arXiv:2505.07796, App. J).

    Args:
        decay: :math:`\lambda`; ``None`` to fit it.
        epsilon: :math:`\varepsilon`, 0.1 to 0.2 in the paper; ``None`` to fit it (``kernel_epsilon``).
    """

    decay: float | Float[AnyArray, ""] | None = 0.999
    epsilon: float | Float[AnyArray, ""] | None = 0.15
    warmup: Warmup = eqx.field(static=True, default="flat", kw_only=True)
    name: ClassVar[str] = "lr-weighted"

    def candidates(self) -> tuple[Parameter, ...]:
        meaning = "exponent of the LR that weighs the momentum"
        return _decay(), Parameter("kernel_epsilon", search=(0.02, 0.5), bounds=(1e-6, 3.0), meaning=meaning)

    def prepare(self, path: Path, run: Int[AnyArray, " n"], step: Int[AnyArray, " n"]) -> _Drops:
        return _Drops(path.lr, path.drops, run, step)

    def area(self, params: Params, prepared: _Drops) -> Float[AnyArray, " n"]:
        momentum = linear_recurrence(self.get(params, "decay"), prepared.drops)
        weighted = momentum * safe_power(prepared.lr, self.get(params, "kernel_epsilon"))
        return _with_zero(jnp.cumsum(weighted, axis=1))[prepared.run, prepared.step]


class Power(Kernel):
    r"""A power of the momentum area, :math:`\operatorname{sign}(S_2)\,|S_2|^{\zeta}` (arXiv:2505.07796, App. J).

    The sign keeps a re-warm-up's negative area negative.

    Args:
        decay: :math:`\lambda`; ``None`` to fit it.
        zeta: :math:`\zeta`; ``None`` to fit it (``kernel_zeta``).
    """

    decay: float | Float[AnyArray, ""] | None = 0.999
    zeta: float | Float[AnyArray, ""] | None = None
    warmup: Warmup = eqx.field(static=True, default="flat", kw_only=True)
    name: ClassVar[str] = "power"

    def candidates(self) -> tuple[Parameter, ...]:
        meaning = "power of the annealing area"
        return _decay(), Parameter("kernel_zeta", search=(0.5, 1.5), bounds=(0.05, 5.0), meaning=meaning)

    def prepare(self, path: Path, run: Int[AnyArray, " n"], step: Int[AnyArray, " n"]) -> _Drops:
        return _Drops(path.lr, path.drops, run, step)

    def tabulated(self, prepared: _Drops) -> Series:
        return Series.of(self.decay, prepared)

    def area(self, params: Params, prepared: _Drops | Series) -> Float[AnyArray, " n"]:
        plain = _momentum_area(self.get(params, "decay"), prepared)
        return jnp.sign(plain) * safe_power(jnp.abs(plain), self.get(params, "kernel_zeta"))


class Nodes(eqx.Module):
    r"""Terms of the sums over past drops, all observations in one list.

    Args:
        owner: observation each term belongs to, in order.
        weight: quadrature weight times drop :math:`\eta_{k-1}-\eta_k`.
        features: what the kernel's release depends on, see :meth:`_Released.features`.
        count: number of observations.
    """

    owner: Int[AnyArray, " terms"]
    weight: Float[AnyArray, " terms"]
    features: tuple[Float[AnyArray, " terms"], ...]
    count: int = eqx.field(static=True)


class _Whole(eqx.Module):
    path: Path
    run: Int[AnyArray, " n"]
    step: Int[AnyArray, " n"]


class _Released(Kernel):
    """Kernels of the form ``sum_k (η_{k-1} − η_k) g_k(t)``, over all past steps or over quadrature nodes of them.

    The fast mode follows the parameters and the leaves of a schedule; its gradient with respect to *single* LRs is
    that of the quadrature, which sees only its nodes. Use ``mode="exact"`` (O(T) a prediction) to design LR by LR.
    """

    mode: eqx.AbstractVar[Mode]

    def features(
        self, lr: Float[AnyArray, " k"], span: Float[AnyArray, " k"], forward: Float[AnyArray, " k"]
    ) -> tuple[Float[AnyArray, " k"], ...]:
        r"""What the release of a drop depends on besides parameters.

        Args:
            lr: :math:`\eta_k`.
            span: :math:`S_k(t)=\sum_{i=k}^{t}\eta_i`.
            forward: forward area of the whole run up to and including step ``k``.
        """
        raise NotImplementedError

    def released(self, params: Params, features: tuple[Float[AnyArray, " k"], ...]) -> Float[AnyArray, " k"]:
        """Share ``g`` of each drop that has been released."""
        raise NotImplementedError

    def cuts(self, path: Path) -> Int[np.ndarray, "runs cuts"]:
        """Steps between which every drop and its release are smooth."""
        return path.cuts

    def prepare(self, path: Path, run: Int[AnyArray, " n"], step: Int[AnyArray, " n"]) -> Nodes | _Whole:
        if self.mode == "exact":
            return _Whole(path, run, step)
        xp = namespace(path, step)
        run, step, cuts = xp.asarray(run), xp.asarray(step), xp.asarray(self.cuts(path))
        k, weight = simpson_nodes(step, cuts[run], path.steps)
        owner = xp.repeat(xp.arange(step.shape[0]), k.shape[1])
        weight = (weight * path.drops[run[:, None], k - 1]).ravel()
        k = k.ravel()
        if xp is np:
            used = np.flatnonzero(weight)
            owner, weight, k = owner[used], weight[used], k[used]
        of, forward = run[owner], path.forward()
        span = (forward[of, step[owner]] - forward[of, k - 1]).clip(0.0)
        features = self.features(path.lr[of, k - 1], span, path.before[of] + forward[of, k])
        return Nodes(owner, weight, features, step.shape[0])

    def area(self, params: Params, prepared: Nodes | _Whole) -> Float[AnyArray, " n"]:
        if isinstance(prepared, Nodes):
            terms = prepared.weight * self.released(params, prepared.features)
            return jax.ops.segment_sum(terms, prepared.owner, prepared.count, indices_are_sorted=True)
        path = jax.tree.map(jnp.asarray, prepared.path)
        forward = path.forward()

        def one(at: tuple[Int[AnyArray, ""], Int[AnyArray, ""]]) -> Float[AnyArray, ""]:
            run, step = at
            span = jnp.maximum(forward[run, step] - forward[run, :-1], 0.0)
            features = self.features(path.lr[run], span, path.before[run] + forward[run, 1:])
            drops = path.drops[run] * self.released(params, features)
            return jnp.sum(jnp.where(jnp.arange(path.steps) < step, drops, 0.0))

        return jax.lax.map(one, (jnp.asarray(prepared.run), jnp.asarray(prepared.step)), batch_size=64)


class MultiPower(_Released):
    r"""Multi-power release, :math:`\sum_k (\eta_{k-1}-\eta_k)\,(1-(1+C\,\eta_k^{-\gamma}S_k(t))^{-\beta})`.

    :math:`S_k(t)=\sum_{i=k}^{t}\eta_i`. Luo et al. (2025), arXiv:2503.12811. The paper keeps the true warm-up, and
    taken literally its rise is part of the sum (``warmup="full"``); its schedule optimiser leaves the rise out
    (``"forward"``).

    Args:
        C: rate of release (per LR^(1-gamma)); ``None`` to fit it (``kernel_C``).
        beta: exponent of release; ``None`` to fit it (``kernel_beta``).
        gamma: exponent of the LR; ``None`` to fit it (``kernel_gamma``).
        mode: ``"fast"`` for quadrature, ``"exact"`` for every term of the sum.
    """

    C: float | Float[AnyArray, ""] | None = None
    beta: float | Float[AnyArray, ""] | None = None
    gamma: float | Float[AnyArray, ""] | None = None
    mode: Mode = eqx.field(static=True, default="fast", kw_only=True)
    warmup: Warmup = eqx.field(static=True, default="flat", kw_only=True)
    name: ClassVar[str] = "multipower"

    def candidates(self) -> tuple[Parameter, ...]:
        return (
            Parameter("kernel_C", search=(0.05, 50.0), bounds=(1e-8, 1e8), meaning="rate at which a drop is released"),
            Parameter("kernel_beta", search=(0.1, 2.0), bounds=(1e-3, 50.0), meaning="exponent of release"),
            Parameter("kernel_gamma", search=(0.1, 1.0), bounds=(1e-3, 3.0), meaning="exponent of the LR in release"),
        )

    def features(
        self, lr: Float[AnyArray, " k"], span: Float[AnyArray, " k"], forward: Float[AnyArray, " k"]
    ) -> tuple[Float[AnyArray, " k"], ...]:
        return safe_log(lr, 1e-30), safe_log(span, 1e-300)

    def released(self, params: Params, features: tuple[Float[AnyArray, " k"], ...]) -> Float[AnyArray, " k"]:
        log_lr, log_span = features
        c, beta, gamma = (self.get(params, f"kernel_{name}") for name in ("C", "beta", "gamma"))
        return 1 - jnp.exp(-beta * jnp.log1p(jnp.exp(jnp.log(c) - gamma * log_lr + log_span)))


class Functional(_Released):
    r"""Functional-scaling-law release, :math:`\sum_k(\eta_{k-1}-\eta_k)(c_3+T_k^{-s})(1-(1+c_4(T_t-T_k))^{-\gamma})`.

    :math:`T_k=S_1(k)` is the forward area of the whole run. Li et al. (2025), arXiv:2509.19189, App. B.2.

    Args:
        c3: release that does not fade with training; ``None`` to fit it (``kernel_c3``).
        c4: rate of release per unit of forward area; ``None`` to fit it (``kernel_c4``).
        gamma: exponent of release; ``None`` to fit it (``kernel_gamma``).
        s: exponent with which release fades over training; ``None`` to fit it (``kernel_s``).
        mode: ``"fast"`` for quadrature, ``"exact"`` for every term of the sum.
    """

    c3: float | Float[AnyArray, ""] | None = None
    c4: float | Float[AnyArray, ""] | None = None
    gamma: float | Float[AnyArray, ""] | None = None
    s: float | Float[AnyArray, ""] | None = None
    mode: Mode = eqx.field(static=True, default="fast", kw_only=True)
    warmup: Warmup = eqx.field(static=True, default="flat", kw_only=True)
    name: ClassVar[str] = "functional"

    def candidates(self) -> tuple[Parameter, ...]:
        return (
            Parameter("kernel_c3", search=(0.05, 20.0), bounds=(1e-6, 1e6), meaning="release that does not fade"),
            Parameter("kernel_c4", search=(10.0, 1e4), bounds=(1e-2, 1e9), unit="1/forward", meaning="rate of release"),
            Parameter("kernel_gamma", search=(0.1, 2.0), bounds=(1e-3, 50.0), meaning="exponent of release"),
            Parameter("kernel_s", search=(0.1, 1.0), bounds=(1e-3, 5.0), meaning="exponent of the fading of release"),
        )

    def features(
        self, lr: Float[AnyArray, " k"], span: Float[AnyArray, " k"], forward: Float[AnyArray, " k"]
    ) -> tuple[Float[AnyArray, " k"], ...]:
        return (span - lr).clip(0.0), forward

    def cuts(self, path: Path) -> Int[np.ndarray, "runs cuts"]:
        """The path's cuts and finer and finer ones towards step 0, where :math:`T_k^{-s}` is infinitely steep."""
        factor = 4 if self.warmup == "full" else 8
        graded = [factor**j - 1 for j in range(1, path.steps.bit_length()) if factor**j <= path.steps]
        graded = np.minimum(np.array([graded], dtype=int), path.cuts[:, -1:])
        return np.sort(np.concatenate([path.cuts, graded], axis=1), axis=1)

    def released(self, params: Params, features: tuple[Float[AnyArray, " k"], ...]) -> Float[AnyArray, " k"]:
        later, forward = features
        c3, c4, gamma, s = (self.get(params, f"kernel_{name}") for name in ("c3", "c4", "gamma", "s"))
        return (c3 + safe_power(forward, -s)) * -jnp.expm1(-gamma * jnp.log1p(c4 * later))
