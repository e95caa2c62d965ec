"""How long a person waits: ``cptjax fit`` from a cold start, import, compilation, fit, test and plot included.

Needs the public curves of Luo et al. (2025) (``CPTJAX_SHARED``, default ``../shared``)::

    python -m benchmarks.cold
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import show

SHARED = Path(os.environ.get("CPTJAX_SHARED", "../shared"))
COMMANDS = {
    "import cptjax": ["-c", "import cptjax"],
    **{
        f"{size}M {' '.join(words)}": [
            *(
                "-m",
                "cptjax.cli",
                "fit",
                str(SHARED / "data/multipower" / size / "runs.toml"),
                "--law",
                *words,
                "--quiet",
            )
        ]
        for size in ("25", "100")
        for words in (("multipower",), ("annealing", "--decay", "fit"))
    },
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.repeats):
        for name, words in COMMANDS.items():
            with tempfile.TemporaryDirectory() as folder:
                into = ["--out", folder] if "fit" in words else []
                start = time.perf_counter()
                subprocess.run([sys.executable, *words, *into], check=True)
                seconds[name].append(time.perf_counter() - start)
    rows = [{"command": name, "median s": float(np.median(s)), "worst s": max(s)} for name, s in seconds.items()]
    show(rows, options.json)


if __name__ == "__main__":
    main()
