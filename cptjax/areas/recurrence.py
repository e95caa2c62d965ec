r"""First-order linear recurrences in O(T): the engine under every momentum kernel.

:math:`m_i = \lambda m_{i-1} + d_i`, :math:`m_0 = 0`. A step-by-step scan does least work and is fine on a CPU, but is
serial on an accelerator; a parallel prefix scan passes over memory log T times, and its gradient is slow and long to
compile. Here blocks of steps are multiplied by the lower-triangular matrix of powers of :math:`\lambda`, the carries
between blocks obey the same recurrence with :math:`\lambda^\text{block}`, and so on up: one matrix product over the
data, differentiable in :math:`\lambda` and in every :math:`d_i`. ``benchmarks/recurrence.py`` compares the three.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["linear_recurrence"]

BLOCK = 64


def linear_recurrence(
    decay: Float[Array, ""] | float, inputs: Float[Array, "*batch steps"], block: int = BLOCK
) -> Float[Array, "*batch steps"]:
    r"""Every :math:`m_i = \lambda m_{i-1} + d_i` along the last axis, from :math:`m_0 = 0`.

    Args:
        decay: :math:`\lambda` in [0, 1].
        inputs: :math:`d_1 \dots d_T`.
        block: steps multiplied at once; affects speed only.
    """
    steps = inputs.shape[-1]
    size = min(block, max(steps, 1))
    decay = jnp.asarray(decay, dtype=inputs.dtype)
    powers = jnp.concatenate([jnp.ones(1, inputs.dtype), jnp.cumprod(jnp.broadcast_to(decay, (size,)))])
    lag = jnp.arange(size)[:, None] - jnp.arange(size)[None, :]
    mix = jnp.where(lag >= 0, powers[jnp.maximum(lag, 0)], 0)
    if steps <= size:
        return inputs @ mix.T
    count = -(-steps // size)
    padded = jnp.pad(inputs, [(0, 0)] * (inputs.ndim - 1) + [(0, count * size - steps)])
    blocks = padded.reshape(*inputs.shape[:-1], count, size) @ mix.T
    carry = linear_recurrence(powers[size], blocks[..., :-1, -1], block)
    carry = jnp.pad(carry, [(0, 0)] * (inputs.ndim - 1) + [(1, 0)])
    return (blocks + carry[..., None] * powers[1:]).reshape(*inputs.shape[:-1], count * size)[..., :steps]
