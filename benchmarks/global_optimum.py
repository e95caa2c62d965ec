"""Does one call find the global optimum? 300 random problems with a known truth.

Each problem (``tests/synthetic.py``) has its own law (annealing, or CPT with either replay factor, on either domain),
schedules, lengths and parameters. Without noise the fit must predict the truth at every step; with 1e-3 log-noise its
objective must not exceed the truth's. No start is given. Counted besides: how much of a fit's wall time is tracing and
compiling, which a shape not seen before costs. Workers are renewed every ``BATCH`` problems: compiled code is never
given back, and a process that compiles for some hundreds of shapes runs into the kernel's limit on memory maps::

    python -m benchmarks.global_optimum --count 300 --jobs 1
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import jax.monitoring
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fitting.fit_reference import largest_error, objective_of
from synthetic import annealing_problem, cpt_problem

import cptjax as cj
from benchmarks.report import show

FAMILIES = {"annealing": annealing_problem, "cpt": cpt_problem}
NOISE = 1e-3
EXACT = 1e-6
BATCH = 50
COMPILING: list[float] = []
"""Seconds of every trace, lowering and compilation in this process."""


@jax.monitoring.register_event_duration_secs_listener
def _note(event: str, seconds: float, **_: object) -> None:
    if event.startswith("/jax/core/compile/"):
        COMPILING.append(seconds)


def examine(case: tuple[str, int]) -> dict:
    """Fit one problem without and with noise."""
    family, seed = case
    clean, noisy = FAMILIES[family](seed), FAMILIES[family](seed, NOISE)
    COMPILING.clear()
    start = time.perf_counter()
    exact = cj.fit(clean.law, clean.runs)
    found = cj.fit(noisy.law, noisy.runs)
    seconds, compiling = time.perf_counter() - start, sum(COMPILING)
    truth = objective_of(noisy, noisy.truth)
    return {
        "family": family,
        "seed": seed,
        "error": largest_error(clean, exact),
        "objective/truth": float(found.objective / truth),
        "objective-truth": float(found.objective - truth),
        "converged": exact.converged and found.converged,
        "seconds": seconds / 2,
        "compiling": compiling / 2,
    }


def _worst(rows: list[dict], key: str) -> list[dict]:
    return sorted(rows, key=lambda row: -row[key])[:3]


def main() -> int:
    """Fit every problem; exit status 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="problems, half of each family")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", type=Path, help="save every problem's row")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count // 2)
    cases = [(family, seed) for family in FAMILIES for seed in seeds]
    rows = []
    for first in range(0, len(cases), BATCH * options.jobs):
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            for row in pool.map(examine, cases[first : first + BATCH * options.jobs]):
                rows.append(row)
                failed = row["error"] > EXACT or row["objective/truth"] > 1
                if failed or len(rows) % 10 == 0:
                    print(f"{len(rows)}/{len(cases)} {'FAILED ' if failed else ''}{row}", flush=True)
    summary = []
    for family in FAMILIES:
        own = [row for row in rows if row["family"] == family]
        summary.append(
            {
                "family": family,
                "problems": len(own),
                "error > 1e-6": sum(row["error"] > EXACT for row in own),
                "largest error": max(row["error"] for row in own),
                "above truth": sum(row["objective/truth"] > 1 for row in own),
                "largest objective/truth": max(row["objective/truth"] for row in own),
                "objective-truth": max(row["objective-truth"] for row in own),
                "not converged": sum(not row["converged"] for row in own),
                "median s": float(np.median([row["seconds"] for row in own])),
                "worst s": max(row["seconds"] for row in own),
                "compiling": f"{sum(r['compiling'] for r in own) / sum(r['seconds'] for r in own):.0%}",
            }
        )
    show(summary)
    for key in ("error", "objective-truth", "seconds"):
        print(f"worst {key}:", *(f"{r['family']} {r['seed']}: {r[key]:.2g}" for r in _worst(rows, key)), sep="  ")
    if options.json:
        show(rows, options.json)
    return int(any(row["error > 1e-6"] or row["above truth"] for row in summary))


if __name__ == "__main__":
    sys.exit(main())
