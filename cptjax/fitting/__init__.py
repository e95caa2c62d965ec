"""Point fits: objective, starts, solver, and a result that says what it does not know."""

from cptjax.fitting.fits import fit, fit_jointly
from cptjax.fitting.metrics import curve_metrics, mean_metrics
from cptjax.fitting.result import FitResult

__all__ = ["FitResult", "curve_metrics", "fit", "fit_jointly", "mean_metrics"]
