"""Areas of a schedule: the summed LR, and what past LR drops have released by each step."""

from cptjax.areas.clock import LR_POWER, Clock
from cptjax.areas.history import Areas, History, compute_areas, record
from cptjax.areas.kernels import Functional, Kernel, LRWeighted, Momentum, MultiPower, Power, safe_power
from cptjax.areas.paths import Path, Warmup, replay_ratio
from cptjax.areas.recurrence import linear_recurrence

__all__ = [
    "LR_POWER",
    "Areas",
    "Clock",
    "Functional",
    "History",
    "Kernel",
    "LRWeighted",
    "Momentum",
    "MultiPower",
    "Path",
    "Power",
    "Warmup",
    "compute_areas",
    "linear_recurrence",
    "record",
    "replay_ratio",
    "safe_power",
]
