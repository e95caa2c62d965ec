"""Does one call find the global optimum? 300 random problems with a known truth.

Each problem (``tests/synthetic.py``) has its own law (annealing, or CPT with either replay factor, on either domain),
schedules, lengths and parameters. Without noise the fit must predict the truth at every step; with 1e-3 log-noise its
objective must not exceed the truth's. No start is given::

    python -m benchmarks.global_optimum --count 300
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fitting.fit_reference import largest_error, objective_of
from synthetic import annealing_problem, cpt_problem

import cptjax as cj
from benchmarks.report import show

FAMILIES = {"annealing": annealing_problem, "cpt": cpt_problem}
NOISE = 1e-3
EXACT = 1e-6


def examine(case: tuple[str, int]) -> dict:
    """Fit one problem without and with noise."""
    family, seed = case
    clean, noisy = FAMILIES[family](seed), FAMILIES[family](seed, NOISE)
    start = time.perf_counter()
    exact = cj.fit(clean.law, clean.runs)
    found = cj.fit(noisy.law, noisy.runs)
    seconds = time.perf_counter() - start
    truth = objective_of(noisy, noisy.truth)
    return {
        "family": family,
        "seed": seed,
        "error": largest_error(clean, exact),
        "objective/truth": found.objective / truth,
        "converged": exact.converged and found.converged,
        "seconds": seconds / 2,
    }


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
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for row in pool.map(examine, cases):
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
                "not converged": sum(not row["converged"] for row in own),
                "median s": float(np.median([row["seconds"] for row in own])),
            }
        )
    show(summary)
    if options.json:
        show(rows, options.json)
    return int(any(row["error > 1e-6"] or row["above truth"] for row in summary))


if __name__ == "__main__":
    sys.exit(main())
