"""How long a person waits: a fit from a cold start, in a process of its own.

By default the library, and where its time goes: importing cptjax, reading the curves, the first fit (which compiles)
and the same fit again (which does not). With ``--cli`` the command ``cptjax fit``, import, compilation, fit, test and
plot included. Commands take turns, so that all see the same machine; CPU seconds say how much of a wall time was work,
should others use the machine (those of the library include the warm fit). Needs the public curves of Luo et al. (2025)
(``CPTJAX_SHARED``, default ``../shared``)::

    python -m benchmarks.cold
    python -m benchmarks.cold --cli
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import show

SHARED = Path(os.environ.get("CPTJAX_SHARED", "../shared"))
LAWS = {
    "multipower": "cj.MultiPowerLaw()",
    "annealing, decay fitted": "cj.AnnealingLaw(cj.Momentum(None, warmup='full'))",
}
LIBRARY = """
import sys, time
marks = [time.perf_counter()]
import cptjax as cj
marks.append(time.perf_counter())
runs = cj.read_manifest(sys.argv[1])
marks.append(time.perf_counter())
for _ in range(2):
    cj.fit({law}, runs.fit)
    marks.append(time.perf_counter())
print(*(b - a for a, b in zip(marks, marks[1:])))
"""
STAGES = ("import", "read", "cold fit", "warm fit")


def library() -> dict[str, list[str]]:
    """Python code that prints the seconds of each stage, for every law."""
    manifest = str(SHARED / "data/multipower/25/runs.toml")
    return {f"25M {name}": ["-c", LIBRARY.format(law=law), manifest] for name, law in LAWS.items()}


def cli() -> dict[str, list[str]]:
    """Commands as a person types them."""
    commands = {"import cptjax": ["-c", "import cptjax"]}
    for size in ("25", "100"):
        manifest = str(SHARED / "data/multipower" / size / "runs.toml")
        for words in (("multipower",), ("annealing", "--decay", "fit")):
            command = ["-m", "cptjax.cli", "fit", manifest, "--law", *words, "--quiet"]
            commands[f"{size}M {' '.join(words)}"] = command
    return commands


def clock(words: Sequence[str]) -> tuple[float, float, list[float]]:
    """Wall seconds of a Python process, less a last warm fit, its CPU seconds, and the seconds it printed."""
    with tempfile.TemporaryDirectory() as folder:
        into = ["--out", folder] if "fit" in words else []
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, *words, *into], check=True, capture_output=True, text=True)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    stages = [float(word) for word in done.stdout.split()]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall - (stages[-1] if stages else 0.0), cpu, stages


def measure(commands: Mapping[str, Sequence[str]], repeats: int) -> list[dict]:
    """Median and worst wall time of each command, and the median of each stage it reports."""
    seen: dict[str, list[tuple[float, float, list[float]]]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, words in commands.items():
            seen[name].append(clock(words))
    rows = []
    for name, found in seen.items():
        walls, cpus, stages = zip(*found, strict=True)
        row = {
            "command": name,
            "median s": float(np.median(walls)),
            "worst s": max(walls),
            "cpu s": float(np.median(cpus)),
        }
        rows.append(row | dict(zip(STAGES, np.median(stages, axis=0).tolist(), strict=False)))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cli", action="store_true", help="time the command cptjax fit")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    show(measure(cli() if options.cli else library(), options.repeats), options.json)


if __name__ == "__main__":
    main()
