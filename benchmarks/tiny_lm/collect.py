"""Merge finished curves into the data set that ships with cptjax.

Every optimiser step is shipped once. A run of the grid shares its pre-training with others, so its
rows begin where its own history begins (with the row of the transfer point itself, the start of
every CPT curve); the rows before stand under the run that was trained first. ``--history full``
keeps all rows.

Manifests: ``runs.toml`` lists every finished run; ``code.toml`` and ``foldoc.toml`` hold what one
    CPT law describes (one domain, one model size, one batch: the pre-training runs and the runs
    into that domain); ``scratch.toml`` the hidden curves "from scratch", ``sizes.toml`` small and
    large models, ``variants.toml`` other seeds and batches.
"""

from __future__ import annotations

import datetime
import gzip
import json
import platform
from pathlib import Path

import jax
import numpy as np
import optax
import pandas as pd

from . import model
from .corpus import CORPORA, VALIDATION_SEED
from .grid import GRID, PEAK, Run, manifest, own_from, split_of
from .model import SIZES, init

__all__ = ["collect"]

TABLE = "curves.csv.gz"
# small runs that sizes.toml needs next to the large ones
_SIZE_PARTNERS = (
    "pt_constant",
    "code_linear",
    "code_constant",
    "code_cosine",
    "code_r33_linear",
    "foldoc_linear",
)


def _table(runs: list[Run], out: Path, history: str) -> pd.DataFrame:
    curves = []
    for run in runs:
        curve = pd.read_csv(out / f"{run.id}.csv")
        if history == "own":
            first = own_from(run, runs)
            keep = curve["step"] > first
            if run.cpt is not None:
                keep |= curve["step"] == run.pt_steps
            curve = curve[keep]
        curves.append(curve.assign(lr=run.rates()[curve["step"] - 1]))
    table = pd.concat(curves, ignore_index=True)
    for column in table.columns:
        if column.startswith("loss_"):
            table[column] = table[column].round(5)
    table["lr"] = [float(f"{x:.9g}") for x in table["lr"]]
    return table


def _groups(runs: list[Run]) -> dict[str, list[Run]]:
    groups = {"runs": list(runs)}
    for name in ("code", "foldoc", "scratch", "variants"):
        groups[name] = [run for run in runs if name in run.groups]
    groups["sizes"] = [r for r in runs if "sizes" in r.groups or r.id in _SIZE_PARTNERS]
    return {name: members for name, members in groups.items() if members}


