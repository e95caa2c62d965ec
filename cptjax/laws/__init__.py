"""Laws: from the areas of a schedule to a loss. One family a file."""

from cptjax.laws.annealing import AnnealingLaw, FunctionalLaw, MultiPowerLaw
from cptjax.laws.base import Law
from cptjax.laws.cpt import ContinualLaw, CPTLaw
from cptjax.laws.crossing import CrossingLaw
from cptjax.laws.published import published, published_names
from cptjax.laws.replay import ExponentialReplay, Replay, ShareReplay

__all__ = [
    "AnnealingLaw",
    "CPTLaw",
    "ContinualLaw",
    "CrossingLaw",
    "ExponentialReplay",
    "FunctionalLaw",
    "Law",
    "MultiPowerLaw",
    "Replay",
    "ShareReplay",
    "published",
    "published_names",
]
