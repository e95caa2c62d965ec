"""One formula, two array libraries.

Schedules, paths and quadrature nodes are written once, against the functions NumPy and ``jax.numpy`` share. On traced
values they run in JAX and are differentiable. On known values they run in NumPy: nothing is compiled, so preparing a
fit of a hundred runs of different lengths costs milliseconds instead of a compilation per shape.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

__all__ = ["AnyArray", "is_known", "namespace", "on_host"]

if TYPE_CHECKING:
    AnyArray = Any
else:
    AnyArray = Array | np.ndarray
Tree = TypeVar("Tree")


def namespace(*trees: object) -> ModuleType:
    """``jax.numpy`` if any leaf is a JAX array, else ``numpy``."""
    return jnp if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(trees)) else np


def is_known(*trees: object) -> bool:
    """Whether no leaf is being traced."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def on_host(tree: Tree) -> Tree:
    """The same pytree with NumPy leaves, or unchanged if any of them is being traced."""
    return jax.tree.map(np.asarray, tree) if is_known(tree) else tree
