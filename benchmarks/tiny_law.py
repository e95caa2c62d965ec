"""Laws tried on the curves of tiny-cpt: which form holds, by how much, and what the papers' claims are worth here.

``python -m benchmarks.tiny_law``            laws and kernels: fit split, leave-a-kind-out, then the test split, once
``python -m benchmarks.tiny_law baselines``  the law against a power law per run, the last value, and D-CPT
``python -m benchmarks.tiny_law claims``     the paper's claims, each measured on these curves
``python -m benchmarks.tiny_law figure F``   residuals of the CPT law and of the crossing law on the test split

A law is fitted to the fit split of one domain and one validation set (all its rows), and judged on the rows of
continual pre-training. "cv" leaves out one kind of run at a time, within the fit split: by it the forms were chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cptjax as cj
from benchmarks.report import show

SETS = [("code", "pt"), ("code", "cpt"), ("foldoc", "pt"), ("foldoc", "cpt")]
# Kinds of fit runs, each left out in turn.
KINDS: dict[str, Callable[[str], bool]] = {
    "constant": lambda name: "constant" in name,
    **{f"replay .{r}": lambda name, r=r: f"_r{r}_" in name for r in (10, 33, 67)},
    "potential 0": lambda name: "_p0_" in name and "_x" not in name,
    "potential .1": lambda name: "_p01_" in name,
    "potential .5": lambda name: "_p05_" in name,
    "early transfer": lambda name: "_t1000" in name,
    "late transfer": lambda name: "_t4000" in name,
    "high peak": lambda name: "x2_" in name,
    "low peak": lambda name: "x025" in name or "x0125" in name,
}


def loss_of(domain: str, side: str) -> str:
    """The column of a validation set."""
    return "loss_pt" if side == "pt" else f"loss_{domain}"


def laws(side: str) -> dict[str, cj.Law]:
    """Every law of the trial, from the paper's to the one chosen."""
    share, fitted = cj.ShareReplay(side), cj.Momentum(None)
    return {
        "CPT, exponential replay, decay .999": cj.CPTLaw(cj.Momentum(0.999), cj.ExponentialReplay()),
        "CPT, exponential replay": cj.CPTLaw(fitted, cj.ExponentialReplay()),
        "CPT, decay .999": cj.CPTLaw(cj.Momentum(0.999), share),
        "CPT": cj.CPTLaw(fitted, share),
        "CPT, power kernel (free exponent)": cj.CPTLaw(cj.Power(None, None), share),
        "CPT, LR-weighted kernel, decay .98": cj.CPTLaw(cj.LRWeighted(0.98, None), share),
        "CPT, multi-power kernel": cj.CPTLaw(cj.MultiPower(), share),
        "CPT, functional kernel": cj.CPTLaw(cj.Functional(), share),
        "crossing, decay .999": cj.CrossingLaw(cj.Momentum(0.999), share),
        "crossing, exponential replay": cj.CrossingLaw(fitted, cj.ExponentialReplay()),
        "crossing": cj.CrossingLaw(fitted, share),
    }


def continual(run: cj.Run, result: cj.FitResult) -> tuple[np.ndarray, np.ndarray]:
    """Observed and predicted losses after the transfer."""
    steps, seen = run.observed(result.loss)
    after = steps > (run.transfer_step or 0)
    return seen[after], np.asarray(result.predict(run))[after]


def figures(results: Sequence[tuple[cj.FitResult, Sequence[cj.Run]]]) -> dict[str, float]:
    """Mean relative error (mean over runs) and R² (all points together) of the continual rows."""
    pairs = [continual(run, result) for result, runs in results for run in runs if run.transfer_step is not None]
    seen, predicted = (np.concatenate(x) for x in zip(*pairs, strict=True))
    relative = float(np.mean([np.mean(np.abs(p / s - 1)) for s, p in pairs]))
    return {"mean_rel": relative, "r2": 1 - float(np.sum((seen - predicted) ** 2) / np.sum((seen - seen.mean()) ** 2))}


