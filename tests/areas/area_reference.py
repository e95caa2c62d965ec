"""Annealing areas as plain double loops over steps, and the runs the tests go over."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cptjax.areas import Functional, MultiPower, compute_areas, record
from cptjax.namespace import on_host
from cptjax.schedules import WSD, Constant, Cosine, Joined, Linear, Phase, Steps, from_array

PEAK, END = 3e-4, 3e-5
MULTIPOWER = {"kernel_C": 2.0656, "kernel_beta": 0.58279, "kernel_gamma": 0.64142}
MULTIPOWER_B = 363.788
FUNCTIONAL = {"kernel_c3": 0.5, "kernel_c4": 40.0, "kernel_gamma": 0.6, "kernel_s": 0.4}
FUNCTIONAL_C2 = 250.0


def loop_recurrence(decay, inputs):
    m, out = np.zeros(inputs.shape[:-1]), []
    for i in range(inputs.shape[-1]):
        m = decay * m + inputs[..., i]
        out.append(m)
    return np.stack(out, axis=-1)


def loop_momentum(levels, decay, t):
    """``sum_{i<=t} sum_{k<=i} (η_{k-1} − η_k) λ^{i−k}`` with ``levels`` = η_0 … η_T."""
    total = 0.0
    for i in range(1, t + 1):
        for k in range(1, i + 1):
            total += (levels[k - 1] - levels[k]) * decay ** (i - k)
    return total


def loop_lr_weighted(levels, decay, epsilon, t):
    total = 0.0
    for i in range(1, t + 1):
        m = sum((levels[k - 1] - levels[k]) * decay ** (i - k) for k in range(1, i + 1))
        total += m * levels[i] ** epsilon if levels[i] > 0 else 0.0
    return total


def loop_multipower(lr, drops, t, p):
    """``lr[k]`` is η_k (entry 0 unused), ``drops[k]`` is η_{k−1} − η_k."""
    total = 0.0
    for k in range(1, t + 1):
        span = sum(lr[i] for i in range(k, t + 1))
        if drops[k] == 0:
            continue
        eta = lr[k] if lr[k] > 0 else 1e-30
        inner = 1 + p["kernel_C"] * eta ** -p["kernel_gamma"] * span
        total += drops[k] * (1 - inner ** -p["kernel_beta"])
    return total


def loop_functional(lr, drops, t, p, before=0.0):
    total = 0.0
    for k in range(1, t + 1):
        until = before + sum(lr[i] for i in range(1, k + 1))
        later = sum(lr[i] for i in range(k + 1, t + 1))
        fading = p["kernel_c3"] + (until ** -p["kernel_s"] if until > 0 else 0.0)
        total += drops[k] * fading * (1 - (1 + p["kernel_c4"] * later) ** -p["kernel_gamma"])
    return total


def levels_of(phases, warmup, carried=False):
    """``(lr, drops)`` lists with entry 0 for step 0, of the pt part and of the cpt part, by the written conventions."""
    true, flat = [], []
    for phase in (phase for phase in phases if phase.name == "pt"):
        values = [float(x) for x in on_host(phase.schedule).values(previous_lr=true[-1] if true else 0.0)]
        if not true:
            held = phase.schedule.warmup
            top = values[held - 1] if held else float(on_host(phase.schedule)(0))
            true = [top if warmup == "flat" or not held else 0.0]
            flat = [top] * (held + 1) + values[held:]
            true += flat[1:] if warmup == "flat" else values
        else:
            true, flat = true + values, flat + values
    level = true if warmup == "full" else flat
    pt = (true, [0.0] + [level[k - 1] - level[k] for k in range(1, len(level))])
    cpt = [true[-1]] if true else [0.0]
    for phase in (phase for phase in phases if phase.name == "cpt"):
        cpt += [float(x) for x in on_host(phase.schedule).values(previous_lr=cpt[-1])]
    drops = [0.0] + [cpt[k - 1] - cpt[k] for k in range(1, len(cpt))]
    if carried:
        return true + cpt[1:], pt[1] + drops[1:]
    return pt, (cpt, drops)


def logged(n):
    lr = np.concatenate([np.linspace(0, PEAK, n // 10 + 1)[1:], np.geomspace(PEAK, END, n - n // 10)])
    return from_array(lr, warmup=n // 10)


def schedules(n):
    """Schedules of ``n`` steps, by name."""
    w = n // 10
    return {
        "constant": Constant(PEAK, steps=n, warmup=w),
        "cosine": Cosine(PEAK, END, steps=n, warmup=w),
        "cosine_to_0": Cosine(PEAK, 0.0, steps=n),
        "wsd_exponential": WSD(PEAK, END, steps=n, warmup=w, decay_start=3 * n // 4, decay="exponential"),
        "wsd_linear_to_0": WSD(PEAK, 0.0, steps=n, warmup=w, decay_start=3 * n // 4),
        "wsd_sqrt": WSD(PEAK, END, steps=n, decay_start=3 * n // 4, decay="sqrt"),
        "steps": Steps((n // 2, 3 * n // 4), [PEAK, 9e-5, END], steps=n, warmup=w),
        "table": logged(n),
        "zero": Constant(0.0, steps=n),
        "two_parts": Joined([Cosine(PEAK, END, steps=n // 2, warmup=w), Linear(PEAK, 0.0, steps=n - n // 2, warmup=w)]),
    }


def continued(n):
    """Runs of pt and cpt phases, ``n`` steps in all."""
    pt, cpt = n // 2, n - n // 2
    base = WSD(PEAK, END, steps=pt, warmup=n // 20, decay_start=3 * pt // 4)
    return {
        "jump_up": (Phase(base), Phase(Cosine(PEAK, 0.0, steps=cpt), "cpt")),
        "jump_down": (Phase(Constant(PEAK, steps=pt)), Phase(Linear(PEAK / 3, 0.0, steps=cpt), "cpt")),
        "rewarmed": (Phase(base), Phase(Cosine(PEAK, END, steps=cpt, warmup=n // 20), "cpt", 0.3)),
        "rewarmed_from_0": (Phase(base), Phase(Constant(PEAK, steps=cpt, warmup=n // 20, warmup_from=0.0), "cpt")),
        "one_step": (Phase(base), Phase(Constant(END, steps=1), "cpt"), Phase(Linear(PEAK, 0.0, steps=cpt - 1), "cpt")),
        "from_nothing": (Phase(Linear(PEAK, 0.0, steps=pt)), Phase(Constant(0.0, steps=cpt), "cpt")),
    }


compute = eqx.filter_jit(compute_areas)


def areas_of(kernel, params, phases, steps, **options):
    """Areas of one run, compiled once a shape: numbers of the kernel and of ``params`` go in as arrays."""
    steps = np.asarray(steps)
    history = record(kernel, [tuple(phases)], np.zeros(steps.shape, dtype=int), steps, **options)
    return compute(*jax.tree.map(jnp.asarray, (kernel, params)), history)


KERNELS = {
    "multipower": (MultiPower, MULTIPOWER, MULTIPOWER_B, loop_multipower),
    "functional": (Functional, FUNCTIONAL, FUNCTIONAL_C2, loop_functional),
}
