"""The laws in scalar code, on one short run, and the parameters the tests use."""

import math

import numpy as np

from cptjax.schedules import WSD, Cosine, Linear, Phase

DECAY = 0.9
PT, CPT = 30, 24
STEPS = np.array([1, 4, 15, 29, 30, 31, 34, 40, 54])
SIZE = 106.0
RATIO = 0.3


def run(ratio=RATIO):
    return (
        Phase(WSD(3e-4, 1e-4, steps=PT, warmup=5, decay_start=20, decay="exponential")),
        Phase(Linear(2e-4, 1e-5, steps=CPT, warmup=4), "cpt", ratio),
    )


def pretraining():
    return (Phase(Cosine(3e-4, 3e-5, steps=54, warmup=5)),)


def rates_of_run():
    """η_0 … of both phases of :func:`run`, warm-up from scratch flat."""
    pt = [3e-4] * 21 + [3e-4 ** (1 - u / 10) * 1e-4 ** (u / 10) for u in range(1, 11)]
    rise = [1e-4 + (2e-4 - 1e-4) * t / 4 for t in range(1, 5)]
    fall = [2e-4 + (1e-5 - 2e-4) * (t - 4) / 20 for t in range(5, 25)]
    return pt, [1e-4, *rise, *fall]


def rates_of_pretraining(flat):
    """η_0 … of :func:`pretraining`."""
    rise = [3e-4] * 6 if flat else [3e-4 * t / 5 for t in range(6)]
    fall = [3e-5 + 2.7e-4 * (1 + math.cos(math.pi * (t - 5) / 49)) / 2 for t in range(6, 55)]
    return rise + fall


def forward(rates, t):
    return sum(rates[1 : t + 1])


def momentum(rates, t, decay=DECAY):
    total = m = 0.0
    for i in range(1, t + 1):
        m = decay * m + rates[i - 1] - rates[i]
        total += m
    return total


def lr_weighted(rates, t, epsilon):
    total = m = 0.0
    for i in range(1, t + 1):
        m = DECAY * m + rates[i - 1] - rates[i]
        total += m * rates[i] ** epsilon
    return total


def power(rates, t, zeta):
    area = momentum(rates, t)
    return math.copysign(abs(area) ** zeta, area)


def multipower(rates, t, c, beta, gamma):
    total = 0.0
    for k in range(1, t + 1):
        total += (rates[k - 1] - rates[k]) * (1 - (1 + c * rates[k] ** -gamma * sum(rates[k : t + 1])) ** -beta)
    return total


def functional(rates, t, c3, c4, gamma, s, before=0.0):
    total = 0.0
    for k in range(1, t + 1):
        release = 1 - (1 + c4 * sum(rates[k + 1 : t + 1])) ** -gamma
        total += (rates[k - 1] - rates[k]) * (c3 + (before + forward(rates, k)) ** -s) * release
    return total


def cpt(p, t, area=momentum, factor=1.0, anneal=1.0, size=None, forward_pt=None):
    """The CPT law; ``area(rates, t)`` gives an annealing area."""
    pt, after = rates_of_run()
    before, since = min(t, PT), max(t - PT, 0)
    s1_pt, s1_cpt = forward(pt, before) if forward_pt is None else forward_pt, forward(after, since)
    loss = p["L0"] + p["A"] * (s1_pt + s1_cpt) ** -p["alpha"]
    loss -= 0.0 if forward_pt is not None else p["C1"] * area(pt, before) * (size ** p["gamma1"] if size else 1)
    loss -= p["C2"] * area(after, since) * anneal * (size ** p["gamma2"] if size else 1)
    loss += p["B"] * factor * (1 - (1 + p["E"] * s1_cpt) ** -p["beta"])
    return loss + (p["F"] * size ** -p["gamma3"] if size else 0)


def crossing(p, t, factor=1.0):
    """The crossing law: both hidden curves and the passage between them, step by step."""
    pt, after = rates_of_run()
    whole = pt + after[1:]
    fallen, annealed = forward(whole, t) ** -p["alpha"], momentum(whole, t)
    old = p["L0"] + p["A"] * fallen - p["C"] * annealed
    new = p["L_new"] + p["A_new"] * fallen - p["C_new"] * annealed
    clock = sum(pt[0] * (rate / pt[0]) ** p["lr_power"] for rate in after[1 : max(t - PT, 0) + 1])
    passed = 1 - (1 + p["E"] * clock) ** (-p["beta"] * factor ** -p.get("replay_rate", 0.0))
    return old + (new - old) * factor * passed


def exponential_factor(a2, ratio):
    return (math.exp(a2 * (1 - ratio)) - 1) / (math.exp(a2) - 1) if a2 else 1 - ratio


def share_factor_pt(gamma, epsilon, ratio):
    def q(z):
        return (z**-gamma - 1) / gamma if gamma else -math.log(z)

    return (q(ratio + epsilon) - q(1 + epsilon)) / (q(epsilon) - q(1 + epsilon))


BASE = {"L0": 3.0, "A": 0.05, "alpha": 0.5, "C1": 30.0, "C2": 40.0, "B": -0.7, "E": 5000.0, "beta": 0.3}
CROSSING = {"L0": 3.0, "A": 0.05, "C": 30.0, "L_new": 2.2, "A_new": 0.08, "C_new": -10.0, "alpha": 0.5}
CROSSING |= {"E": 5000.0, "beta": 0.3, "lr_power": 1.3}
SIZED = {"gamma1": 0.1, "gamma2": 0.2, "F": 2.0, "gamma3": 0.2}
