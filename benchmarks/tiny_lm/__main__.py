"""Command line of the tiny-LM trainer.

Examples::

    python -m benchmarks.tiny_lm --list                       # the runs, their split and state
    python -m benchmarks.tiny_lm                              # the whole grid, resumable: hours on one core
    python -m benchmarks.tiny_lm collect cptjax/data/tiny_cpt # merge finished curves into the data set
    python -m benchmarks.tiny_lm --only code_t1000_linear --out new --compare cptjax/data/tiny_cpt/curves.csv.gz
                                                              # rebuild one run from scratch
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import time
from pathlib import Path

# One thread a process, and one core (see _pin): sums are then added in one order, and a rebuild
# gives the same digits. Must be set before jax starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
if _ONE_THREAD not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from .collect import collect  # noqa: E402
from .corpus import TRAINING_SETS, Corpora, load_corpora  # noqa: E402
from .grid import GRID, Run, own_from, split_of  # noqa: E402
from .train import CHUNK, clock, cost, now, remaining, train_run  # noqa: E402

_HOME = Path.home() / ".cache" / "cptjax-tiny-lm"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiny_lm", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", nargs="?", default="train", choices=("train", "collect"))
    parser.add_argument("target", nargs="?", type=Path, help="collect: folder of the data set")
    parser.add_argument("--out", type=Path, default=_HOME / "curves", help="folder of the curves")
    parser.add_argument("--cache", type=Path, default=_HOME / "packages", help="folder of the text")
    parser.add_argument("--only", help="names of runs, separated by commas; * and ? are wildcards")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one core each")
    parser.add_argument("--list", action="store_true", help="show the grid and stop")
    parser.add_argument("--compare", type=Path, help="a shipped table to compare the runs with")
    parser.add_argument("--history", choices=("own", "full"), default="own", help="collect: rows")
    return parser


def _choose(only: str | None) -> list[Run]:
    if only is None:
        return list(GRID)
    patterns = [pattern.strip() for pattern in only.split(",")]
    chosen = [run for run in GRID if any(fnmatch.fnmatch(run.id, p) for p in patterns)]
    if not chosen:
        sys.exit(f"no run is called {only!r}; see --list")
    return chosen


def _show(runs: list[Run], out: Path) -> None:
    for i, run in enumerate(runs, 1):
        state = "done" if (out / f"{run.id}.csv").exists() else "-"
        steps = "+".join(str(phase.steps) for phase in run.phases)
        print(f"{i:3d}  {run.id:32s} {split_of(run):5s} {run.size:6s} {steps:10s} {state}")


def _own_cost(run: Run, runs: list[Run]) -> float:
    return cost(run, own_from(run, runs))


class _Meter:
    """Progress of one run: what was really trained and, on a terminal, the time left in it."""

    def __init__(self, run: Run) -> None:
        self.run, self.started = run, time.monotonic()
        self.first = self.last = -1

    def __call__(self, step: int) -> None:
        if self.first < 0:
            self.first = step - CHUNK
        self.last = step
        if sys.stdout.isatty():
            left = clock(self.pace * (self.run.steps - step))
            text = f"{self.run.id}: step {step}/{self.run.steps}, {left} left"
            print(f"\r{text:70s}", end="\n" if step == self.run.steps else "", flush=True)

    @property
    def trained(self) -> int:
        return self.last - self.first

    @property
    def pace(self) -> float:
        """Seconds a step, evaluations included."""
        return (time.monotonic() - self.started) / max(self.trained, 1)


def _train(runs: list[Run], corpora: Corpora, out: Path) -> None:
    """Train the runs that have no curve yet; a line a run with the time left in all."""
    todo = remaining(runs, out)
    done = len(runs) - len(todo)
    print(f"{now()}  {done} of {len(runs)} runs done, {len(todo)} to go", flush=True)
    total = sum(_own_cost(run, runs) for run in todo)
    begun, worked = time.monotonic(), 0.0
    for run in todo:
        if (out / f"{run.id}.csv").exists():  # another process was faster
            continue
        meter = _Meter(run)
        last = train_run(run, corpora, out, meter).iloc[-1]
        worked += _own_cost(run, runs)
        left = clock((time.monotonic() - begun) / worked * (total - worked))
        done = len(runs) - len(remaining(runs, out))
        losses = " ".join(f"{name} {last[f'loss_{name}']:.4f}" for name in TRAINING_SETS)
        print(
            f"{now()}  {done}/{len(runs)}  {run.id}: {losses}, "
            f"{meter.trained} steps at {meter.pace:.4f} s; {left} left",
            flush=True,
        )


def _pin() -> None:
    """Keep this process on one core: XLA splits sums by the cores it sees, and a rebuild must add in the same order."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(os.environ.get("TINY_LM_WORKER", "0")) % len(cores)]})