def left_out(law: cj.Law, runs: Sequence[cj.Run], loss: str) -> float:
    """Mean relative error over the kinds of runs, each predicted by a fit to the others."""
    errors = []
    for chosen in KINDS.values():
        out = [run for run in runs if run.transfer_step is not None and chosen(run.id)]
        if out:
            rest = [run for run in runs if run not in out]
            errors.append(figures([(cj.fit(law, rest, loss), out)])["mean_rel"])
    return float(np.mean(errors))


def noise(runs: Sequence[cj.Run], loss: str) -> float:
    """Mean relative scatter of single points, from second differences of evenly spaced rows after step 200 of CPT."""
    scatter = []
    for run in runs:
        if run.transfer_step is None:
            continue
        steps, seen = run.observed(loss)
        late = np.log(seen[steps > run.transfer_step + 200])
        scatter.append(np.mean(np.abs(np.diff(late, 2))) / np.sqrt(6))
    return float(np.mean(scatter))


def trial(cross: bool, only: str | None) -> list[dict[str, Any]]:
    """One row a law and validation set."""
    rows = []
    for domain, side in SETS:
        runs, loss = cj.load_dataset(f"tiny-cpt/{domain}"), loss_of(domain, side)
        print(f"{domain}, {loss}: scatter of single points {100 * noise(runs.fit, loss):.2f} %", flush=True)
        for name, law in laws(side).items():
            if only is not None and only not in name:
                continue
            result = cj.fit(law, runs.fit, loss)
            fit, test = (figures([(result, part)]) for part in (runs.fit, runs.test))
            row = {"set": f"{domain}/{side}", "law": name, "parameters": len(result.fitted)}
            row |= {"objective": result.objective, "fit %": 100 * fit["mean_rel"]}
            row |= {"cv %": 100 * left_out(law, runs.fit, loss) if cross else float("nan")}
            rows.append(row | {"test %": 100 * test["mean_rel"], "test R2": test["r2"]})
            show(rows[-1:])
    return rows


# --- baselines -----------------------------------------------------------------------------------


