"""A causal transformer small enough to train in a minute, and its optimiser.

Scaling laws of continual pre-training speak of curves, and curves of the right shape need no large
model: a byte-level transformer of 0.1 M parameters already forgets, adapts, anneals and replays.
Everything here is a pure function of arrays, so that the same numbers come out of every
rebuild: ``init`` draws the parameters, ``token_losses`` is the model, and ``train_chunk`` runs a
    few optimiser steps in one ``jax.lax.scan``.

The model: byte vocabulary (256), learned positions, pre-LayerNorm blocks, GELU, no biases in the
matrices, output tied to the input embedding. The optimiser: AdamW, betas .9/.95, decoupled weight
decay .1 on matrices only, global gradient norm clipped to 1. The learning rate is an input of every
step, so that a schedule is an array and nothing else.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

__all__ = ["SIZES", "ModelSize", "TrainState", "evaluate", "init", "token_losses", "train_chunk"]

VOCABULARY = 256
CONTEXT = 64
BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0

Params = dict[str, Any]


@dataclass(frozen=True)
class ModelSize:
    """Width, depth and heads of one model; hashable, so that it can be a static argument of a
    jitted function.
    """

    name: str
    width: int
    layers: int
    heads: int

    @property
    def parameters(self) -> int:
        """Non-embedding parameters: the matrices and LayerNorms of the blocks and the final
        LayerNorm.
        """
        return self.layers * (12 * self.width**2 + 2 * self.width) + self.width


SIZES = {
    "small": ModelSize("small", width=64, layers=2, heads=2),
    "large": ModelSize("large", width=96, layers=3, heads=3),
}


class TrainState(NamedTuple):
    """Everything a training run carries from one step to the next: parameters and the optimiser's
    moments.
    """

    params: Params
    optimiser: optax.OptState


def _optimiser() -> optax.GradientTransformation:
    """AdamW without its learning rate, which ``train_chunk`` applies (it differs from step to
    step).
    """

    def matrices(params: Params) -> Any:
        return jax.tree.map(lambda x: x.ndim >= 2, params)

    return optax.chain(
        optax.clip_by_global_norm(CLIP_NORM),
        optax.scale_by_adam(b1=BETAS[0], b2=BETAS[1], eps=1e-8),
        optax.add_decayed_weights(WEIGHT_DECAY, mask=matrices),
    )


def init(size: ModelSize, seed: int) -> TrainState:
    """Random parameters (normal, .02; residual outputs scaled by depth) and empty optimiser
    moments.
    """
    rng = np.random.default_rng([seed, 0])

    def normal(*shape: int, scale: float = 0.02) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, scale, shape), jnp.float32)

    d = size.width
    residual = 0.02 / np.sqrt(2 * size.layers)
    blocks = [
        {
            "norm_attention": jnp.ones(d),
            "qkv": normal(d, 3 * d),
            "attention_out": normal(d, d, scale=residual),
            "norm_mlp": jnp.ones(d),
            "mlp_in": normal(d, 4 * d),
            "mlp_out": normal(4 * d, d, scale=residual),
        }
        for _ in range(size.layers)
    ]
    params = {
        "embedding": normal(VOCABULARY, d),
        "position": normal(CONTEXT, d),
        "blocks": blocks,
        "norm_final": jnp.ones(d),
    }
    return TrainState(params, _optimiser().init(params))


@jax.custom_vjp
def _layer_norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    """LayerNorm without bias; the gradient by hand keeps XLA's CPU fusions from recomputing it (a
    third of a step).
    """
    return _layer_norm_forward(x, gain)[0]


def _layer_norm_forward(x: jax.Array, gain: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    mean = x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    mean, scale = jax.lax.optimization_barrier((mean, scale))
    return (x - mean) * scale * gain, (x, mean, scale, gain)


def _layer_norm_backward(saved: tuple[jax.Array, ...], cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, mean, scale, gain = saved
    normal = (x - mean) * scale
    inner = cotangent * gain
    shift = inner.mean(-1, keepdims=True)
    slope = (inner * normal).mean(-1, keepdims=True)
    shift, slope = jax.lax.optimization_barrier((shift, slope))
    return scale * (inner - shift - normal * slope), (cotangent * normal).sum((0, 1))


_layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


@jax.custom_vjp
def _softmax(scores: jax.Array) -> jax.Array:
    """Softmax over the last axis; by hand for the same reason as LayerNorm."""
    return _softmax_forward(scores)[0]


def _softmax_forward(scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    top = jax.lax.optimization_barrier(scores.max(-1, keepdims=True))
    weights = jax.lax.optimization_barrier(jnp.exp(scores - top))
    total = jax.lax.optimization_barrier(1.0 / weights.sum(-1, keepdims=True))
    weights = jax.lax.optimization_barrier(weights * total)
    return weights, weights


def _softmax_backward(weights: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
    inner = jax.lax.optimization_barrier((weights * cotangent).sum(-1, keepdims=True))
    return (weights * (cotangent - inner),)


_softmax.defvjp(_softmax_forward, _softmax_backward)


def _attention(x: jax.Array, block: Params, heads: int) -> jax.Array:
    batch, length, width = x.shape
    q, k, v = jnp.split(x @ block["qkv"], 3, axis=-1)
    q, k, v = (y.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for y in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(width // heads)
    causal = np.tril(np.ones((length, length), bool))
    weights = _softmax(jnp.where(causal, scores, -1e30))
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return mixed @ block["attention_out"]


def token_losses(params: Params, tokens: jax.Array, size: ModelSize) -> jax.Array:
    """Cross-entropy in nats of every next byte.

    Args:
        params: the model.
        tokens: bytes, ``(batch, CONTEXT + 1)``; the first ``CONTEXT`` are read, the last
            ``CONTEXT`` predicted.
        size: the model's shape.
    """
    tokens = tokens.astype(jnp.int32)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x = params["embedding"][inputs] + params["position"]
    for block in params["blocks"]:
        x = x + _attention(_layer_norm(x, block["norm_attention"]), block, size.heads)
        hidden = jax.nn.gelu(_layer_norm(x, block["norm_mlp"]) @ block["mlp_in"])
        x = x + hidden @ block["mlp_out"]
    logits = _layer_norm(x, params["norm_final"]) @ params["embedding"].T
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


@functools.partial(jax.jit, static_argnames="size", donate_argnames="state")
def train_chunk(state: TrainState, batches: jax.Array, rates: jax.Array, size: ModelSize) -> TrainState:
    """Run ``len(rates)`` AdamW steps.

    Args:
        state: parameters and moments before the first of these steps (donated).
        batches: bytes, ``(steps, batch, CONTEXT + 1)``.
        rates: the learning rate of each step.
        size: the model's shape.
    """
    optimiser = _optimiser()

    def loss(params: Params, tokens: jax.Array) -> jax.Array:
        return token_losses(params, tokens, size).mean()

    def step(state: TrainState, inputs: tuple[jax.Array, jax.Array]) -> tuple[TrainState, None]:
        tokens, rate = inputs
        gradients = jax.grad(loss)(state.params, tokens)
        updates, moments = optimiser.update(gradients, state.optimiser, state.params)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        return TrainState(params, moments), None

    return jax.lax.scan(step, state, (batches, rates))[0]


@functools.partial(jax.jit, static_argnames="size")
def evaluate(params: Params, samples: jax.Array, size: ModelSize) -> jax.Array:
    """Mean loss of each slice of ``samples``, ``(slices, batch, CONTEXT + 1)``, one slice at a time
    (bounded memory).
    """
    return jax.lax.map(lambda tokens: token_losses(params, tokens, size).mean(), samples)
