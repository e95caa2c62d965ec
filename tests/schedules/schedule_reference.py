"""Scalar code for every schedule, one step at a time, and the schedules the tests go over."""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cptjax.schedules import WSD, Constant, Cosine, Joined, Knots, Linear, Schedule, Steps, Table

N = 24
PEAK, END = 3e-4, 3e-5


@dataclass(frozen=True)
class Case:
    """A schedule and the same one in scalar code."""

    schedule: Schedule
    lr: Callable[[int], float]


def held(t, steps):
    return min(max(t, 0), steps)


def warmed(shape, steps, warmup, start=0.0):
    def lr(t):
        t = held(t, steps)
        return start + (shape(warmup) - start) * t / warmup if t < warmup else shape(t)

    return lr


def cosine(peak, end, steps, warmup=0, start=0.0):
    def shape(t):
        u = min(max((t - warmup) / (steps - warmup or 1), 0), 1)
        return end + (peak - end) * (1 + math.cos(math.pi * u)) / 2

    return warmed(shape, steps, warmup, start)


def linear(peak, end, steps, warmup=0, start=0.0):
    def shape(t):
        return peak + (end - peak) * min(max((t - warmup) / (steps - warmup or 1), 0), 1)

    return warmed(shape, steps, warmup, start)


def wsd(peak, end, steps, decay_start, decay, warmup=0):
    def shape(t):
        if t <= decay_start:
            return peak
        u = (t - decay_start) / (steps - decay_start)
        if decay == "exponential":
            return peak ** (1 - u) * end**u
        share = {"linear": 1 - u, "cosine": (1 + math.cos(math.pi * u)) / 2, "sqrt": 1 - math.sqrt(u)}[decay]
        return end + (peak - end) * share

    return warmed(shape, steps, warmup)


def levels(boundaries, rates, steps, warmup=0):
    return warmed(lambda t: rates[sum(t >= b for b in boundaries)], steps, warmup)


def knots(at, rates, steps, warmup=0, start=0.0):
    def shape(t):
        if t <= at[0]:
            return rates[0]
        if t >= at[-1]:
            return rates[-1]
        i = bisect.bisect_right(at, t) - 1
        return rates[i] + (rates[i + 1] - rates[i]) * (t - at[i]) / (at[i + 1] - at[i])

    return warmed(shape, steps, warmup, start)


def table(rates):
    return lambda t: rates[min(max(t, 1), len(rates)) - 1]


def joined(*parts):
    """Parts are ``(steps, function of the last LR that gives the part's LR function)``."""

    def lr(t):
        t = held(t, sum(steps for steps, _ in parts))
        start, last = 0, 0.0
        for i, (steps, make) in enumerate(parts):
            part = make(last)
            if t <= start + steps or i == len(parts) - 1:
                return part(t - start)
            start, last = start + steps, part(steps)
        raise AssertionError

    return lr


WSDS = {
    f"wsd_{decay}": Case(
        WSD(PEAK, END, steps=N, warmup=4, decay_start=15, decay=decay), wsd(PEAK, END, N, 15, decay, warmup=4)
    )
    for decay in ("linear", "exponential", "cosine", "sqrt")
}
RATES = [1e-4, 3e-4, 2e-4, 2e-4, 5e-5, *np.linspace(1e-4, 4e-4, N - 5).tolist()]
SMOOTH = {
    "constant": Case(Constant(PEAK, steps=N), warmed(lambda t: PEAK, N, 0)),
    "constant_warm": Case(Constant(PEAK, steps=N, warmup=5), warmed(lambda t: PEAK, N, 5)),
    "linear": Case(Linear(PEAK, END, steps=N), linear(PEAK, END, N)),
    "linear_warm_from": Case(
        Linear(PEAK, END, steps=N, warmup=5, warmup_from=1e-5), linear(PEAK, END, N, warmup=5, start=1e-5)
    ),
    "cosine": Case(Cosine(PEAK, END, steps=N, warmup=4), cosine(PEAK, END, N, warmup=4)),
    **WSDS,
    "steps": Case(
        Steps((8, 17), [PEAK, 1e-4, END], steps=N, warmup=3), levels((8, 17), [PEAK, 1e-4, END], N, warmup=3)
    ),
    "knots": Case(
        Knots((2, 9, 20), [PEAK, 1e-4, END], steps=N, warmup=3), knots((2, 9, 20), [PEAK, 1e-4, END], N, warmup=3)
    ),
    "table": Case(Table(RATES), table(RATES)),
    "joined": Case(
        Joined([Cosine(PEAK, END, steps=14, warmup=4), Linear(1e-4, 2e-5, steps=10, warmup=3)]),
        joined(
            (14, lambda last: cosine(PEAK, END, 14, warmup=4)),
            (10, lambda last: linear(1e-4, 2e-5, 10, warmup=3, start=last)),
        ),
    ),
}
EDGES = {
    "one_step_constant": Case(Constant(PEAK, steps=1), warmed(lambda t: PEAK, 1, 0)),
    "one_step_cosine": Case(Cosine(PEAK, END, steps=1), cosine(PEAK, END, 1)),
    "one_step_warm": Case(Cosine(PEAK, END, steps=1, warmup=1), cosine(PEAK, END, 1, warmup=1)),
    "one_step_wsd": Case(WSD(PEAK, END, steps=1, decay_start=0), wsd(PEAK, END, 1, 0, "linear")),
    "warmup_is_all": Case(Cosine(PEAK, END, steps=N, warmup=N), cosine(PEAK, END, N, warmup=N)),
    "no_decay_left": Case(WSD(PEAK, END, steps=N, decay_start=N), wsd(PEAK, END, N, N, "linear")),
    "decay_at_once": Case(WSD(PEAK, 0.0, steps=N, decay_start=0), wsd(PEAK, 0.0, N, 0, "linear")),
    "zero_everywhere": Case(Cosine(0.0, 0.0, steps=N, warmup=4), lambda t: 0.0),
    "peak_is_end": Case(Cosine(PEAK, PEAK, steps=N), lambda t: PEAK),
    "boundary_first": Case(Steps((1,), [PEAK, END], steps=N), levels((1,), [PEAK, END], N)),
    "boundary_last": Case(Steps((N,), [PEAK, END], steps=N), levels((N,), [PEAK, END], N)),
    "one_knot": Case(Knots((7,), [PEAK], steps=N), lambda t: PEAK),
    "one_step_parts": Case(
        Joined([Constant(PEAK, steps=1), Constant(END, steps=1), Linear(PEAK, 0.0, steps=1)]),
        joined(
            (1, lambda last: lambda t: PEAK),
            (1, lambda last: lambda t: END),
            (1, lambda last: linear(PEAK, 0.0, 1)),
        ),
    ),
    "rewarmed_from": Case(
        Joined([Linear(PEAK, END, steps=12), Constant(PEAK, steps=12, warmup=4, warmup_from=0.0)]),
        joined((12, lambda last: linear(PEAK, END, 12)), (12, lambda last: warmed(lambda t: PEAK, 12, 4, 0.0))),
    ),
    "rewarmed_all_the_way": Case(
        Joined([Linear(PEAK, 0.0, steps=12), Constant(PEAK, steps=3, warmup=3), Constant(PEAK, steps=9)]),
        joined(
            (12, lambda last: linear(PEAK, 0.0, 12)),
            (3, lambda last: warmed(lambda t: PEAK, 3, 3, last)),
            (9, lambda last: warmed(lambda t: PEAK, 9, 0)),
        ),
    ),
}
CASES = SMOOTH | EDGES