def _power_law(t: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Least squares of a + b·t^-c to the first part of a run."""
    best = (np.inf, np.zeros(2), 1.0)
    for c in np.geomspace(0.02, 4, 200):
        basis = np.stack([np.ones_like(t), t**-c], axis=1)
        x = np.linalg.lstsq(basis, y, rcond=None)[0]
        best = min(best, (float(np.sum((y - basis @ x) ** 2)), x, c), key=lambda found: found[0])
    return lambda at: best[1][0] + best[1][1] * at ** -best[2]


def _d_cpt(runs: Sequence[cj.Run], loss: str) -> Callable[[cj.Run], float]:
    """The D-CPT law at one model size, E + B·r^η/D^β + C/(r+ε)^γ, fitted to the end of every fit run.

    ``r`` is the set's share of the batches, ``D`` the steps of continual pre-training.
    """
    from scipy.optimize import least_squares

    def inputs(run: cj.Run) -> tuple[float, float]:
        replay = float(run.phases[-1].replay_ratio)
        share = replay if loss == "loss_pt" else 1 - replay
        return share, (run.total_steps - (run.transfer_step or 0)) / 1500

    ends = [run for run in runs if run.transfer_step is not None]
    share, data = np.array([inputs(run) for run in ends]).T
    seen = np.array([run.observed(loss)[1][-1] for run in ends])

    def law(p: np.ndarray, share: np.ndarray, data: np.ndarray) -> np.ndarray:
        e, b, eta, beta, c, epsilon, gamma = np.exp(p)
        return e + b * share**eta / data**beta + c / (share + epsilon) ** gamma

    rng, starts = np.random.default_rng(0), np.log([1.0, 0.3, 0.5, 0.3, 0.3, 0.05, 0.3])
    tries = [
        least_squares(lambda p: np.log(law(p, share, data) / seen), starts + rng.normal(0, 0.7, 7), loss="soft_l1")
        for _ in range(20)
    ]
    best = min(tries, key=lambda each: each.cost).x
    return lambda run: float(law(best, *inputs(run)))


def baselines() -> list[dict[str, Any]]:
    """Mean relative error of test runs' last 60 % and of their end: what each method sees is in the first column."""
    rows = []
    for domain, side in SETS:
        runs, loss = cj.load_dataset(f"tiny-cpt/{domain}"), loss_of(domain, side)
        result, d_cpt = cj.fit(laws(side)["crossing"], runs.fit, loss), _d_cpt(runs.fit, loss)
        errors: dict[str, list[tuple[float, float]]] = {}
        for run in runs.test:
            if run.transfer_step is None:
                continue
            steps, seen = run.observed(loss)
            late = steps > run.transfer_step
            t, y = (steps - run.transfer_step)[late].astype(float), seen[late]
            cut = t <= 0.4 * t[-1]
            end = np.asarray(result.predict(run))[late]
            guesses = {
                "crossing law, fit runs only": end,
                "power law of the run's first 40 %": _power_law(t[cut], y[cut])(t),
                "last value of the run's first 40 %": np.full_like(t, y[cut][-1]),
                "D-CPT, ends of fit runs": np.full_like(t, np.nan) + 0 * t,
            }
            guesses["D-CPT, ends of fit runs"][-1] = d_cpt(run)
            for name, guess in guesses.items():
                off = np.abs(guess / y - 1)
                errors.setdefault(name, []).append((float(np.mean(off[~cut])), float(off[-1])))
        for name, seen in errors.items():
            part, end = 100 * np.mean(seen, axis=0)
            rows.append({"set": f"{domain}/{side}", "method": name, "last 60 % (%)": part, "end (%)": end})
    show(rows)
    return rows


# --- the paper's claims --------------------------------------------------------------------------


def _stay(domain: str, loss: str) -> cj.FitResult:
    """The annealing law of pre-training alone: what the loss would have been without the transfer."""
    runs = cj.load_dataset(f"tiny-cpt/{domain}")
    return cj.fit(cj.AnnealingLaw(cj.Momentum(None)), [r for r in runs.fit if r.transfer_step is None], loss)


def _shift(run: cj.Run, loss: str, stay: cj.FitResult) -> tuple[np.ndarray, np.ndarray]:
    """Forward area since the transfer, and observed loss less that of the run had it stayed on the old data."""
    (pt, cpt), transfer = run.phases, run.transfer_step or 0
    steps, seen = run.observed(loss)
    after = steps > transfer
    stayed = (pt, cj.Phase(cpt.schedule, "pt"))
    area = np.concatenate([[0.0], np.cumsum(run.rates[transfer:])])
    return area[steps[after] - transfer], seen[after] - np.asarray(stay.predict(stayed, steps[after]))


def _at(curve: tuple[np.ndarray, np.ndarray], areas: Sequence[float]) -> np.ndarray:
    """A shift at some forward areas, mean of the points within 12 % of each."""
    return np.array([np.mean(curve[1][np.abs(curve[0] / area - 1) < 0.12]) for area in areas])


def transfer_points() -> None:
    """Claim: the shift does not depend on where continual pre-training starts."""
    areas = (0.5, 1.0, 2.0, 3.0)
    print(f"shift of D_pt (nats) at forward areas {areas} after the transfer, linear schedule")
    for domain in ("code", "foldoc"):
        stay, runs = _stay(domain, "loss_pt"), cj.load_dataset(f"tiny-cpt/{domain}")
        for start in (1000, 2000, 3000, 4000):
            name = f"{domain}_linear" if start == 3000 else f"{domain}_t{start}_linear"
            print(f"  {name:20s}", np.round(_at(_shift(runs[name], "loss_pt", stay), areas), 3))


def _fit_factor(form: cj.Replay, start: Sequence[float], ratio: np.ndarray, size: np.ndarray) -> str:
    """Least squares of a replay factor to measured sizes at the fit split's ratios, and its miss at the others."""
    from scipy.optimize import least_squares

    used = np.isin(ratio, (0.1, 0.33, 0.67))
    positive = {p.name: p.support == "positive" for p in form.parameters}

    def params(x: np.ndarray) -> dict[str, float]:
        return {n: float(np.exp(v) if up else v) for (n, up), v in zip(positive.items(), x, strict=True)}

    def miss(x: np.ndarray) -> np.ndarray:
        return np.asarray(form.shift(params(x), ratio)) - size

    found = least_squares(lambda x: miss(x)[used], start).x
    rms = [np.sqrt(np.mean(miss(found)[which] ** 2)) for which in (used, ~used)]
    values = ", ".join(f"{name} {value:.3f}" for name, value in params(found).items())
    return f"{values}; rms miss at .1, .33, .67 {rms[0]:.3f}, at the held-out ratios {rms[1]:.3f}"


def replay_factors() -> None:
    """Claim: replay scales the shift by one factor; which function of the ratio is it?"""
    names = {0.1: "r10", 0.2: "r20", 0.33: "r33", 0.5: "r50", 0.67: "r67", 0.8: "r80"}
    areas = (1.0, 2.0, 3.0)
    for domain, side in SETS:
        runs, loss = cj.load_dataset(f"tiny-cpt/{domain}"), loss_of(domain, side)
        stay = _stay(domain, loss)
        whole = _at(_shift(runs[f"{domain}_linear"], loss, stay), areas)
        sizes = {
            r: _at(_shift(runs[f"{domain}_{name}_linear"], loss, stay), areas) / whole for r, name in names.items()
        }
        print(f"{domain}, {loss}: shift relative to no replay, at forward areas {areas} after the transfer")
        for r, each in sizes.items():
            print(f"  replay {r:.2f}  {np.round(each, 3)}")
        ratio, size = np.array(list(sizes)), np.array([np.mean(each) for each in sizes.values()])
        exponential, share = cj.ExponentialReplay(anneal=False), cj.ShareReplay(side)
        print("  exponential:", _fit_factor(exponential, [3.0 if side == "pt" else -3.0], ratio, size))
        print("  share:      ", _fit_factor(share, [0.3, -3.0] if side == "pt" else [-2.0], ratio, size))


def potentials() -> None:
    """Claim: without re-warm-up the final loss on the new data falls as the loss potential rises."""
    for domain in ("code", "foldoc"):
        runs = cj.load_dataset(f"tiny-cpt/{domain}")
        ids = {0.1: "p01_linear", 0.3: "p03_linear", 0.5: "p05_linear", 1.0: "linear"}
        ends = {p: runs[f"{domain}_{name}"].losses for p, name in ids.items()}
        for column in (f"loss_{domain}", "loss_pt"):
            print(
                f"{domain}, final {column} by loss potential:",
                {p: round(float(x[column][-1]), 4) for p, x in ends.items()},
            )


def out_of_domain() -> None:
    """Claim: other sets' losses are a fixed linear combination of D_pt and D_cpt, without intercept."""
    for domain in ("code", "foldoc"):
        runs = cj.load_dataset(f"tiny-cpt/{domain}")
        others = [name for name in runs.losses if name.startswith("loss_ood")]
        other = "loss_foldoc" if domain == "code" else "loss_code"
        print(f"{domain}: weights on (D_pt, D_cpt), R² on fit rows, mean absolute error on test rows (nats)")
        for name in [*others, other]:

            def rows(part: Sequence[cj.Run], name: str = name, domain: str = domain) -> tuple[np.ndarray, np.ndarray]:
                kept = [r for r in part if r.transfer_step is not None]
                after = [r.steps > (r.transfer_step or 0) for r in kept]
                x = [
                    np.stack([r.losses["loss_pt"][a], r.losses[f"loss_{domain}"][a]], 1)
                    for r, a in zip(kept, after, strict=True)
                ]
                return np.concatenate(x), np.concatenate([r.losses[name][a] for r, a in zip(kept, after, strict=True)])

            (x, y), (xt, yt) = rows(runs.fit), rows(runs.test)
            weights = np.linalg.lstsq(x, y, rcond=None)[0]
            free = np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y, rcond=None)[0]
            r2 = 1 - np.sum((y - x @ weights) ** 2) / np.sum((y - y.mean()) ** 2)
            with_free = np.mean(np.abs(np.column_stack([xt, np.ones(len(yt))]) @ free - yt))
            print(
                f"  {name:16s} ({weights[0]:6.3f}, {weights[1]:6.3f})  R² {r2:7.4f}  error "
                f"{np.mean(np.abs(xt @ weights - yt)):.4f}, with an intercept {with_free:.4f}"
            )


