"""The grid of runs, as data: what is trained, in which order, and which runs are held out.

A run is a list of phases in the vocabulary of cptjax's run manifest (``kind``, ``peak``, ``end``,
``warmup`` …). From that one description come both the learning rate of every optimiser step
(``Run.rates``) and the manifest (``manifest``), so that the two cannot disagree.

Learning rates. Step ``t`` counts 1 … n inside the phase, ``eta(t)`` is the rate used in step ``t``:

- warm-up is linear and reaches ``peak`` exactly at ``t = warmup``, from 0 or, in a CPT phase, from
  ``warmup_from`` (default: the last rate before it);
- ``linear`` and ``cosine`` fall from ``peak`` at ``t = warmup`` to ``end`` at ``t = n``;
- ``wsd`` holds ``peak`` until ``t = decay_start``, then falls to ``end`` at ``t = n``.

The names of the runs: ``pt_*`` never leave the first corpus; ``code_*`` and ``foldoc_*`` move to
Python code (a strong shift) or the computing dictionary FOLDOC (a weak one); ``scratch_*`` are
pre-trained on the new corpus itself, the curve to which continual pre-training converges. ``p01``
is loss potential .1 (final over peak rate of pre-training), ``rewarm`` a warm-up at the start of
CPT, ``x025`` a quarter of the peak rate, ``r20`` a replay ratio of .2, ``t2000`` the transfer at
step 2000 (default 3000).

The split into ``fit`` and ``test`` was fixed before any curve was made, by kind (``split_of``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .model import SIZES

__all__ = [
    "GRID",
    "PEAK",
    "Phase",
    "Run",
    "branch_points",
    "manifest",
    "own_from",
    "split_of",
]

PEAK = 5e-3
WARMUP = 100  # pre-training
REWARM = 100  # continual pre-training
TRANSFER = 3000  # the transfer point of most runs
DECAY_START = 2200  # annealed bases leave the trunk here and end at TRANSFER
CPT_STEPS = 1500
LONG_STEPS = 3000

Schedule = dict[str, float | int | str]


@dataclass(frozen=True)
class Phase:
    """One phase: ``pt`` or ``cpt``, its length, its schedule and, in CPT, the share of D_pt in the
    batches.
    """

    name: str
    steps: int
    schedule: Schedule
    replay_ratio: float | None = None

    def rates(self, last: float) -> np.ndarray:
        """Learning rate of steps 1 … n of this phase, given the last rate before it."""
        s, n = self.schedule, self.steps
        t = np.arange(1, n + 1, dtype=np.float64)
        peak = float(s["peak"])
        warmup = int(s.get("warmup", 0))
        start = float(s.get("warmup_from", 0.0 if self.name == "pt" else last))
        end = float(s.get("end", peak))
        if s["kind"] == "constant":
            after = np.full(n, peak)
        elif s["kind"] == "linear":
            after = end + (peak - end) * (n - t) / (n - warmup)
        elif s["kind"] == "cosine":
            after = end + (peak - end) * (1 + np.cos(np.pi * (t - warmup) / (n - warmup))) / 2
        elif s["kind"] == "wsd":
            decay_start = int(s["decay_start"])
            remaining = (n - t) / (n - decay_start)
            if s["decay"] == "linear":
                after = end + (peak - end) * remaining
            else:
                after = end * (peak / end) ** np.minimum(remaining, 1.0)
            after = np.where(t <= decay_start, peak, after)
        else:
            raise ValueError(f"unknown schedule kind {s['kind']!r}")
        rising = start + (peak - start) * t / max(warmup, 1)
        return np.where(t < warmup, rising, after)


@dataclass(frozen=True)
class Run:
    """One run: its phases, and what else sets it apart (corpora, model size, batch, seed)."""

    id: str
    phases: tuple[Phase, ...]
    domain: str = ""  # the corpus of the CPT phases
    pt_domain: str = "pt"  # the corpus of the PT phases
    size: str = "small"
    batch: int = 32
    seed: int = 0
    groups: tuple[str, ...] = field(default=())  # manifests besides runs.toml
    test: bool = False  # held out for a reason that split_of cannot see (longest run)

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self.phases)

    @property
    def pt_steps(self) -> int:
        return sum(phase.steps for phase in self.phases if phase.name == "pt")

    @property
    def potential(self) -> float:
        """Final over peak rate of pre-training."""
        last = [phase for phase in self.phases if phase.name == "pt"][-1].schedule
        return float(last.get("end", last["peak"])) / float(last["peak"])

    @property
    def cpt(self) -> Phase | None:
        """The CPT phase, if there is one (no run here has more)."""
        return next((phase for phase in self.phases if phase.name == "cpt"), None)

    def rates(self) -> np.ndarray:
        """Learning rate of every step of the run; step ``t`` uses ``rates()[t - 1]``."""
        parts: list[np.ndarray] = []
        for phase in self.phases:
            parts.append(phase.rates(float(parts[-1][-1]) if parts else 0.0))
        return np.concatenate(parts)


# The rule of the split. Decided with the grid, before any curve existed. A run is held out for test
# when its CPT schedule is cosine or wsd (whole schedules), or its replay ratio is .2, .5 or .8, or
# its loss potential is .3, or it is among the longest (CPT over 1,500 steps, PT simply continued to
# 6,000), or it is the one pre-training run under a cosine. Everything else is for fitting: constant
# and linear CPT schedules, replay 0, .1, .33 and .67, potentials 0, .1, .5 and 1, all peak rates
# and transfer points under those.
def split_of(run: Run) -> str:
    """``fit`` or ``test``, by kind; see the comment above this function."""
    cpt = run.cpt
    held_out = run.test or abs(run.potential - 0.3) < 1e-9
    if cpt is not None:
        held_out |= cpt.schedule["kind"] in ("cosine", "wsd")
        held_out |= cpt.replay_ratio in (0.2, 0.5, 0.8)
        held_out |= cpt.steps > CPT_STEPS
    return "test" if held_out else "fit"


# --- the pieces of the grid ----------------------------------------------------------------------


def _constant(peak: float = 1.0, warmup: int = 0) -> Schedule:
    return _clean(kind="constant", peak=peak * PEAK, warmup=warmup)


def _linear(peak: float = 1.0, warmup: int = 0, end: float = 0.0) -> Schedule:
    return _clean(kind="linear", peak=peak * PEAK, end=end * PEAK, warmup=warmup)


def _cosine(peak: float = 1.0, warmup: int = 0, end: float = 0.0) -> Schedule:
    return _clean(kind="cosine", peak=peak * PEAK, end=end * PEAK, warmup=warmup)


def _wsd(start: int, peak: float = 1.0, end: float = 0.0, warmup: int = 0, decay: str = "linear") -> Schedule:
    return _clean(kind="wsd", peak=peak * PEAK, end=end * PEAK, decay_start=start, decay=decay, warmup=warmup)


def _clean(**schedule: float | int | str) -> Schedule:
    """Round away binary noise (the manifest prints these numbers); leave out an absent warm-up."""
    return {
        key: float(f"{value:.10g}") if isinstance(value, float) else value
        for key, value in schedule.items()
        if not (key == "warmup" and value == 0)
    }


def _trunk(steps: int = TRANSFER) -> Phase:
    return Phase("pt", steps, _constant(warmup=WARMUP))


def _base(potential: float) -> Phase:
    """Pre-training to TRANSFER whose last part anneals to ``potential`` times the peak."""
    if potential == 1:
        return _trunk()
    return Phase("pt", TRANSFER, _wsd(DECAY_START, end=potential, warmup=WARMUP))


def _pt(id: str, phase: Phase, groups: tuple[str, ...] = ("code", "foldoc"), **other: object) -> Run:
    return Run(id, (phase,), groups=groups, **other)  # type: ignore[arg-type]


def _cpt(
    id: str,
    schedule: Schedule,
    replay: float = 0.0,
    potential: float = 1,
    transfer: int = TRANSFER,
    steps: int = CPT_STEPS,
    groups: tuple[str, ...] | None = None,
    **other: object,
) -> Run:
    """A run that transfers to the corpus that its name begins with."""
    domain = id.split("_")[0]
    base = _base(potential) if transfer == TRANSFER else _trunk(transfer)
    phases = (base, Phase("cpt", steps, schedule, replay))
    return Run(id, phases, domain=domain, groups=groups or (domain,), **other)  # type: ignore[arg-type]


def _scratch(domain: str, name: str, schedule: Schedule) -> Run:
    phase = Phase("pt", TRANSFER + CPT_STEPS, schedule)
    return Run(f"scratch_{domain}_{name}", (phase,), pt_domain=domain, groups=("scratch",))


def _potentials(domain: str) -> list[Run]:
    return [
        # the learning rate goes on from where pre-training left it
        _cpt(f"{domain}_p05_linear", _linear(0.5), potential=0.5),
        _cpt(f"{domain}_p01_linear", _linear(0.1), potential=0.1),
        _cpt(f"{domain}_p03_linear", _linear(0.3), potential=0.3),
    ]


def _build() -> list[Run]:
    """All runs, most useful first."""
    wsd = _wsd(1000)
    runs = [
        _pt("pt_constant", _trunk(4000)),
        _cpt("code_linear", _linear()),
        _cpt("code_constant", _constant()),
        _pt("pt_p0", _base(0)),
        _cpt("code_cosine", _cosine()),
        _cpt("code_r33_linear", _linear(), replay=0.33),
        _cpt("code_p0_rewarm_linear", _linear(warmup=REWARM), potential=0),
        _cpt("foldoc_linear", _linear()),
        _cpt("foldoc_constant", _constant()),
        _cpt("code_wsd", wsd),
        _cpt("code_r20_linear", _linear(), replay=0.2),
        _cpt("code_r67_linear", _linear(), replay=0.67),
        _cpt("code_r50_linear", _linear(), replay=0.5),
        _cpt("code_r10_linear", _linear(), replay=0.1),
        _cpt("code_r80_linear", _linear(), replay=0.8),
        # transfer points
        *[_cpt(f"code_t{t}_linear", _linear(), transfer=t) for t in (1000, 2000, 4000)],
        # loss potentials
        _pt("pt_p05", _base(0.5)),
        _pt("pt_p01", _base(0.1)),
        _pt("pt_p03", _base(0.3)),
        *_potentials("code"),
        # peak rates, re-warmed from a fully annealed base
        *[
            _cpt(f"code_p0_rewarm_x{name}_linear", _linear(x, warmup=REWARM), potential=0)
            for name, x in (("025", 0.25), ("05", 0.5), ("0125", 0.125), ("2", 2.0))
        ],
        # the hidden curves
        _pt("pt_decayed", Phase("pt", 4500, _wsd(3000, warmup=WARMUP))),
        _pt("pt_continued", _trunk(6000), test=True),
        _scratch("code", "constant", _constant(warmup=WARMUP)),
        _scratch("code", "decayed", _wsd(3000, warmup=WARMUP)),
        _cpt("code_long_linear", _linear(), steps=LONG_STEPS),
        # the weak shift
        _cpt("foldoc_cosine", _cosine()),
        _cpt("foldoc_r33_linear", _linear(), replay=0.33),
        _cpt("foldoc_p0_rewarm_linear", _linear(warmup=REWARM), potential=0),
        _cpt("foldoc_r67_linear", _linear(), replay=0.67),
        _cpt("foldoc_r20_linear", _linear(), replay=0.2),
        _cpt("foldoc_r50_linear", _linear(), replay=0.5),
        _cpt("foldoc_r10_linear", _linear(), replay=0.1),
        _cpt("foldoc_t1000_linear", _linear(), transfer=1000),
        *_potentials("foldoc"),
        _cpt("foldoc_wsd", wsd),
        _cpt("foldoc_long_linear", _linear(), steps=LONG_STEPS),
        # seeds of one run
        *[
            run
            for seed in (1, 2)
            for run in (
                _pt(f"pt_seed{seed}", _trunk(), groups=("variants",), seed=seed),
                _cpt(f"code_seed{seed}_linear", _linear(), seed=seed, groups=("variants",)),
            )
        ],
        # replay under other schedules and bases
        _cpt("code_r33_constant", _constant(), replay=0.33),
        _cpt("code_r67_constant", _constant(), replay=0.67),
        _cpt("code_r50_constant", _constant(), replay=0.5),
        _cpt("code_r20_constant", _constant(), replay=0.2),
        _cpt("code_r33_cosine", _cosine(), replay=0.33),
        _cpt("code_p0_rewarm_r33_linear", _linear(warmup=REWARM), replay=0.33, potential=0),
        _cpt("code_p0_rewarm_r50_linear", _linear(warmup=REWARM), replay=0.5, potential=0),
        # potentials with re-warm-up, and under constant rates
        *[
            _cpt(f"code_p{n}_rewarm_linear", _linear(warmup=REWARM), potential=p)
            for n, p in (("05", 0.5), ("01", 0.1), ("03", 0.3))
        ],
        _cpt("code_p0_rewarm_constant", _constant(warmup=REWARM), potential=0),
        _cpt("code_p05_constant", _constant(0.5), potential=0.5),
        _cpt("code_p0_rewarm_cosine", _cosine(warmup=REWARM), potential=0),
        # peak rates straight from the trunk
        *[
            _cpt(f"code_x{name}_linear", _linear(x, warmup=REWARM))
            for name, x in (("025", 0.25), ("05", 0.5), ("2", 2.0))
        ],
        # the larger model
        _pt("pt_large", _trunk(), groups=("sizes",), size="large"),
        _cpt("code_large_linear", _linear(), size="large", groups=("sizes",)),
        _cpt("code_large_constant", _constant(), size="large", groups=("sizes",)),
        _cpt("code_large_cosine", _cosine(), size="large", groups=("sizes",)),
        _cpt("code_large_r33_linear", _linear(), replay=0.33, size="large", groups=("sizes",)),
        _cpt("foldoc_large_linear", _linear(), size="large", groups=("sizes",)),
        # a smaller batch
        _pt("pt_b16", _trunk(), groups=("variants",), batch=16),
        _cpt("code_b16_linear", _linear(), batch=16, groups=("variants",)),
        _cpt("code_b16_constant", _constant(), batch=16, groups=("variants",)),
        # the rest
        _scratch("foldoc", "constant", _constant(warmup=WARMUP)),
        _scratch("foldoc", "decayed", _wsd(3000, warmup=WARMUP)),
        _pt("pt_cosine", Phase("pt", 4500, _cosine(warmup=WARMUP)), test=True),
        *[_cpt(f"code_t{t}_constant", _constant(), transfer=t) for t in (1000, 2000, 4000)],
        _cpt("code_t1000_cosine", _cosine(), transfer=1000),
        _cpt("code_t4000_cosine", _cosine(), transfer=4000),
        _cpt("foldoc_t4000_linear", _linear(), transfer=4000),
        _cpt("foldoc_t2000_linear", _linear(), transfer=2000),
        _cpt("foldoc_p0_rewarm_x025_linear", _linear(0.25, warmup=REWARM), potential=0),
        _cpt("foldoc_p0_rewarm_x05_linear", _linear(0.5, warmup=REWARM), potential=0),
        _cpt("foldoc_r33_constant", _constant(), replay=0.33),
        _cpt("foldoc_r80_linear", _linear(), replay=0.8),
        _cpt("code_cosine_end", _cosine(end=0.1)),
        _cpt("code_wsd_exponential", _wsd(1000, end=0.02, decay="exponential")),
        _cpt("code_p01_constant", _constant(0.1), potential=0.1),
        _cpt("code_p0_rewarm_x0125_cosine", _cosine(0.125, warmup=REWARM), potential=0),
        _cpt("code_p0_rewarm_x05_cosine", _cosine(0.5, warmup=REWARM), potential=0),
        _cpt("code_r10_constant", _constant(), replay=0.1),
        _cpt("code_long_wsd", _wsd(2000), steps=LONG_STEPS),
    ]
    if len({run.id for run in runs}) != len(runs):
        raise ValueError("two runs of the grid share a name")
    return runs


GRID: list[Run] = _build()


# --- shared history ------------------------------------------------------------------------------


def branch_points() -> set[int]:
    """Pre-training steps at which some run may leave another: ends of PT and beginnings of decays;
    the trainer keeps checkpoints there.
    """
    points = set()
    for run in GRID:
        points.add(run.pt_steps)
        points |= {int(p.schedule["decay_start"]) for p in run.phases if "decay_start" in p.schedule}
    return points


def own_from(run: Run, among: list[Run]) -> int:
    """The step after which ``run`` no longer shares its history with any run listed before it (0:
    it never did).
    """
    shared = 0
    rates = run.rates()[: run.pt_steps]
    for other in among:
        if other.id == run.id:
            break
        kin = (run.size, run.batch, run.seed, run.pt_domain)
        if kin != (other.size, other.batch, other.seed, other.pt_domain):
            continue
        theirs = other.rates()[: other.pt_steps]
        n = min(len(rates), len(theirs))
        differ = np.flatnonzero(rates[:n] != theirs[:n])
        shared = max(shared, int(differ[0]) if len(differ) else n)
    return shared


# --- the manifest --------------------------------------------------------------------------------


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(x)}" for key, x in value.items()) + " }"
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value)


def manifest(name: str, runs: list[Run], file: str) -> str:
    """The run manifest (TOML) of some runs whose curves are rows of one ``file``."""
    lines = [f'name = "{name}"']
    for run in runs:
        lines += [
            "",
            "[[run]]",
            f'id = "{run.id}"',
            f'file = "{file}"',
            f'where = {{ run = "{run.id}" }}',
            f'split = "{split_of(run)}"',
            f"model_size = {SIZES[run.size].parameters / 1e6!r}",
        ]
        for phase in run.phases:
            lines += ["  [[run.phase]]", f'  name = "{phase.name}"', f"  steps = {phase.steps}"]
            if phase.replay_ratio is not None:
                lines.append(f"  replay_ratio = {phase.replay_ratio!r}")
            lines.append(f"  schedule = {_toml(phase.schedule)}")
    return "\n".join(lines) + "\n"
