"""From the words of a command line to the laws to fit, with what was left open decided by the runs.

Two things are open in what the papers say, and a fit may decide them by its objective on the fit runs: how the initial
warm-up enters the areas (as if the LR were at its peak, Tissue et al. 2024, or as it was, Luo et al. 2025), and which
domain a replay factor is written for. :func:`choose_laws` returns all candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cptjax.areas import Kernel
from cptjax.errors import InputError
from cptjax.laws.base import Law
from cptjax.laws.registry import KERNELS, LAWS, REPLAYS
from cptjax.runs import Run

__all__ = ["Choices", "choose_laws", "choose_loss"]

ANY_KERNEL = ("annealing", "cpt", "crossing")
CONTINUAL = ("cpt", "crossing")
WARMUPS = ("auto", "flat", "full")


@dataclass(frozen=True)
class Choices:
    """What a user said about the law; ``None`` and ``"auto"`` leave it to the runs.

    Args:
        law: a name in ``LAWS``; by default ``cpt`` if some run has a continual phase, else ``annealing``.
        kernel: a name in ``KERNELS`` for the annealing and the CPT law; ``momentum`` by default.
        decay: the kernel's decay, or ``"fit"``; 0.999 by default.
        replay: ``none``, a name in ``REPLAYS``, or ``auto``: ``share`` if some run replays.
        warmup: ``flat``, ``full``, or ``auto``: both are tried, where a run has an initial warm-up.
        size: whether the loss depends on the model size; by default if the runs have several sizes.
        open_weights: whether the base model's training is unknown.
    """

    law: str | None = None
    kernel: str | None = None
    decay: float | Literal["fit"] | None = None
    replay: str = "auto"
    warmup: str = "auto"
    size: bool | None = None
    open_weights: bool = False


def _known(option: str, name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise InputError(f"{option} {name!r} is not known: choose {', '.join(names)}")
    return name


def choose_loss(runs: Sequence[Run], loss: str | None) -> str:
    """The validation set to fit: the one named, or the only one there is.

    Raises:
        InputError: several losses and no name, or a name that no run observes.
    """
    there = list(dict.fromkeys(name for run in runs for name in run.losses if run.observed(name)[0].size))
    if loss is None:
        if len(there) == 1:
            return there[0]
        raise InputError(f"several losses are observed: choose one with --loss: {', '.join(there)}")
    if loss not in there:
        raise InputError(f"no run observes the loss {loss!r}: --loss is one of {', '.join(there)}")
    return loss


def choose_laws(runs: Sequence[Run], choices: Choices) -> list[Law]:
    """The laws among which a fit keeps the one of lowest objective.

    Args:
        runs: the runs to fit.
        choices: what is decided already.

    Raises:
        InputError: an unknown name, or options that do not go together.
    """
    continual = any(run.transfer_step is not None for run in runs)
    name = _known("--law", choices.law or ("cpt" if continual or choices.open_weights else "annealing"), list(LAWS))
    warmup = _known("--warmup", choices.warmup, WARMUPS)
    options = _law_options(name, runs, choices)
    if name in ANY_KERNEL:
        kernel = _known("--kernel", choices.kernel or "momentum", list(KERNELS))
    else:
        kernel = name
        if choices.kernel not in (None, name):
            raise InputError(f"--law {name} has a kernel of its own: leave out --kernel, or choose --law annealing")
    form = _kernel_options(kernel, choices.decay)
    if warmup != "auto":
        tried: tuple[str | None, ...] = (warmup,)
    elif name not in ANY_KERNEL:
        tried = (None,)
    else:
        warmed = any(run.phases[0].name == "pt" and run.phases[0].schedule.warmup > 0 for run in runs)
        tried = ("flat", "full") if warmed and not choices.open_weights else ("flat",)
    return [_build(name, kernel, form, way, options) for way in tried]


def _build(name: str, kernel: str, form: dict[str, Any], warmup: str | None, options: dict[str, Any]) -> Law:
    if warmup is None:
        return LAWS[name](**options)
    chosen: Kernel = KERNELS[kernel](**form, warmup=warmup)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return LAWS[name](kernel=chosen, **options)


def _kernel_options(kernel: str, decay: float | Literal["fit"] | None) -> dict[str, Any]:
    if "decay" not in KERNELS[kernel].__dataclass_fields__:
        if decay is not None:
            raise InputError(f"--decay means nothing to the {kernel} kernel: leave it out")
        return {}
    if decay is None:
        return {}
    if decay == "fit":
        return {"decay": None}
    if not 0 <= decay < 1:
        raise InputError(f"--decay {decay:g} is outside [0, 1): give a number such as 0.999, or 'fit'")
    return {"decay": decay}


def _law_options(name: str, runs: Sequence[Run], choices: Choices) -> dict[str, Any]:
    replay = _known("--replay", choices.replay, ("auto", "none", *REPLAYS))
    sizes = {run.model_size for run in runs}
    options: dict[str, Any] = {}
    if name in ("annealing", "cpt"):
        options["size"] = choices.size if choices.size is not None else len(sizes - {None}) > 1 and None not in sizes
    elif choices.size:
        raise InputError(f"--law {name} has no model size: leave out --size")
    if name in CONTINUAL:
        if name == "cpt":
            options["unknown_history"] = choices.open_weights
        elif choices.open_weights:
            raise InputError(
                f"--law {name} needs the base model's training: leave out --open-weights, or use --law cpt"
            )
        if replay == "auto":
            replay = "share" if any(float(phase.replay_ratio) > 0 for run in runs for phase in run.phases) else "none"
        options["replay"] = None if replay == "none" else REPLAYS[replay]()
    elif choices.open_weights:
        raise InputError(f"--open-weights speaks of continual pre-training: leave out --law {name}")
    elif replay not in ("auto", "none"):
        raise InputError(f"--law {name} knows no replay: leave out --replay, or choose --law {' or '.join(CONTINUAL)}")
    return options
