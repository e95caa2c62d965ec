"""The result of a fit: what was found, how sure it is, and what it predicts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cptjax.errors import InputError
from cptjax.fitting.metrics import METRICS, curve_metrics, mean_metrics
from cptjax.laws import Law
from cptjax.laws.registry import law_from_json, law_to_json
from cptjax.runs import Run
from cptjax.schedules import Phase

__all__ = ["FitResult"]


@dataclass(frozen=True)
class FitResult:
    """A fitted law.

    Args:
        law: the law, with every open form decided.
        loss: the validation set it was fitted on.
        params: fitted and fixed values.
        stderr: their standard errors (see :mod:`cptjax.fitting.uncertainty`); NaN where the data do not determine a
            parameter, or it is fixed or at its bound.
        objective: sum over all fitted points of Huber(1e-3) of ``log y − log ŷ``.
        converged: whether the solver reached an optimum.
        warnings: what a user should know, in words.
        metrics: ``{"fit": …, "test": …, "runs": {id: …}}``; a split's figures are the mean over its runs.
        undetermined: parameters whose values mean nothing by themselves.
        covariance: of the fitted parameters, in the order of ``fitted``.
        fitted: names of the fitted parameters.
    """

    law: Law
    loss: str
    params: dict[str, float]
    stderr: dict[str, float]
    objective: float
    converged: bool
    warnings: tuple[str, ...] = ()
    metrics: dict[str, Any] = field(default_factory=dict)
    undetermined: tuple[str, ...] = ()
    covariance: Float[np.ndarray, "p p"] | None = None
    fitted: tuple[str, ...] = ()

    def predict(
        self, run: Run | Sequence[Phase], steps: Sequence[int] | Int[np.ndarray, " n"] | None = None
    ) -> Float[np.ndarray, " n"]:
        """Predicted loss of a run (or of bare phases) at ``steps``, by default where the run was observed.

        NaN where the law does not speak: at step 0, and before the transfer for an open-weights law.
        """
        if not isinstance(run, Run):
            phases = tuple(run)
            run = Run("phases", phases, np.empty(0, dtype=int), {})
            steps = np.arange(1, run.total_steps + 1) if steps is None else steps
        return self.predict_runs([run], None if steps is None else [np.asarray(steps)])[0]

    def predict_runs(
        self, runs: Sequence[Run], steps: Sequence[Int[np.ndarray, " n"]] | None = None
    ) -> list[Float[np.ndarray, " n"]]:
        """What :meth:`predict` gives for each of several runs, in one compiled call."""
        at = [run.observed(self.loss)[0] for run in runs] if steps is None else [np.asarray(s) for s in steps]
        for run in runs:
            self.law.check(run)
        if not runs:
            return []
        usable = np.concatenate([self.law.usable(run, s) for run, s in zip(runs, at, strict=True)])
        index = np.repeat(np.arange(len(runs)), [s.size for s in at])
        phases, sizes = [run.phases for run in runs], [run.model_size for run in runs]
        predicted = np.asarray(self.law.predict_runs(self.params, phases, index, np.concatenate(at), sizes))
        predicted = np.where(usable, predicted, np.nan)
        return np.split(predicted, np.cumsum([s.size for s in at])[:-1])

    def evaluate(self, runs: Sequence[Run]) -> dict[str, Any]:
        """Metrics of any runs: per run, and their mean for each split.

        Runs without usable observations of the loss are left out.
        """
        seen = [run for run in runs if np.any(self.law.usable(run, run.observed(self.loss)[0]))]
        each: dict[str, dict[str, float]] = {}
        for run, predicted in zip(seen, self.predict_runs(seen), strict=True):
            spoken = np.isfinite(predicted)
            each[run.id] = curve_metrics(run.observed(self.loss)[1][spoken], predicted[spoken])
        split = {name: mean_metrics([each[run.id] for run in seen if run.split == name]) for name in ("fit", "test")}
        return {**split, "runs": each}

    def summary(self) -> str:
        """A table of parameters and figures, and the warnings, for a terminal."""
        lines = [f"{self.law.name} law, {self.law.kernel.name} kernel, on {self.loss}"]
        width = max(map(len, self.params))
        for name, value in self.params.items():
            error = self.stderr.get(name, float("nan"))
            note = "fixed" if name not in self.fitted else f"± {error:.2g}" if np.isfinite(error) else "not determined"
            lines.append(f"  {name:<{width}}  {value:12.6g}  {note}")
        lines.append(f"objective {self.objective:.6g}, {'converged' if self.converged else 'NOT CONVERGED'}")
        for split in ("fit", "test"):
            if figures := self.metrics.get(split):
                shown = ", ".join(f"{name} {figures[name]:.4g}" for name in METRICS)
                lines.append(f"{split}: {shown} ({figures['n']} points)")
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    def to_json(self) -> dict[str, Any]:
        """The content of ``fit.json``: plain JSON values, ``null`` where a number is not known."""
        return {
            **law_to_json(self.law),
            "loss": self.loss,
            "params": {name: float(value) for name, value in self.params.items()},
            "stderr": {name: _number(value) for name, value in self.stderr.items()},
            "objective": float(self.objective),
            "converged": bool(self.converged),
            "warnings": list(self.warnings),
            "metrics": _numbers(self.metrics),
            "undetermined": list(self.undetermined),
            "fitted": list(self.fitted),
            "covariance": self._covariance_or_none(),
        }

    def _covariance_or_none(self) -> list[list[float]] | None:
        if self.covariance is None or not np.all(np.isfinite(self.covariance)):
            return None
        return self.covariance.tolist()

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "FitResult":
        """Read what :meth:`to_json` wrote.

        Raises:
            InputError: keys are missing or the law is not known.
        """
        try:
            covariance = content.get("covariance")
            law = law_from_json(content)
            params = {parameter.name: float(content["params"][parameter.name]) for parameter in law.parameters}
            if wrong := [name for name, value in params.items() if not np.isfinite(value)]:
                raise InputError(f"not a fit: the parameter {wrong[0]!r} is not finite; write it with `cptjax fit`")
            return FitResult(
                law,
                content["loss"],
                params,
                {name: float("nan") if v is None else float(v) for name, v in content["stderr"].items()},
                float(content["objective"]),
                bool(content["converged"]),
                tuple(content.get("warnings", ())),
                dict(_with_nan(content.get("metrics", {}))),
                tuple(content.get("undetermined", ())),
                None if covariance is None else np.array(covariance),
                tuple(content.get("fitted", ())),
            )
        except KeyError as missing:
            raise InputError(f"not a fit: the key {missing} is missing; write it with `cptjax fit`") from None
        except InputError:
            raise
        except (TypeError, ValueError, AttributeError) as fault:
            raise InputError(f"not a fit: a value has the wrong type ({fault}); write it with `cptjax fit`") from None

    @staticmethod
    def load(path: str | Path) -> "FitResult":
        """Read a ``fit.json``."""
        try:
            content = json.loads(Path(path).read_text())
        except FileNotFoundError:
            raise InputError(f"{path}: no such file; write it with `cptjax fit`") from None
        except OSError as fault:
            raise InputError(f"{path}: cannot be read ({fault.strerror}); give a fit.json") from None
        except (ValueError, RecursionError) as fault:
            raise InputError(f"{path}: not JSON ({fault}); write it with `cptjax fit`") from None
        if not isinstance(content, dict):
            raise InputError(f"{path}: not a fit; write it with `cptjax fit`")
        try:
            return FitResult.from_json(content)
        except InputError as fault:
            raise InputError(f"{path}: {fault}") from None


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _with_nan(tree: Any) -> Any:
    """What JSON gave, with NaN again for the numbers that were not known."""
    if isinstance(tree, Mapping):
        return {key: _with_nan(value) for key, value in tree.items()}
    return float("nan") if tree is None else tree


def _numbers(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _numbers(value) for key, value in tree.items()}
    return _number(tree) if isinstance(tree, float) else tree
