"""What the benchmarks share: interleaved timing, a table, and a JSON file."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["interleaved", "show"]


def interleaved(candidates: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median wall seconds of each candidate, timed in turn so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run()  # compile
    for _ in range(repeats):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(seen)) for name, seen in times.items()}


def show(rows: Sequence[Mapping[str, Any]], path: Path | None = None) -> None:
    """Print rows as a table and, if a path is given, save them as JSON."""
    names = list(rows[0])
    cells = [[f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in (names, *cells):
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if path is not None:
        path.write_text(json.dumps(list(rows), indent=2) + "\n")
