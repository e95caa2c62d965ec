"""Gradients by finite differences, the reference of every gradient test."""

from collections.abc import Callable

import jax
import numpy as np


def finite_difference(f: Callable, tree, least=1e-6, step=2e-4):
    """Gradient of ``f`` by fourth-order central differences, leaf by leaf; ``f`` is compiled once by the caller."""
    leaves, structure = jax.tree.flatten(jax.tree.map(lambda x: np.array(x, dtype=float), tree))
    gradients = []
    for i, leaf in enumerate(leaves):
        gradient = np.zeros(leaf.shape)
        for j in np.ndindex(leaf.shape):
            h = step * max(abs(leaf[j]), least)

            def at(shift, i=i, j=j):
                moved = [x.copy() for x in leaves]
                moved[i][j] += shift
                return float(f(jax.tree.unflatten(structure, moved)))

            gradient[j] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
        gradients.append(gradient)
    return jax.tree.unflatten(structure, gradients)
