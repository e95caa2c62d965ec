"""Schedules and phases as plain dicts: what a manifest says in TOML, and other files of the package in JSON.

==========  =====================================================================================================
``kind``    keys
==========  =====================================================================================================
constant    ``peak``
linear      ``peak``, ``end``
cosine      ``peak``, ``end``
wsd         ``peak``, ``end``, ``decay_start``, ``decay`` (linear, exponential, cosine or sqrt; linear by default)
steps       ``boundaries``, ``values``: the first value before step ``boundaries[0]``, the second from it on, and so on
knots       ``steps``, ``values``: linear between
logged      none: the LR column of the run's file; or ``values``, one LR a step, with ``breaks`` where it jumps
==========  =====================================================================================================

Every kind takes ``warmup``, steps of linear rise inside the phase, and ``warmup_from``, the LR it starts from. Reading
back what :func:`schedule_to_dict` wrote gives the same schedule to the last bit.

>>> schedule_from_dict({"kind": "cosine", "peak": 3e-4, "end": 3e-5, "warmup": 10}, steps=100)
Cosine(steps=100, warmup=10, peak=f64[], end=f64[])
"""

from typing import Any, cast, get_args

import jax.numpy as jnp
import numpy as np

from cptjax.errors import InputError
from cptjax.readers.fields import MOST_STEPS, Fields
from cptjax.readers.logged import RowsOfPhase
from cptjax.readers.places import Place
from cptjax.schedules import WSD, Constant, Cosine, Decay, Knots, Linear, Phase, Schedule, Steps, Table, find_cuts

__all__ = ["phase_from_dict", "phase_to_dict", "schedule_from_dict", "schedule_to_dict"]

_KEYS = {
    "constant": ("peak",),
    "linear": ("peak", "end"),
    "cosine": ("peak", "end"),
    "wsd": ("peak", "end", "decay_start", "decay"),
    "steps": ("boundaries", "values"),
    "knots": ("steps", "values"),
    "logged": ("values", "breaks"),
}


def schedule_from_dict(
    data: object, steps: int, *, place: Place | None = None, rows: RowsOfPhase | None = None
) -> Schedule:
    """The schedule a dict describes.

    Args:
        data: the dict, see the table above.
        steps: length of the phase.
        place: where the dict stands, for messages.
        rows: gives the LR rows of the phase, which ``logged`` without ``values`` needs.

    Raises:
        InputError: an unknown or missing key, a value of the wrong type or out of range.
    """
    fields = Fields(data, place or Place("schedule"), "schedule")
    kind = fields.choice("kind", tuple(_KEYS))
    fields.check_known(("kind", "warmup", "warmup_from", *_KEYS[kind]))
    warmup = fields.integer("warmup", 0, steps, default=None)
    warmup_from = fields.rate("warmup_from", default=None)
    if warmup is None and warmup_from is not None:
        raise fields.refusal("warmup_from", "give 'warmup' too, the steps the rise takes")
    if kind == "logged" and "values" not in fields.data:
        if rows is None:
            raise fields.place.error("a logged schedule without a file", "give 'values', one LR a step")
        fields.check_known(("kind", "warmup", "warmup_from"))
        return rows(steps).schedule(steps, warmup, warmup_from)
    try:
        return _build(kind, fields, steps, warmup or 0, warmup_from)
    except InputError:
        raise
    except ValueError as error:
        raise fields.place.error(f"{kind} schedule", str(error)) from None