def _card(runs: list[Run], table: pd.DataFrame, facts: dict[str, dict], history: str) -> str:
    """The data card, in Markdown."""
    sizes = "\n".join(
        f"| {s.name} | {s.width} | {s.layers} | {s.heads} | {s.parameters:,} | "
        f"{sum(x.size for x in jax.tree.leaves(init(s, 0).params)):,} |"
        for s in SIZES.values()
        if any(run.size == s.name for run in runs)
    )
    texts = "\n".join(
        f"| `loss_{name}` | {f['about']} | "
        + ", ".join(f"{package} {version}" for package, version in f["packages"].items())
        + f" | {f['licence']} | {f['train_bytes'] / 1e6:.1f} | {f['sequences']} | `{f['sha256']}` |"
        for name, f in facts.items()
    )
    splits = pd.Series([split_of(run) for run in runs]).value_counts()
    seeds = ", ".join(str(x) for x in sorted({run.seed for run in runs}))
    epoch = facts["foldoc"]["train_bytes"] / (32 * model.CONTEXT)
    versions = f"jax {jax.__version__}, optax {optax.__version__}, numpy {np.__version__}"
    rows = (
        "Every run's rows begin at its first step (shared histories repeat)."
        if history == "full"
        else "Each optimiser step is listed once: a run's rows begin where it leaves the runs\n"
        "listed before it in `runs.toml`, with the row of the transfer point in every CPT run."
    )
    return f"""# tiny-cpt: learning curves of continual pre-training, from real tiny models

{len(runs)} runs of {len(GRID)} planned ({splits.get("fit", 0)} fit, {splits.get("test", 0)} test),
{len(table):,} rows, collected {datetime.date.today()}. Made by `python -m benchmarks.tiny_lm`,
in float32 on one CPU core ({platform.machine()}, {versions}).

## Columns of `{TABLE}`
`run`; `step`, optimiser steps from the first pre-training step; `lr`, the learning rate used in
that step; `loss_*`, mean cross-entropy in nats per byte on a fixed sample of sequences of
{model.CONTEXT} bytes. Rows every 50 steps, every 25 in the first 200 steps of CPT, and the last.
{rows}

`runs.toml` lists every run. One CPT law describes one domain, model size and batch: use
`code.toml` (strong shift) or `foldoc.toml` (weak shift) for fits. `scratch.toml` holds runs
pre-trained on the new corpus itself (their phase is called `pt` but trains on code or FOLDOC),
`sizes.toml` two model sizes, `variants.toml` other seeds and batches (`b16`: 16 sequences a batch).

## Text
| column | what | packages | licence | train MB | sequences | SHA-256 of the text |
|---|---|---|---|---|---|---|
{texts}

D_pt is `loss_pt`, D_cpt is `loss_code` or `loss_foldoc`; the `loss_ood_*` sets are never trained
on. Bytes outside printable ASCII, tab and newline are dropped. Training and validation text share
no file (`code`) or no 16 kB block (`pt`, `foldoc`); the validation sample (seed {VALIDATION_SEED})
is the same for all runs. No text is shipped, only losses.

## Model and optimiser
| size | width | layers | heads | non-embedding parameters | all parameters |
|---|---|---|---|---|---|
{sizes}

Byte vocabulary, context {model.CONTEXT}, learned positions, pre-LayerNorm, GELU, tied output, no
dropout. AdamW, betas {model.BETAS[0]}/{model.BETAS[1]}, weight decay {model.WEIGHT_DECAY} on
matrices (times the learning rate), gradient norm clipped to {model.CLIP_NORM:g}, peak learning
rate {PEAK:g}, 32 sequences a batch. Adam's moments are kept at the transfer. Replay: each CPT
batch holds `replay_ratio * batch` sequences of D_pt on average (the fraction is drawn each step).

## Seeds
Seeds {seeds} of parameters and data. The batch of step t comes from (seed, stream, t); the stream
is the corpus in PT and the run's own name in CPT: runs share PT histories exactly and have
independent CPT data.

## Split
By kind, fixed before any curve existed. Test: CPT schedules cosine and wsd; replay ratios .2, .5
and .8; loss potential .3; CPT of more than 1,500 steps; `pt_continued` and `pt_cosine`. All else
is fit.

## Machines
Of the set that ships, 68 runs were trained on one kind of x86 CPU and the other 28 (large models,
batch 16, `scratch_foldoc`, `pt_cosine`, most other transfer points, and a few more) on another.
Rounding differs between the two; after some 300 steps this has grown to what two seeds differ by,
so a PT history is shared exactly within a kind only. The same kind, on one core, gives the same
digits again.

## Known limits
Models of 0.1 to 0.35 M parameters with a context of 64 bytes; 3,000 steps of pre-training are about
6 MB of text, far from convergence and less than one epoch (an epoch of FOLDOC is {epoch:.0f}
steps; longer runs on it repeat text). Single runs: at the peak rate one point of D_pt or D_cpt
scatters by .3 to .6 % around a smooth trend (standard deviation), of the other sets by up to 1 to
2 %, nearly independent from one row to the next and smaller at lower rates; `variants.toml` shows
how far seeds differ. `loss_code` and the other code-like sets do not fall during pre-training on
prose. The sets of one row share noise; all rows share the validation sample; CPT runs from the
same transfer point share its noise. The new corpora are small and not cleaned of duplicates.
"""


def collect(out: Path, target: Path, history: str = "own") -> list[Path]:
    """Write the table, the manifests and the data card of all finished runs.

    Args:
        out: folder of the curves.
        target: folder of the data set; its files are replaced.
        history: ``own`` (each step once) or ``full``.
    """
    runs = [run for run in GRID if (out / f"{run.id}.csv").exists()]
    facts = json.loads((out / "corpora.json").read_text())
    for corpus in CORPORA:
        facts[corpus.name] |= {"about": corpus.about, "licence": corpus.licence}
    target.mkdir(parents=True, exist_ok=True)
    table = _table(runs, out, history)
    files = [target / TABLE, target / "DATA_CARD.md"]
    text = table.to_csv(index=False, lineterminator="\n").encode()
    files[0].write_bytes(gzip.compress(text, 9, mtime=0))
    files[1].write_text(_card(runs, table, facts, history))
    files.append(target / "sources.json")
    files[-1].write_text(json.dumps(facts, indent=1) + "\n")
    for name, members in _groups(runs).items():
        files.append(target / f"{name}.toml")
        title = "tiny-cpt" if name == "runs" else f"tiny-cpt-{name}"
        files[-1].write_text(manifest(title, members, TABLE))
    return files
