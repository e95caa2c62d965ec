"""The ``cptjax`` command. Every mistake of the user is one line on stderr and exit code 2.

Matplotlib is imported while the first fit compiles: it takes as long to load as a small fit to run.
"""

import csv
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version as installed_version
from pathlib import Path
from threading import Thread
from typing import Annotated, Literal

import numpy as np
import typer
from jaxtyping import Float, Int

from cptjax.choices import Choices, choose_laws, choose_loss
from cptjax.demo import run_demo
from cptjax.errors import InputError
from cptjax.fitting import FitResult
from cptjax.fitting import fit as search
from cptjax.outputs import claim, write_fit, write_plot, written
from cptjax.readers import read_planned, read_runs
from cptjax.runs import Run

__all__ = ["main"]

app = typer.Typer(
    help="Scaling laws of (continual) pre-training: fit them to loss logs, predict any schedule.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Of every mistake in the words of a command line: click's, which newer typers carry inside."""

Steps = Int[np.ndarray, " n"]
Losses = Float[np.ndarray, " n"]

Out = Annotated[Path, typer.Option(help="Folder to write into.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
Seed = Annotated[int, typer.Option(min=0, help="Shifts the starts of the search.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cptjax {installed_version('cptjax')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say and stop.")] = False,
) -> None:
    del version


def _decay(text: str | None) -> float | Literal["fit"] | None:
    if text is None or text == "fit":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--decay {text!r} is neither a number nor 'fit'") from None


@app.command()
def fit(
    manifest: Annotated[Path, typer.Argument(help="Run manifest (.toml), or one csv, csv.gz, jsonl or parquet file.")],
    law: Annotated[
        str | None, typer.Option(help="annealing, cpt, crossing, multipower, functional. [default: as the runs]")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="momentum, lr-weighted, power, multipower or functional.")] = None,
    loss: Annotated[str | None, typer.Option(help="Column of the validation set, if there are several.")] = None,
    decay: Annotated[str | None, typer.Option(help="The kernel's decay, 'fit' to fit it. [default: 0.999]")] = None,
    replay: Annotated[str, typer.Option(help="auto, none, share or exponential.")] = "auto",
    warmup: Annotated[
        str, typer.Option(help="How the initial warm-up counts: auto (better of both), flat, full.")
    ] = "auto",
    size: Annotated[
        bool | None, typer.Option("--size/--no-size", help="Model size in the law. [default: as the runs]")
    ] = None,
    open_weights: Annotated[bool, typer.Option("--open-weights", help="The base model's training is unknown.")] = False,
    out: Out = Path(),
    force: Force = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a law to the fit runs of a manifest, test it on the others; writes fit.json and fit.png."""
    report, picture = claim(out, ("fit.json", "fit.png"), force)
    runs = read_runs(manifest)
    if not runs.fit:
        raise InputError(f"{manifest}: every run has split 'test': mark those to fit on as 'fit'")
    column = choose_loss(runs.fit, loss)
    laws = choose_laws(runs.fit, Choices(law, kernel, _decay(decay), replay, warmup, size, open_weights))
    with _loading_plots(), _progress(f"fitting {len(runs.fit)} runs of {column}", quiet):
        result = search(laws, runs.fit, column, report=runs.test, seed=seed)
        write_fit(report, result)
    with _progress("drawing", quiet):
        write_plot(picture, result, runs)
    if not quiet:
        typer.echo(result.summary())
        if len(laws) > 1:
            typer.echo(f"initial warm-up: {result.law.kernel.warmup} (the lower objective of flat and full)")
        typer.echo(f"wrote {report} and {picture}")


@app.command()
def predict(
    fitted: Annotated[Path, typer.Argument(metavar="FIT", help="The fit.json of `cptjax fit`.")],
    manifest: Annotated[Path | None, typer.Option(help="Predict the runs of a manifest (or of one table).")] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Predict a planned run: TOML of [[phase]] tables, or a table of step and lr.")
    ] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Steps between predictions. [default: 200 a run]")] = None,
    out: Out = Path(),
    force: Force = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Predict losses with a fitted law; writes predictions.csv and predictions.png."""
    del seed
    if (manifest is None) == (schedule is None):
        raise InputError("give either --manifest or --schedule")
    table, picture = claim(out, ("predictions.csv", "predictions.png"), force)
    result = FitResult.load(fitted)
    if manifest is not None:
        runs: Sequence[Run] = read_runs(manifest)
    else:
        whole = getattr(result.law, "unknown_history", False)
        runs = [read_planned(schedule or Path(), "cpt" if whole else "pt")]
    with _progress(f"predicting {len(runs)} runs", quiet):
        grids = [_steps_to_predict(run, run.observed(result.loss)[0], every) for run in runs]
        predicted = result.predict_runs(runs, grids)
        _write_predictions(table, result, runs, grids, predicted)
        write_plot(picture, result, runs)
    if not quiet:
        for run, values in zip(runs, predicted, strict=True):
            typer.echo(f"{run.id}: {result.loss} {values[-1]:.4f} predicted at step {run.total_steps}")
        figures = result.evaluate(runs)["runs"]
        if figures:
            errors = [each["mae"] for each in figures.values()]
            typer.echo(f"mean error over {len(errors)} observed runs: {1e3 * sum(errors) / len(errors):.2f} mnats")
        typer.echo(f"wrote {table} ({sum(map(len, grids))} rows) and {picture}")


@app.command()
def demo(
    out: Out = Path("cptjax-demo"),
    force: Force = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Run the whole story on the real curves that ship with cptjax: fit both losses, test them, take one decision."""
    with _progress("demo", quiet) as say:
        run_demo(out, force, seed, echo=(lambda text: None) if quiet else say)


@contextmanager
def _progress(what: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line with the time gone by while something runs, on a terminal; yields how to print above it."""
    if quiet:
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(what, total=None)
        yield typer.echo


@contextmanager
def _loading_plots() -> Iterator[None]:
    """Import the plots in another thread while the fit compiles."""

    def load() -> None:
        import cptjax.plots  # noqa: F401

    thread = Thread(target=load, daemon=True)
    thread.start()
    yield
    thread.join()


def _write_predictions(
    path: Path, result: FitResult, runs: Sequence[Run], grids: Sequence[Steps], predicted: Sequence[Losses]
) -> None:
    """One row for each predicted and each observed step of each run; an empty cell where there is nothing."""
    with written(path) as beside, beside.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        rows = csv.writer(stream)
        rows.writerow(("run", "split", "step", "lr", "predicted", "observed"))
        for run, steps, values in zip(runs, grids, predicted, strict=True):
            found = dict(zip(*(x.tolist() for x in run.observed(result.loss)), strict=True))
            rates = run.rates
            for step, value in zip(steps.tolist(), values.tolist(), strict=True):
                lr = f"{rates[step - 1]:.9g}" if step else ""
                said = "" if math.isnan(value) else f"{value:.9g}"
                rows.writerow((run.id, run.split if found else "", step, lr, said, found.get(step, "")))


def _steps_to_predict(run: Run, seen: Steps, every: int | None) -> Steps:
    """Every so many steps, every observed one and the last."""
    stride = min(every or max(run.total_steps // 200, 1), run.total_steps)
    return np.union1d(np.append(np.arange(stride, run.total_steps, stride), run.total_steps), seen)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0, or 2 for a mistake of the user."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
        return app(words, prog_name="cptjax", standalone_mode=False) or 0
    except InputError as fault:
        said = str(fault)
    except _USAGE_ERROR as fault:
        said = fault.format_message()  # pyright: ignore[reportAttributeAccessIssue]
    except (KeyboardInterrupt, typer.Abort):
        print("cptjax: interrupted", file=sys.stderr)
        return 130
    print(f"cptjax: {' '.join(said.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
