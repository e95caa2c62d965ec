"""The linear recurrence behind the annealing areas: which of three ways is fastest?

``m_i = λ m_{i-1} + x_i`` by blocked matrix products (ours), by ``lax.associative_scan`` and by ``lax.scan``, the value
and the value with its gradient in every ``x`` and in λ, as multiples of one ``jnp.cumsum`` of the same array::

    python -m benchmarks.recurrence
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.report import interleaved, show
from cptjax.areas.recurrence import linear_recurrence

DECAY = 0.999


def associative(decay: jax.Array, x: jax.Array) -> jax.Array:
    """The recurrence as a scan over affine maps."""
    factors = jnp.full_like(x, 1.0) * decay
    return jax.lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (factors, x), axis=-1)[1]


def sequential(decay: jax.Array, x: jax.Array) -> jax.Array:
    """The recurrence step by step."""
    return jax.lax.scan(lambda m, v: (decay * m + v,) * 2, jnp.zeros(x.shape[:-1]), x.T)[1].T


WAYS = {"blocked": linear_recurrence, "associative_scan": associative, "scan": sequential}


def measure(steps: int, repeats: int) -> list[dict]:
    """Rows of one length."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((1, steps)))
    decay = jnp.asarray(DECAY)
    yardstick = jax.jit(lambda v: jnp.cumsum(v, axis=-1))
    values = {name: jax.jit(way) for name, way in WAYS.items()}
    reference = np.asarray(values["scan"](decay, x))
    for name, way in values.items():
        np.testing.assert_allclose(way(decay, x), reference, rtol=1e-9, atol=1e-9, err_msg=name)
    slopes = {
        name: jax.jit(jax.value_and_grad(lambda d, v, way=way: jnp.sum(way(d, v) ** 2), argnums=(0, 1)))
        for name, way in WAYS.items()
    }
    timed = {"cumsum": lambda: jax.block_until_ready(yardstick(x))}
    for name in WAYS:
        timed[f"{name} value"] = lambda way=values[name]: jax.block_until_ready(way(decay, x))
        timed[f"{name} gradient"] = lambda way=slopes[name]: jax.block_until_ready(way(decay, x))
    seconds = interleaved(timed, repeats)
    return [
        {
            "steps": steps,
            "way": name,
            "value / cumsum": seconds[f"{name} value"] / seconds["cumsum"],
            "value+gradient / cumsum": seconds[f"{name} gradient"] / seconds["cumsum"],
            "cumsum ms": 1e3 * seconds["cumsum"],
        }
        for name in WAYS
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    show([row for steps in options.steps for row in measure(steps, options.repeats)], options.json)


if __name__ == "__main__":
    main()