def _build(kind: str, fields: Fields, steps: int, warmup: int, warmup_from: float | None) -> Schedule:
    start = None if warmup_from is None else jnp.asarray(warmup_from, dtype=float)
    rise: dict[str, Any] = {"warmup": warmup, "warmup_from": start}
    if kind == "steps":
        return Steps(tuple(fields.integers("boundaries")), jnp.asarray(fields.rates("values")), steps=steps, **rise)
    if kind == "knots":
        return Knots(tuple(fields.integers("steps")), jnp.asarray(fields.rates("values")), steps=steps, **rise)
    if kind == "logged":
        rates = np.array(fields.rates("values"))
        if rates.size != steps:
            raise ValueError(f"{steps} steps need as many values, got {rates.size}")
        breaks = fields.integers("breaks", default=None)
        return Table(rates=jnp.asarray(rates), breaks=find_cuts(rates) if breaks is None else tuple(breaks), **rise)
    peak = fields.rate("peak")
    if kind == "constant":
        return Constant(peak, steps=steps, **rise)
    end = fields.rate("end")
    if kind == "wsd":
        decay_start = fields.integer("decay_start", warmup, steps)
        decay = cast(Decay, fields.choice("decay", get_args(Decay), default="linear"))
        return WSD(peak, end, steps=steps, decay_start=decay_start, decay=decay, **rise)
    return (Linear if kind == "linear" else Cosine)(peak, end, steps=steps, **rise)


def schedule_to_dict(schedule: Schedule) -> dict[str, Any]:
    """The dict that :func:`schedule_from_dict`, given ``schedule.steps``, turns into the same schedule.

    Raises:
        TypeError: a schedule without a ``kind``: write the parts of a joined one as phases, and any other as a table
            of its values (``from_array(schedule.values())``).
    """
    match schedule:
        case Constant():
            data = {"kind": "constant", "peak": float(schedule.peak)}
        case Linear():
            data = {"kind": "linear", "peak": float(schedule.peak), "end": float(schedule.end)}
        case Cosine():
            data = {"kind": "cosine", "peak": float(schedule.peak), "end": float(schedule.end)}
        case WSD():
            data = {"kind": "wsd", "peak": float(schedule.peak), "end": float(schedule.end)}
            data |= {"decay_start": schedule.decay_start, "decay": schedule.decay}
        case Steps():
            data = {"kind": "steps", "boundaries": list(schedule.boundaries), "values": _floats(schedule.rates)}
        case Knots():
            data = {"kind": "knots", "steps": list(schedule.knots), "values": _floats(schedule.rates)}
        case Table():
            data = {"kind": "logged", "values": _floats(schedule.rates), "breaks": list(schedule.breaks)}
        case _:
            raise TypeError(
                f"a {type(schedule).__name__.strip('_')} schedule has no kind: write its parts or its values"
            )
    if schedule.warmup or schedule.warmup_from is not None:
        data["warmup"] = schedule.warmup
    if schedule.warmup_from is not None:
        data["warmup_from"] = float(schedule.warmup_from)
    return data


def _floats(rates: Any) -> list[float]:
    return np.asarray(rates, dtype=float).tolist()


def phase_from_dict(data: object, *, place: Place | None = None, rows: RowsOfPhase | None = None) -> Phase:
    """The phase a dict describes: ``name`` (pt or cpt), ``steps``, ``schedule`` and, for cpt, ``replay_ratio``.

    Args:
        data: the dict.
        place: where it stands, for messages.
        rows: as in :func:`schedule_from_dict`.

    Raises:
        InputError: an unknown or missing key, a value of the wrong type or out of range.
    """
    fields = Fields(data, place or Place("phase"), "phase")
    fields.check_known(("name", "steps", "replay_ratio", "schedule"))
    name = fields.choice("name", ("pt", "cpt"))
    steps = fields.integer("steps", 1, MOST_STEPS)
    replay_ratio = fields.share("replay_ratio", default=0.0)
    if name == "pt" and "replay_ratio" in fields.data:
        raise fields.refusal("replay_ratio", "remove it, only a cpt phase replays")
    described = fields.take("schedule", "a table with 'kind'", lambda v: isinstance(v, dict))
    schedule = schedule_from_dict(described, steps, place=fields.place, rows=rows)
    return Phase(schedule, "cpt" if name == "cpt" else "pt", replay_ratio)


def phase_to_dict(phase: Phase) -> dict[str, Any]:
    """The dict that :func:`phase_from_dict` turns into the same phase.

    Raises:
        TypeError: its schedule has no ``kind``, see :func:`schedule_to_dict`.
    """
    data: dict[str, Any] = {"name": phase.name, "steps": phase.schedule.steps}
    if phase.name == "cpt":
        data["replay_ratio"] = float(phase.replay_ratio)
    return data | {"schedule": schedule_to_dict(phase.schedule)}