def _train_side_by_side(runs: list[Run], options: argparse.Namespace) -> None:
    """Share the runs out to processes of this very command, those without CPT first.

    The others begin from the checkpoints that these leave.
    """
    command = [sys.executable, "-m", __package__ or "benchmarks.tiny_lm"]
    command += ["--out", str(options.out), "--cache", str(options.cache)]
    for stage in ([r for r in runs if r.cpt is None], [r for r in runs if r.cpt is not None]):
        shares = [",".join(r.id for r in stage[i :: options.jobs]) for i in range(options.jobs)]
        workers = [
            subprocess.Popen([*command, "--only", share], env={**os.environ, "TINY_LM_WORKER": str(i)})
            for i, share in enumerate(shares)
            if share
        ]
        exits = [worker.wait() for worker in workers]
        if any(exits):
            sys.exit("a worker failed; the finished curves are kept, run the command again")


def _other_text(corpora: Corpora, earlier: Path) -> str:
    """Which texts differ from those recorded in a file: Debian moves on, and losses with it."""
    if not earlier.exists():
        return ""
    told = json.loads(earlier.read_text())
    return "; ".join(
        f"{name} is {facts['packages']}, was {told[name]['packages']}"
        for name, facts in corpora.facts.items()
        if facts["sha256"] != told[name]["sha256"]
    )


def _compare(runs: list[Run], out: Path, table: Path) -> None:
    """Print how far the curves in ``out`` are from a shipped table, over common steps."""
    shipped = pd.read_csv(table)
    for run in runs:
        mine = pd.read_csv(out / f"{run.id}.csv")
        theirs = shipped[shipped["run"] == run.id]
        both = mine.merge(theirs, on="step", suffixes=("", "_shipped"))
        losses = [c for c in mine.columns if c.startswith("loss_")]
        shipped_losses = both[[f"{c}_shipped" for c in losses]].to_numpy()
        gap = np.abs(both[losses].to_numpy().round(5) - shipped_losses.round(5))
        verdict = "identical" if gap.max() < 1e-9 else f"largest difference {gap.max():.5f} nats"
        print(f"{run.id}: {len(both)} of {len(theirs)} shipped rows compared, {verdict}")


def main() -> None:
    """Parse the command line and do what it says."""
    options = _parser().parse_args()
    if options.command == "collect":
        if options.target is None:
            sys.exit("collect needs a folder to write to")
        for path in collect(options.out, options.target, options.history):
            print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
        return
    runs = _choose(options.only)
    if options.list:
        _show(runs, options.out)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    corpora = load_corpora(options.cache)
    begun = options.out / "corpora.json"
    if changed := _other_text(corpora, begun):
        sys.exit(f"{options.out} holds curves of another text ({changed}): take a new --out")
    begun.write_text(json.dumps(corpora.facts, indent=1))
    if options.compare is not None and (changed := _other_text(corpora, options.compare.parent / "sources.json")):
        print(f"warning: not the shipped text, so losses will differ: {changed}")
    if options.jobs == 1:
        _pin()
        _train(runs, corpora, options.out)
    else:
        _train_side_by_side(runs, options)
    if options.compare is not None:
        _compare(runs, options.out, options.compare)


if __name__ == "__main__":
    main()
