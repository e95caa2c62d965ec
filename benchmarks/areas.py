"""Areas of a schedule: how far from the least that could be done?

(a) Both areas at every step, S1 and the momentum S2, of a batch of LR arrays: the value, and the value with the
gradient in every LR and in the decay, as multiples of one ``jnp.cumsum`` of the same array. SciPy's ``lfilter`` does
the same S2, and its gradient by the filter run backwards. (b) The multi-power area at 200 steps, by quadrature against
the whole double sum, with the largest difference between them. (c) The exponent of time in steps, over the longer
half of the lengths::

    python -m benchmarks.areas
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.signal import lfilter

import cptjax as cj
from benchmarks.report import interleaved, show
from cptjax.areas import compute_areas, record

DECAY = 0.999
MOST = 10_000_000


def ours(lr: jax.Array, decay: jax.Array) -> tuple[jax.Array, jax.Array]:
    """S1 and S2 of one LR array at each of its steps."""
    kernel, steps = cj.Momentum(None), np.arange(1, lr.shape[0] + 1)
    history = record(kernel, [(cj.Phase(cj.from_array(lr)),)], np.zeros_like(steps), steps)
    areas = compute_areas(kernel, {"decay": decay}, history)
    return areas.forward_pt, areas.annealing_pt


def filtered(lr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by SciPy: cumulative sums and a recursive filter."""
    drops = -np.diff(lr, axis=-1, prepend=lr[:, :1])
    return np.cumsum(lr, axis=-1), np.cumsum(lfilter([1.0], [1.0, -DECAY], drops, axis=-1), axis=-1)


def filtered_gradient(lr: np.ndarray) -> np.ndarray:
    """Values and, backwards, the gradient of the sum of both areas over all steps."""
    filtered(lr)
    later = np.broadcast_to(np.arange(lr.shape[-1], 0, -1.0), lr.shape)
    push = lfilter([1.0], [1.0, -DECAY], later[:, ::-1], axis=-1)[:, ::-1]
    return later - push + np.concatenate([push[:, 1:], np.zeros_like(push[:, :1])], axis=-1)


def momentum(steps: int, batch: int, repeats: int) -> dict:
    """One row: a batch of arrays of one length."""
    noise = np.random.default_rng(0).random((batch, steps))
    lr = jnp.asarray(3e-4 * (1 - np.arange(steps) / steps) * (0.9 + 0.1 * noise))
    host, decay = np.asarray(lr), jnp.asarray(DECAY)
    value = jax.jit(jax.vmap(ours, (0, None)))
    slope = jax.jit(jax.value_and_grad(lambda x, d: sum(map(jnp.sum, jax.vmap(ours, (0, None))(x, d))), (0, 1)))
    yardstick = jax.jit(lambda x: jnp.cumsum(x, axis=-1))
    for mine, theirs in zip(value(lr, decay), filtered(host), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-8)
    mine = np.asarray(slope(lr, decay)[1][0])
    np.testing.assert_allclose(mine[:, 1:], filtered_gradient(host)[:, 1:], rtol=1e-6, atol=1e-6 * np.abs(mine).max())
    seconds = interleaved(
        {
            "cumsum": lambda: jax.block_until_ready(yardstick(lr)),
            "value": lambda: jax.block_until_ready(value(lr, decay)),
            "gradient": lambda: jax.block_until_ready(slope(lr, decay)),
            "lfilter": lambda: filtered(host),
            "lfilter gradient": lambda: filtered_gradient(host),
        },
        repeats,
    )
    return {
        "steps": steps,
        "batch": batch,
        "value / cumsum": seconds["value"] / seconds["cumsum"],
        "value+gradient / cumsum": seconds["gradient"] / seconds["cumsum"],
        "lfilter / value": seconds["lfilter"] / seconds["value"],
        "lfilter / value+gradient": seconds["lfilter gradient"] / seconds["gradient"],
        "value+gradient ms": 1e3 * seconds["gradient"],
    }


def multipower(steps: int, repeats: int) -> dict:
    """One row: the fast evaluation of the multi-power area against the exact one."""
    schedule = cj.Cosine(3e-4, 3e-5, steps=steps, warmup=steps // 50)
    at = np.unique(np.linspace(steps // 50, steps, 200).astype(int))
    params = {"kernel_C": 2.0656, "kernel_beta": 0.58279, "kernel_gamma": 0.64142}
    compiled, found = {}, {}
    for mode in ("fast", "exact"):
        kernel = cj.MultiPower(mode=mode, warmup="full")
        history = jax.tree.map(jnp.asarray, record(kernel, [(cj.Phase(schedule),)], np.zeros_like(at), at))
        run = jax.jit(lambda p, h, kernel=kernel: compute_areas(kernel, p, h).annealing_pt)
        compiled[mode] = lambda run=run, h=history: jax.block_until_ready(run(params, h))
        found[mode] = np.asarray(compiled[mode]())
    seconds = interleaved(compiled, repeats)
    gap = np.max(np.abs(found["fast"] - found["exact"])) / np.max(np.abs(found["exact"]))
    return {
        "steps": steps,
        "observed": at.size,
        "exact / fast": seconds["exact"] / seconds["fast"],
        "fast ms": 1e3 * seconds["fast"],
        "largest difference (relative)": float(gap),
    }


def growth(rows: Sequence[dict]) -> list[dict]:
    """Exponent of the time of value and gradient in the number of steps, one array, over the longer lengths."""
    seen = sorted((row["steps"], row["value+gradient ms"]) for row in rows if row["batch"] == 1)
    longer = seen[len(seen) // 2 :]
    if len(longer) < 2:
        return []
    exponent = np.polyfit(*np.log(longer).T, 1)[0]
    return [{"growth of value+gradient": f"{longer[0][0]} to {longer[-1][0]} steps", "exponent": float(exponent)}]


def tables(lengths: Sequence[int], batches: Sequence[int], repeats: int) -> dict[str, list[dict]]:
    """Every table of this file, by title."""
    rows = [momentum(t, b, repeats) for t in lengths for b in batches if t * b <= MOST]
    kernels = [multipower(t, repeats) for t in lengths if 1000 <= t <= 100_000]
    return {"momentum areas": rows, "multi-power areas": kernels, "growth in steps": growth(rows)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lengths = [1000, 10_000, 100_000, 300_000, 1_000_000]
    parser.add_argument("--steps", type=int, nargs="+", default=lengths)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--json", type=Path, help="folder for one JSON file a table")
    options = parser.parse_args()
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
    for title, rows in tables(options.steps, options.batches, options.repeats).items():
        if rows:
            print(f"\n{title}")
            show(rows, options.json and options.json / f"{title.replace(' ', '_')}.json")


if __name__ == "__main__":
    main()
