"""Few shapes, few compilations.

JAX compiles a program for every shape it meets, and each takes a good part of a second and some of the operating
system's memory maps, of which a process has a limited number: a loop over runs that all have their own length would
wait for the compiler and, after some hundred runs, die. Lengths that vary from run to run are therefore rounded up, and
what fills the gap is cut off or weighs nothing.
"""

import numpy as np
from jaxtyping import Shaped

__all__ = ["filled", "rounded"]


def rounded(count: int, bits: int = 3) -> int:
    """``count`` rounded up to a number of few significant ``bits``: one of ``2**(bits - 1)`` an octave.

    >>> [rounded(n) for n in (0, 7, 9, 100, 1000)]
    [0, 7, 10, 112, 1024]
    """
    unit = 2 ** max(count.bit_length() - bits, 0)
    return -(-count // unit) * unit


def filled(values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " m"]:
    """The values and, up to the rounded count, their last one over and over."""
    return np.pad(values, (0, rounded(values.size) - values.size), mode="edge") if values.size else values
