"""From phases to the arrays that areas are computed from.

A *path* holds the LR of many runs over one part of training (all pre-training phases, or all continual ones), padded
to one length, with the LR drops that anneal and the steps where they jump. Areas restart at zero in each part.

How the initial warm-up enters is a convention of each law, the field :attr:`~cptjax.areas.Kernel.warmup` of its kernel:
``"flat"`` takes the LR as if it were at its peak already (annealing and CPT laws); ``"full"`` keeps the true rise,
in the forward area and as negative annealing (multi-power law); ``"forward"`` keeps it in the forward area only.
A re-warm-up in a continual phase always counts.
"""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from cptjax.errors import InputError
from cptjax.namespace import AnyArray, is_known, namespace
from cptjax.schedules import Joined, Phase, Schedule
from cptjax.shapes import rounded

__all__ = ["Path", "Warmup", "continual_path", "grid_length", "pretraining_path", "replay_ratio", "whole_path"]

Warmup = Literal["flat", "full", "forward"]


class Path(eqx.Module):
    r"""LRs of several runs over one part of training.

    Args:
        lr: :math:`\eta_1 \dots \eta_T` of each run; past a run's end the last LR is held.
        drops: :math:`\eta_{k-1} - \eta_k` that count as annealing.
        cuts: steps between which the drops are smooth, 0 first, padded by repeating the last.
        before: forward area before the part.
    """

    lr: Float[AnyArray, "runs steps"]
    drops: Float[AnyArray, "runs steps"]
    cuts: Int[AnyArray, "runs cuts"]
    before: Float[AnyArray, " runs"]

    @property
    def steps(self) -> int:
        """Length of the longest run."""
        return self.lr.shape[1]

    def forward(self) -> Float[AnyArray, "runs steps_and_0"]:
        r"""Forward areas :math:`S_1(t) = \sum_{i \le t} \eta_i` at t = 0 … T, counted from the part's start."""
        xp = namespace(self.lr)
        return xp.pad(xp.cumsum(self.lr, axis=1), ((0, 0), (1, 0)))


def _stack(
    lrs: Sequence[Float[AnyArray, " steps_and_0"]],
    drops_of: Sequence[Float[AnyArray, " steps_and_0"]],
    cuts: Sequence[tuple[int, ...]],
    before: Sequence[Float[AnyArray, ""]],
) -> Path:
    longest = max(len(c) for c in cuts)
    padded = np.array([[*c, *[c[-1]] * (longest - len(c))] for c in cuts])
    xp = namespace(lrs)
    levels = xp.stack(drops_of)
    return Path(xp.stack(lrs)[:, 1:], levels[:, :-1] - levels[:, 1:], padded, xp.stack(before))


def _joined(phases: Sequence[Phase], name: str) -> Schedule | None:
    parts = [phase.schedule for phase in phases if phase.name == name]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Joined(parts)  # pyright: ignore[reportCallIssue]


def _on_grid(
    schedules: Sequence[Schedule], warmup: Warmup, length: int
) -> tuple[list[Float[AnyArray, " t"]], list[Float[AnyArray, " t"]]]:
    grid = np.arange(length + 1)
    flat = [schedule.without_warmup()(grid) for schedule in schedules]
    true = flat if warmup == "flat" else [schedule(grid) for schedule in schedules]
    return true, (true if warmup == "full" else flat)


def grid_length(runs: Sequence[Sequence[Phase]]) -> int:
    """Steps of the grids of both parts: one length for both, so that fewer shapes are compiled."""
    parts = [_joined(phases, name) for phases in runs for name in ("pt", "cpt")]
    return rounded(max((part.steps for part in parts if part is not None), default=0), bits=2)


def pretraining_path(runs: Sequence[Sequence[Phase]], warmup: Warmup, length: int) -> Path | None:
    """The pre-training part of each run on a grid of that ``length``; ``None`` if no run has one."""
    joined = [_joined(phases, "pt") for phases in runs]
    schedules = [schedule for schedule in joined if schedule is not None]
    if not schedules:
        return None
    if len(schedules) < len(runs):
        raise InputError("some runs have a pt phase and some have none: fit them apart")
    lrs, levels = _on_grid(schedules, warmup, length)
    return _stack(lrs, levels, [schedule.cuts for schedule in schedules], [np.zeros(())] * len(runs))


def continual_path(runs: Sequence[Sequence[Phase]], pretraining: Path | None, length: int) -> Path | None:
    """The continual part of each run; ``None`` if no run has one. Its first drop is against the last LR before it.

    A run of unknown history (no pre-training phase) is taken to start from LR 0, as open-weights models do.
    """
    joined = [_joined(phases, "cpt") for phases in runs]
    if all(schedule is None for schedule in joined):
        return None
    area = None if pretraining is None else pretraining.forward()
    lrs, cuts, before = [], [], []
    for i, (phases, schedule) in enumerate(zip(runs, joined, strict=True)):
        last = area_before = np.zeros(())
        if pretraining is not None and area is not None:
            transfer = sum(phase.schedule.steps for phase in phases if phase.name == "pt")
            last, area_before = pretraining.lr[i, transfer - 1], area[i, transfer]
        before.append(area_before)
        if schedule is None:
            lrs.append(np.zeros(length + 1))
            cuts.append((0, 0))
            continue
        values = schedule(np.arange(1, length + 1), last)
        lrs.append(namespace(values).concatenate([last[None], values]))
        cuts.append(tuple(sorted({*schedule.cuts, 1})))
    return _stack(lrs, lrs, cuts, before)


def whole_path(runs: Sequence[Sequence[Phase]], warmup: Warmup) -> Path:
    """Both parts as one, for kernels whose memory carries over the transfer point."""
    schedules = [Joined([phase.schedule for phase in phases]) for phases in runs]  # pyright: ignore[reportCallIssue]
    lrs, levels = _on_grid(schedules, warmup, rounded(max(schedule.steps for schedule in schedules), bits=2))
    return _stack(lrs, levels, [schedule.cuts for schedule in schedules], [np.zeros(())] * len(runs))


def replay_ratio(phases: Sequence[Phase]) -> Float[AnyArray, ""]:
    """The replay ratio of a run's continual phases, 0 if it has none.

    Raises:
        InputError: the run changes its ratio half-way; no law here describes that.
    """
    ratios = [phase.replay_ratio for phase in phases if phase.name == "cpt"]
    known = [float(ratio) for ratio in ratios if is_known(ratio)]
    if len(set(known)) > 1:
        raise InputError(f"the replay ratio changes between cpt phases ({', '.join(map(str, known))}): use one a run")
    return ratios[0] if ratios else np.zeros(())
