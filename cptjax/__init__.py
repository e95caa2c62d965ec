"""cptjax: scaling laws of (continual) pre-training as a differentiable JAX engine.

Schedules, areas and laws are pure JAX functions of their parameters; fits need no start. The maths is done in float64,
which importing the package switches on for JAX (``jax_enable_x64``).
"""

import jax

jax.config.update("jax_enable_x64", True)

from cptjax.areas import Functional, Kernel, LRWeighted, Momentum, MultiPower, Power  # noqa: E402
from cptjax.datasets import dataset_names, load_dataset  # noqa: E402
from cptjax.errors import InputError  # noqa: E402
from cptjax.fitting import FitResult, fit, fit_jointly  # noqa: E402
from cptjax.laws import (  # noqa: E402
    AnnealingLaw,
    CPTLaw,
    CrossingLaw,
    ExponentialReplay,
    FunctionalLaw,
    Law,
    MultiPowerLaw,
    ShareReplay,
    published,
    published_names,
)
from cptjax.readers import read_manifest, read_planned, read_runs  # noqa: E402
from cptjax.runs import Run, Runs  # noqa: E402
from cptjax.schedules import (  # noqa: E402
    WSD,
    Constant,
    Cosine,
    Joined,
    Knots,
    Linear,
    Phase,
    Schedule,
    Steps,
    Table,
    from_array,
    from_optax,
)

__all__ = [
    "WSD",
    "AnnealingLaw",
    "CPTLaw",
    "Constant",
    "Cosine",
    "CrossingLaw",
    "ExponentialReplay",
    "FitResult",
    "Functional",
    "FunctionalLaw",
    "InputError",
    "Joined",
    "Kernel",
    "Knots",
    "LRWeighted",
    "Law",
    "Linear",
    "Momentum",
    "MultiPower",
    "MultiPowerLaw",
    "Phase",
    "Power",
    "Run",
    "Runs",
    "Schedule",
    "ShareReplay",
    "Steps",
    "Table",
    "dataset_names",
    "fit",
    "fit_jointly",
    "from_array",
    "from_optax",
    "load_dataset",
    "published",
    "published_names",
    "read_manifest",
    "read_planned",
    "read_runs",
]
