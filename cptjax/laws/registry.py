"""Laws by name: how a law and its kernel are chosen on the command line and written to JSON."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from cptjax.areas import Functional, Kernel, LRWeighted, Momentum, MultiPower, Power
from cptjax.errors import InputError
from cptjax.laws.annealing import AnnealingLaw, FunctionalLaw, MultiPowerLaw
from cptjax.laws.base import Law
from cptjax.laws.cpt import CPTLaw
from cptjax.laws.crossing import CrossingLaw
from cptjax.laws.replay import ExponentialReplay, Replay, ShareReplay

__all__ = ["KERNELS", "LAWS", "REPLAYS", "law_from_json", "law_to_json"]

LAWS: dict[str, type[Law]] = {
    law.name: law for law in (AnnealingLaw, CPTLaw, CrossingLaw, MultiPowerLaw, FunctionalLaw)
}
KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Momentum, LRWeighted, Power, MultiPower, Functional)
}
REPLAYS: dict[str, type[Replay]] = {"share": ShareReplay, "exponential": ExponentialReplay}


def _options(module: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a module as JSON values."""
    fields = {f.name: getattr(module, f.name) for f in dataclasses.fields(module) if f.name not in skip}
    return {name: float(x) if isinstance(x, float) or hasattr(x, "dtype") else x for name, x in fields.items()}


def law_to_json(law: Law) -> dict[str, Any]:
    """``law`` and ``kernel`` by name, and every choice behind them under ``options``."""
    options: dict[str, Any] = {"law": _options(law, ("kernel", "replay")), "kernel": _options(law.kernel)}
    if isinstance(law, CPTLaw | CrossingLaw) and law.replay is not None:
        name = next(name for name, cls in REPLAYS.items() if isinstance(law.replay, cls))
        options["replay"] = {"name": name, **_options(law.replay)}
    return {"law": law.name, "kernel": law.kernel.name, "options": options}


def law_from_json(content: Mapping[str, Any]) -> Law:
    """The law that :func:`law_to_json` described.

    Raises:
        InputError: a name or an option is not known.
        KeyError: a key is missing.
    """
    law, kernel, options = content["law"], content["kernel"], content.get("options", {})
    for what, name, known in (("law", law, LAWS), ("kernel", kernel, KERNELS)):
        if name not in known:
            raise InputError(f"unknown {what} {name!r}: known are {', '.join(known)}")
    kernel_options = options.get("kernel", {})
    for name, value in kernel_options.items():
        if name not in ("mode", "warmup") and not (value is None or isinstance(value, int | float)):
            raise InputError(f"options of kernel {kernel!r}: {name!r} is {value!r}, give a number or null")
    try:
        extra = {}
        if "replay" in options:
            replay = dict(options["replay"])
            extra["replay"] = REPLAYS[replay.pop("name")](**replay)
        return LAWS[law](kernel=KERNELS[kernel](**kernel_options), **extra, **options.get("law", {}))  # pyright: ignore[reportCallIssue]
    except (TypeError, ValueError, KeyError) as fault:
        raise InputError(f"options of law {law!r} cannot be read ({fault})") from None