# --- figure --------------------------------------------------------------------------------------


def figure(path: Path) -> None:
    """Relative residuals of the test runs after the transfer, the CPT law above, the crossing law below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colours = {"cosine": "#0072B2", "wsd": "#D55E00", "replay": "#009E73", "potential .3": "#CC79A7", "long": "#E69F00"}
    marks = dict(zip(colours, ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))), strict=True))

    def kind(name: str) -> str:
        tests = {"long": "long" in name, "replay": any(f"_r{x}_" in name for x in (20, 50, 80))}
        tests |= {"potential .3": "_p03_" in name, "wsd": "wsd" in name}
        return next((label for label, found in tests.items() if found), "cosine")

    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        shape, axes = plt.subplots(2, 4, figsize=(13, 5.6), sharex=True, sharey="col", layout="constrained")
        for column, (domain, side) in enumerate(SETS):
            runs, loss = cj.load_dataset(f"tiny-cpt/{domain}"), loss_of(domain, side)
            for row, name in enumerate(("CPT", "crossing")):
                result, axis = cj.fit(laws(side)[name], runs.fit, loss), axes[row, column]
                for run in runs.test:
                    if run.transfer_step is not None:
                        seen, predicted = continual(run, result)
                        steps = run.observed(loss)[0][-len(seen) :] - run.transfer_step
                        style = {"color": colours[kind(run.id)], "ls": marks[kind(run.id)], "label": kind(run.id)}
                        axis.plot(steps, 100 * (seen / predicted - 1), lw=1, **style)
                axis.axhline(0, color="black", lw=0.8)
                error = 100 * figures([(result, runs.test)])["mean_rel"]
                old = "old" if side == "pt" else "new"
                axis.set_title(f"to {domain}, {old} data: {name} law\nmean |error| {error:.2f} %", fontsize=9)
                axis.set_xscale("log")
                axis.set_xticks([25, 100, 400, 1500], ["25", "100", "400", "1500"])
                axis.minorticks_off()
                if row:
                    axis.set_xlabel("steps after the transfer")
                if not column:
                    axis.set_ylabel("observed / predicted − 1 (%)")
        handles = {
            label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        shape.legend(handles.values(), handles, loc="outside lower center", ncols=5, frameon=False)
        shape.savefig(path, dpi=75)
    print(f"wrote {path}")


def main() -> None:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="trial", choices=("trial", "baselines", "claims", "figure"))
    parser.add_argument("path", nargs="?", type=Path, help="figure: file to write; else: JSON of the table")
    parser.add_argument("--no-cv", action="store_true", help="skip the leave-a-kind-out errors")
    parser.add_argument("--only", help="trial: laws with this in their name")
    options = parser.parse_args()
    if options.what == "trial":
        show(trial(not options.no_cv, options.only), options.path)
    elif options.what == "baselines":
        show(baselines(), options.path)
    elif options.what == "claims":
        for claim in (transfer_points, replay_factors, potentials, out_of_domain):
            print(f"\n{claim.__doc__}")
            claim()
    else:
        figure(options.path or Path("tiny_law.png"))


if __name__ == "__main__":
    main()
