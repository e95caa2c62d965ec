"""Train the runs of the grid, one after another, each step of shared history only once.

A curve is a pure function of its run: initial parameters come from the run's seed, the batch of
step ``t`` from ``(seed, stream, t)``, the learning rate from the schedule. The stream of
pre-training is the corpus, the same for all runs, so that runs with equal rates have equal
histories and can share checkpoints; the stream of continual pre-training is the run's own name. A
finished run is a csv file, written in one move; deleting it is asking for it again. Rebuilding one
run in an empty folder repeats its whole history and, on the same kind of machine, gives the same
digits.
"""

from __future__ import annotations

import hashlib
import pickle
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from .corpus import CORPORA, Corpora
from .grid import Run, branch_points
from .model import CONTEXT, SIZES, TrainState, evaluate, init, train_chunk

__all__ = ["CHUNK", "batch_at", "clock", "cost", "now", "observed", "remaining", "train_run"]

CHUNK = 25  # optimiser steps in one call; every observed step is a multiple
SLICE = 32  # sequences evaluated at once

Row = dict[str, float]


def cost(run: Run, start: int = 0) -> float:
    """Work of a run from step ``start`` on, in steps of the small model at batch 32."""
    return (run.steps - start) * run.batch / 32 * {"small": 1.0, "large": 3.0}[run.size]


def observed(run: Run) -> set[int]:
    """Steps at which the run is evaluated: every 50, every 25 early in CPT, and the last."""
    steps = set(range(50, run.steps + 1, 50)) | {run.pt_steps, run.steps}
    if run.cpt is not None:
        steps |= set(range(run.pt_steps, run.pt_steps + 201, 25))
    return steps - {0}


def batch_at(run: Run, step: int, corpora: Corpora) -> np.ndarray:
    """The sequences of optimiser step ``step`` (from 1), ``(batch, CONTEXT + 1)`` bytes.

    In CPT each batch holds ``replay_ratio * batch`` sequences of D_pt on average: the whole part
    always, one more with the probability of the rest.
    """
    in_cpt = step > run.pt_steps
    stream = run.id if in_cpt else f"pretraining on {run.pt_domain}"
    rng = np.random.default_rng([run.seed, zlib.crc32(stream.encode()), step])
    replayed = 0
    if in_cpt and run.cpt is not None and run.cpt.replay_ratio:
        replayed = int(np.floor(run.cpt.replay_ratio * run.batch + rng.random()))
    parts = []
    for name, count in (
        (run.pt_domain, replayed),
        (run.domain if in_cpt else run.pt_domain, run.batch - replayed),
    ):
        text = corpora.train[name]
        starts = rng.integers(0, len(text) - CONTEXT, count)
        parts.append(text[starts[:, None] + np.arange(CONTEXT + 1)])
    return np.concatenate(parts)


class _Evaluator:
    """Loss on the fixed sample of every validation set."""

    def __init__(self, corpora: Corpora) -> None:
        slices = [corpora.validation[c.name].reshape(-1, SLICE, CONTEXT + 1) for c in CORPORA]
        self.samples = jnp.asarray(np.concatenate(slices))
        self.owner = np.repeat(np.arange(len(slices)), [len(x) for x in slices])

    def __call__(self, state: TrainState, run: Run) -> Row:
        losses = np.asarray(evaluate(state.params, self.samples, SIZES[run.size]), np.float64)
        return {f"loss_{corpus.name}": float(losses[self.owner == i].mean()) for i, corpus in enumerate(CORPORA)}


def _write(path: Path, data: bytes) -> None:
    """Write a file in one move, so that an interrupted run leaves no half of it."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)


def _checkpoint(run: Run, rates: np.ndarray, step: int, folder: Path) -> Path:
    """Where the state after ``step`` pre-training steps lies: named by everything that made it."""
    history = f"{run.size} {run.batch} {run.seed} {run.pt_domain} {step} ".encode()
    return folder / f"{hashlib.sha256(history + rates[:step].tobytes()).hexdigest()[:24]}.pkl"


def train_run(
    run: Run, corpora: Corpora, out: Path, progress: Callable[[int], None] = lambda step: None
) -> pd.DataFrame:
    """Train one run, from the latest checkpoint of its history, and write ``out/<id>.csv``.

    Args:
        run: what to train.
        corpora: the texts.
        out: folder of the curves; checkpoints go to ``out/checkpoints``.
        progress: called with the step after every chunk.
    """
    size = SIZES[run.size]
    rates = run.rates()
    evaluator = _Evaluator(corpora)
    watched = observed(run)
    checkpoints = out / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    kept = {step for step in branch_points() if step <= run.pt_steps}

    state, rows, step = init(size, run.seed), [], 0
    for point in sorted(kept, reverse=True):
        path = _checkpoint(run, rates, point, checkpoints)
        if path.exists():
            leaves, rows = pickle.loads(path.read_bytes())
            state = jax.tree.unflatten(jax.tree.structure(state), map(jnp.asarray, leaves))
            rows, step = list(rows), point
            break

    while step < run.steps:
        steps = range(step + 1, step + CHUNK + 1)
        batches = np.stack([batch_at(run, s, corpora) for s in steps])
        state = train_chunk(state, jnp.asarray(batches), jnp.asarray(rates[step : step + CHUNK], jnp.float32), size)
        step += CHUNK
        if step in watched:
            rows.append({"step": step, "lr": rates[step - 1], **evaluator(state, run)})
            if not np.isfinite(rows[-1]["loss_pt"]):
                raise FloatingPointError(f"{run.id}: loss is not finite at step {step}")
        if step in kept:
            leaves = [np.asarray(x) for x in jax.tree.leaves(state)]
            _write(_checkpoint(run, rates, step, checkpoints), pickle.dumps((leaves, rows)))
        progress(step)

    curve = pd.DataFrame(rows)
    curve.insert(0, "run", run.id)
    _write(out / f"{run.id}.csv", curve.to_csv(index=False).encode())
    return curve


def remaining(runs: list[Run], out: Path) -> list[Run]:
    """The runs without a curve yet."""
    return [run for run in runs if not (out / f"{run.id}.csv").exists()]


def clock(seconds: float) -> str:
    """``1 h 05``, ``12 min`` or ``40 s``."""
    if seconds >= 3600:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d}"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def now() -> str:
    """The time of day, for the log."""
    return time.strftime("%H:%M:%S")
