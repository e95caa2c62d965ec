"""Random fitting problems with a known truth: runs, a law and its parameters. Used by tests and benchmarks."""

from dataclasses import dataclass

import numpy as np

from cptjax.areas import Momentum
from cptjax.laws import AnnealingLaw, CPTLaw, ExponentialReplay, Law, ShareReplay
from cptjax.runs import Run
from cptjax.schedules import WSD, Constant, Cosine, Linear, Phase, Schedule, Steps

POINTS = 48
RUNS = 4


@dataclass(frozen=True)
class Synthetic:
    law: Law
    truth: dict[str, float]
    runs: list[Run]

    def predict(self, params, run, steps):
        return np.asarray(self.law.predict(params, run.phases, steps))


def random_schedule(rng: np.random.Generator, steps: int, peak: float, first: bool) -> Schedule:
    warmup = int(rng.integers(0, steps // 20)) if rng.random() < 0.6 else 0
    end = peak * float(rng.choice([0.0, 0.1, 0.3]))
    kind = rng.choice(["cosine", "linear", "wsd", "steps"] if not first else ["cosine", "wsd", "constant", "steps"])
    if kind == "cosine":
        return Cosine(peak, end, steps=steps, warmup=warmup)
    if kind == "linear":
        return Linear(peak, end, steps=steps, warmup=warmup)
    if kind == "wsd":
        shape = str(rng.choice(["linear", "cosine", "sqrt"]))
        return WSD(peak, end, steps=steps, warmup=warmup, decay_start=int(steps * rng.uniform(0.5, 0.9)), decay=shape)
    if kind == "constant":
        return Constant(peak, steps=steps, warmup=warmup)
    return Steps(
        (int(steps * rng.uniform(0.3, 0.7)),), [peak, peak * rng.uniform(0.1, 0.6)], steps=steps, warmup=warmup
    )


def _run(rng, name, phases, law, truth, noise) -> Run:
    total = sum(phase.schedule.steps for phase in phases)
    transfer = sum(phase.schedule.steps for phase in phases if phase.name == "pt")
    if transfer < total:
        after = np.unique(np.geomspace(2, total - transfer, POINTS - 16).astype(int))
        steps = np.unique(np.concatenate([np.linspace(transfer // 20, transfer, 16).astype(int), transfer + after]))
    else:
        steps = np.linspace(total // 25, total, POINTS).astype(int)
    spare = np.setdiff1d(np.arange(total // 2, total), steps)
    steps = np.sort(np.concatenate([steps, spare[: POINTS - steps.size]]))
    clean = np.asarray(law.predict(truth, phases, steps))
    return Run(name, phases, steps, {"loss": clean * np.exp(noise * rng.standard_normal(steps.size))})


def annealing_problem(seed: int, noise: float = 0.0) -> Synthetic:
    """Pre-training runs; the decay is fitted in every second problem."""
    rng = np.random.default_rng(seed)
    decay = float(1 - 1 / np.exp(rng.uniform(np.log(30), np.log(3000))))
    law = AnnealingLaw(Momentum(None if seed % 2 else decay))
    peak = float(np.exp(rng.uniform(np.log(1e-4), np.log(3e-3))))
    length = int(np.exp(rng.uniform(np.log(2000), np.log(24000))))
    phases = []
    for i in range(RUNS):
        steps = int(length * rng.uniform(0.4, 1))
        schedule = random_schedule(rng, steps, peak * rng.uniform(0.5, 1), first=i == 0)
        phases.append((Phase(schedule),))
    area = peak * length
    truth = {
        "L0": rng.uniform(1.5, 3.5),
        "alpha": rng.uniform(0.2, 0.9),
        "C": rng.uniform(0.02, 0.2) / (peak / (1 - decay)),
        "decay": decay,
    }
    truth["A"] = rng.uniform(0.2, 1.0) * area ** truth["alpha"]
    return Synthetic(law, truth, [_run(rng, f"run{i}", p, law, truth, noise) for i, p in enumerate(phases)])


def cpt_problem(seed: int, noise: float = 0.0) -> Synthetic:
    """Continual runs with replay, on the old or the new domain, with either replay factor."""
    rng = np.random.default_rng(seed)
    decay = float(1 - 1 / np.exp(rng.uniform(np.log(30), np.log(2000))))
    old = bool(rng.random() < 0.5)
    exponential = bool(seed % 2)
    replay = ExponentialReplay() if exponential else ShareReplay("pt" if old else "cpt")
    law = CPTLaw(Momentum(None if seed % 4 < 2 else decay), replay)
    peak = float(np.exp(rng.uniform(np.log(1e-4), np.log(3e-3))))
    pt, cpt = (int(np.exp(rng.uniform(np.log(a), np.log(b)))) for a, b in ((3000, 20000), (1500, 10000)))
    ratios = [0.0, *rng.uniform(0.05, 0.9, RUNS - 2), 0.0]
    phases = []
    for ratio in ratios:
        before = random_schedule(rng, int(pt * rng.uniform(0.5, 1)), peak, first=bool(rng.random() < 0.5))
        after = random_schedule(rng, int(cpt * rng.uniform(0.5, 1)), peak * rng.uniform(0.3, 1), first=False)
        phases.append((Phase(before), Phase(after, "cpt", float(ratio))))
    memory = peak / (1 - decay)
    truth = {
        "L0": rng.uniform(1.5, 3.5),
        "alpha": rng.uniform(0.2, 0.9),
        "C1": rng.uniform(0.02, 0.2) / memory,
        "C2": rng.uniform(0.02, 0.2) / memory,
        "B": rng.uniform(0.2, 1.5) * (1 if old else -1),
        "E": float(np.exp(rng.uniform(np.log(5), np.log(3000)))) / (peak * cpt),
        "beta": rng.uniform(0.1, 0.8),
        "decay": decay,
    }
    truth["A"] = rng.uniform(0.2, 1.0) * (peak * pt) ** truth["alpha"]
    if exponential:
        truth |= {"a2": rng.uniform(2, 9) * (1 if old else -1), "a1": rng.uniform(-0.1, 0.1)}
    elif old:
        truth |= {"replay_gamma": rng.uniform(0, 0.8), "replay_epsilon": rng.uniform(0.01, 0.1)}
    else:
        truth |= {"replay_k": rng.uniform(0.05, 0.5)}
    return Synthetic(law, truth, [_run(rng, f"run{i}", p, law, truth, noise) for i, p in enumerate(phases)])
