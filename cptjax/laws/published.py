r"""Constants published with the laws, as named constructors.

The CPT constants are Wang et al. (2025), arXiv:2505.07796: FineWeb as the old domain, Knowledge-Pile or Pile-of-Law as
the new one, peak LR 2e-4, batches of 4M tokens, :math:`\lambda = 0.999`. The multi-power constants are Luo et al.
(2025), arXiv:2503.12811, fitted with a 2160-step warm-up to 3e-4 that is part of the sum.
"""

from cptjax.laws.annealing import MultiPowerLaw
from cptjax.laws.base import Law
from cptjax.laws.cpt import CPTLaw

__all__ = ["published", "published_names"]

_CPT_NAMES = ("L0", "A", "alpha", "B", "E", "beta", "C1", "C2")
_CPT = {
    "fineweb/knowledge-pile/106M": (3.057, 0.490, 0.497, 0.366, 28, 0.189, 0.299, 0.298),
    "knowledge-pile/106M": (3.024, 0.412, 0.677, -0.666, 5662, 0.146, 0.278, 0.324),
    "fineweb/pile-of-law/106M": (3.064, 0.482, 0.511, 1.353, 37, 0.262, 0.294, 0.264),
    "pile-of-law/106M": (2.978, 0.485, 0.701, -1.409, 383, 0.368, 0.274, 0.298),
    "fineweb/knowledge-pile/106M/replay-33%": (3.067, 0.481, 0.515, 0.077, 6, 0.608, 0.298, 0.284),
    "fineweb/knowledge-pile/106M/replay-50%": (3.068, 0.480, 0.518, 0.046, 3, 0.915, 0.294, 0.269),
    "fineweb/knowledge-pile/106M/replay-67%": (3.069, 0.479, 0.519, 0.105, 11, 0.069, 0.295, 0.280),
    "knowledge-pile/106M/replay-33%": (3.020, 0.441, 0.696, -0.632, 5046, 0.145, 0.273, 0.275),
    "knowledge-pile/106M/replay-50%": (3.017, 0.442, 0.686, -0.599, 6484, 0.144, 0.277, 0.277),
    "knowledge-pile/106M/replay-67%": (3.017, 0.442, 0.685, -0.532, 5693, 0.166, 0.274, 0.276),
    "fineweb/knowledge-pile/594M": (2.688, 0.526, 0.483, 29.121, 100, 0.001, 0.437, 0.395),
    "knowledge-pile/594M": (2.657, 0.443, 0.566, -0.518, 100, 0.424, 0.360, 0.358),
    "fineweb/knowledge-pile/1720M": (2.496, 0.569, 0.474, 8.710, 100, 0.004, 0.485, 0.438),
    "knowledge-pile/1720M": (2.557, 0.407, 0.682, -0.527, 100, 0.390, 0.440, 0.412),
}
_SIZED_NAMES = ("L0", "A", "alpha", "B", "E", "beta", "C1", "gamma1", "C2", "gamma2", "F", "gamma3")
_SIZED = {
    "fineweb/knowledge-pile/all-sizes": (
        1.829,
        0.504,
        0.537,
        0.278,
        12,
        0.359,
        0.090,
        0.235,
        0.103,
        0.199,
        3.072,
        0.195,
    ),
    "knowledge-pile/all-sizes": (1.860, 0.438, 0.585, -0.552, 187, 0.326, 0.333, 0.012, 0.140, 0.145, 2.718, 0.189),
}
_MULTIPOWER_NAMES = ("L0", "A", "alpha", "B", "C", "beta", "gamma")
_MULTIPOWER = {
    "multipower/25M": (3.04045, 0.52469, 0.50787, 363.788, 2.0656, 0.58279, 0.64142),
    "multipower/100M": (2.65145, 0.60115, 0.45296, 437.946, 2.13246, 0.59785, 0.65524),
}


def published_names() -> tuple[str, ...]:
    """Every name that :func:`published` knows."""
    return (*_CPT, *_SIZED, *_MULTIPOWER)


def published(name: str) -> tuple[Law, dict[str, float]]:
    """A law and its published constants.

    Args:
        name: one of :func:`published_names`: the validation set, for the old domain also the new one it was continued
            on, and the model size (``all-sizes`` for the law with size, N in millions).

    Raises:
        KeyError: an unknown name; the message lists them.

    >>> law, params = published("knowledge-pile/106M")
    >>> params["B"]
    -0.666
    """
    if name in _CPT:
        return CPTLaw(), dict(zip(_CPT_NAMES, map(float, _CPT[name]), strict=True))
    if name in _SIZED:
        return CPTLaw(size=True), dict(zip(_SIZED_NAMES, map(float, _SIZED[name]), strict=True))
    if name in _MULTIPOWER:
        return MultiPowerLaw(), dict(zip(_MULTIPOWER_NAMES, _MULTIPOWER[name], strict=True))
    raise KeyError(f"no published constants called {name!r}; known: {', '.join(published_names())}")
