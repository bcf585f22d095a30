"""Thms E.4 and E.5: how many examples the two margins need."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import log_slope
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run
from afterfit.theory.bounds import (
    l1_margin_bound,
    l2_margin_bound,
    margin_bound,
    rademacher_l1_bound,
    rademacher_l2_bound,
)

__all__ = ["Bounds"]

_DELTA = 0.1
_DIMENSIONS = (20, 40, 80, 160)
_SIZES = tuple(round(10 * 1.25**k) for k in range(30))
_PROGRAMS = {"L1": theory.max_l1_margin, "L2": theory.max_l2_margin}
_BOUNDS = {"L1": l1_margin_bound, "L2": l2_margin_bound}


class Bounds(Entry):
    id = "lyu2023/bounds"
    title = "The largest L1 margin needs of order log d examples, the largest L2 margin of order d"
    where = "Thms E.2–E.5, App. E"
    about = (
        "Inputs uniform in {±1}^d with the label of a k-sparse ±1 teacher, k odd. The classifiers of largest L1 and L2 "
        "margin are found by convex programs for many training sets, and scored on fresh inputs; the bounds (38) and "
        "(40) are for δ = 0.1. A bound above 1 says nothing, and these say nothing until the error has long been 0: "
        "for k = 1 and d = 20, where they are checked, from some 200 (L1) and 500 (L2) examples on. So the sample "
        "sizes are also measured for themselves. One diagonal net shows what they mean for training: with n between "
        "the two, it is first as bad as the largest L2 margin and then as good as the largest L1 margin."
    )
    claims = (
        "Thm E.3: the Rademacher complexities of F₁ and F₂ are below (36) and (37)",
        "the margins are at least those of the teacher: 1/k and 1/√k",
        "Thm E.2: (35) with these margins",
        "Thm E.4: the error of the largest L1 margin is below (38)",
        "Thm E.5: the error of the largest L2 margin is below (40)",
        "the largest L1 margin needs O(k²·log d) examples",
        "the largest L2 margin needs O(kd) examples",
        "a diagonal net goes from the error of the largest L2 margin to that of the largest L1 margin",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, norm, decay = (100, 3000, 64.0, 1e-2) if scale == "paper" else (60, 300, 32.0, 1e-2)
        return {
            "run": Experiment(
                task=tasks.SparseClassification(n=n, d=d, sparsity=3, n_test=4000),
                model=models.DiagonalNet(),
                penalty=penalties.L2(decay),
                dynamics=dynamics.GradientFlow(until=20 / decay, first=1e-2, rtol=1e-4),
                init=inits.Constant(norm=norm),
                observations=60,
            )
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run = runs["run"]
        d, sizes = 80, _SIZES[:17:2]
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        path, error, needed = figure.subplots(1, 3)
        curves = run.curves.isel(time=slice(1, None))
        path.plot(curves["time"], 1 - curves["test_accuracy"], color="0.2", label="diagonal net")
        styles = {"L1": TEST, "L2": TRAIN}
        for name, wrong in _errors_on_its_data(run).items():
            path.axhline(wrong, **styles[name], label=f"largest ${name[0]}^{name[1]}$ margin")
        path.set(ylabel="test error", ylim=(-0.02, 0.55))
        path.set_title(f"k = 3, d = {run.spec['task']['d']}, n = {run.spec['task']['n']}", pad=18)  # above the phases
        log_time_axes(path)
        mark_phases(path, run.verdict)
        wide = np.geomspace(sizes[0], 2e4, 60)
        for name, style in styles.items():
            label = f"${name[0]}^{name[1]}$"
            error.plot(
                sizes,
                [_mean_error(3, d, n, name) for n in sizes],
                **style,
                marker="o",
                mfc="none",
                label=f"{label}, measured",
            )
            bound = np.array([_BOUNDS[name](round(n), d, 3, _DELTA) for n in wide])
            error.plot(wide, bound, color=style["color"], ls=style["linestyle"], lw=1.0, label=f"{label}, bound")
            counts = [_needed(3, d, name) for d in _DIMENSIONS]
            needed.loglog(_DIMENSIONS, counts, **style, marker="o", mfc="none", label=label)
        error.axhline(1, color="0.6", lw=0.8)
        error.set(
            xscale="log", ylim=(0, 30), xlabel="examples n", ylabel="test error, and its bound (log scale above 1)"
        )
        error.set_yscale("symlog", linthresh=1.0)
        error.set_title(f"k = 3, d = {d}, δ = {_DELTA:g}")
        fine = np.geomspace(_DIMENSIONS[0], _DIMENSIONS[-1], 30)
        first = {name: _needed(3, _DIMENSIONS[0], name) for name in styles}
        needed.plot(fine, first["L2"] * fine / fine[0], "k:", lw=1.0, label="∝ d")
        needed.plot(fine, first["L1"] * np.log(fine) / np.log(fine[0]), "k-.", lw=1.0, label="∝ log d")
        needed.set_xticks(_DIMENSIONS, [f"{d}" for d in _DIMENSIONS])
        needed.set_yticks([20, 40, 100, 200], ["20", "40", "100", "200"])
        needed.minorticks_off()
        needed.set(xlabel="dimension d", ylabel="examples for a test error of 10 %", title="k = 3")
        legend_below(*figure.axes)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        draws = 100 if scale == "paper" else 20
        rng, n = np.random.default_rng(0), 12
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
        shares = {"L1": [], "L2": []}
        for d in _DIMENSIONS:
            X = 1.0 - 2.0 * rng.integers(0, 2, (n, d))
            sums = signs @ X / n  # the sup over ‖w‖_p ≤ 1 is the dual norm
            shares["L1"].append(np.mean(np.max(np.abs(sums), axis=1)) / rademacher_l1_bound(X))
            shares["L2"].append(np.mean(np.linalg.norm(sums, axis=1)) / rademacher_l2_bound(X))
        yield Finding(
            self.claims[0],
            "√(2·log(2d)·Σ‖xᵢ‖_∞²)/n and √(Σ‖xᵢ‖₂²)/n",
            f"over the bound, n={n} and d in {_DIMENSIONS}, by all 2ⁿ signs: "
            + "; ".join(f"{name} " + ", ".join(f"{s:.4f}" for s in group) for name, group in shares.items()),
            all(max(group) <= 1 for group in shares.values()),
        )
        margins = {
            name: min(_margin(program(*_training_set(40, 40, 3, seed)[:2]), name, seed) for seed in range(draws))
            for name, program in _PROGRAMS.items()
        }
        yield Finding(
            self.claims[1],
            "γ₁(w) ≥ γ₁(w*) = 1/k, γ₂(w) ≥ γ₂(w*) = 1/√k",
            f"k=3, d=40, n=40, least of {draws} training sets: {margins['L1']:.4f} (L1, 1/k = {1 / 3:.4f}), "
            f"{margins['L2']:.4f} (L2, 1/√k = {3**-0.5:.4f})",
            margins["L1"] >= 1 / 3 - 1e-7 and margins["L2"] >= 3**-0.5 - 1e-7,
        )
        k, d = 1, 20
        enough = {name: _bites(name, k, d) for name in _PROGRAMS}
        errors, by_margin = {"L1": [], "L2": []}, []
        for name, program in _PROGRAMS.items():
            complexity = rademacher_l1_bound if name == "L1" else rademacher_l2_bound
            for seed in range(draws):
                X, y, teacher = _training_set(round(1.2 * enough[name]), d, k, seed)
                w = program(X, y)
                errors[name].append(_error(w, teacher, seed))
                margin = y * (X @ w) / np.linalg.norm(w, int(name[1]))
                by_margin.append(errors[name][-1] <= margin_bound(margin, 0.5, complexity(X), _DELTA))
        yield Finding(
            self.claims[2],
            f"with probability 1 − δ = {1 - _DELTA:g}, q half the teacher's margin",
            f"the error was below it for {np.mean(by_margin):.0%} of {2 * draws} training sets",
            bool(np.mean(by_margin) >= 1 - _DELTA),
        )
        for claim, name, formula in (
            (self.claims[3], "L1", "4k·√(2·log(2d)/n) + 3·√(log(2/δ)/2n)"),
            (self.claims[4], "L2", "4·√(kd/n) + 3·√(log(2/δ)/2n)"),
        ):
            n, fig1a = round(1.2 * enough[name]), _bites(name, 3, 100_000)
            bound = _BOUNDS[name](n, d, k, _DELTA)
            exceeded = int(np.sum(np.array(errors[name]) > bound))
            yield Finding(
                claim,
                f"{formula}, with probability {1 - _DELTA:g}",
                f"k={k}, d={d}, n={n}, bound {bound:.2f}: exceeded in {exceeded} of {draws} training sets, largest "
                f"error {max(errors[name]):.2g}; it is below 1 from n={enough[name]} on, for k=3 and d=10⁵ (Fig. 1a, "
                f"n=256) from n={fig1a:.2g}",
                exceeded <= _DELTA * draws,
            )
        counts = {name: [_needed(3, dimension, name) for dimension in _DIMENSIONS] for name in _PROGRAMS}
        for claim, name, order, says in (
            (self.claims[5], "L1", "k²·log d", "only needs O(k²·log d) (§3.2.3)"),
            (self.claims[6], "L2", "kd", "needs O(kd) (§3.2.3)"),
        ):
            slope = log_slope(_DIMENSIONS, counts[name])
            like = np.array(counts[name]) / (9 * np.log(_DIMENSIONS) if name == "L1" else 3 * np.array(_DIMENSIONS))
            yield Finding(
                claim,
                says,
                "k=3, examples for an error of 10 %: "
                + ", ".join(f"{n:.0f} (d={dimension})" for n, dimension in zip(counts[name], _DIMENSIONS, strict=True))
                + f", like d^{slope:.2f}; over {order} {like.min():.2g} to {like.max():.2g}",
                bool(like.max() <= 2 * like.min()) and (slope <= 0.4 if name == "L1" else 0.8 <= slope <= 1.1),
            )
        run = runs["run"]
        program = _errors_on_its_data(run)
        wrong = 1 - run.curves["test_accuracy"]
        fit, decay = run.verdict.t_fit or np.inf, run.spec["penalty"]["strength"]
        early, late = float(wrong.sel(time=slice(fit, 0.5 / decay)).mean()), float(wrong[-1])
        yield Finding(
            self.claims[7],
            "the early phase has the largest L2 margin, the late one the largest L1 margin (§3.2.3)",
            f"test error {early:.3f} between the fit and t = 1/2λ, {late:.3f} at the end; the programs' are "
            f"{program['L2']:.3f} (L2) and {program['L1']:.3f} (L1)",
            abs(early - program["L2"]) <= 0.03 and abs(late - program["L1"]) <= 0.03,
        )


def _margin(w: np.ndarray, name: str, seed: int) -> float:
    """The smallest margin on a training set of claim 2, w of norm 1."""
    X, y, _ = _training_set(40, 40, 3, seed)
    return float(np.min(y * (X @ w)) / np.linalg.norm(w, int(name[1])))


def _training_set(n: int, d: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and the teacher, drawn by the task itself."""
    data = tasks.SparseClassification(n=n, d=d, sparsity=k, n_test=1).draw(np.random.default_rng([seed, n, d]))
    return data.inputs, data.targets, data.truth


def _error(w: np.ndarray, teacher: np.ndarray, seed: int) -> float:
    """The share of 5000 fresh inputs with y*(x)·⟨w, x⟩ ≤ 0."""
    fresh = 1.0 - 2.0 * np.random.default_rng([seed, 1]).integers(0, 2, (5000, len(w)), dtype=np.int8)
    return float(np.mean(np.sign(fresh @ teacher) * (fresh @ w) <= 0))


@functools.cache
def _mean_error(k: int, d: int, n: int, name: str) -> float:
    """The error over some training sets."""
    found = []
    for seed in range(6):
        X, y, teacher = _training_set(n, d, k, seed)
        found.append(_error(_PROGRAMS[name](X, y), teacher, seed))
    return float(np.mean(found))


def _needed(k: int, d: int, name: str, level: float = 0.1) -> float:
    """How many examples bring the mean error down to `level`, interpolated between sizes a quarter apart."""
    above = (1, 0.5)
    for n in _SIZES:
        error = _mean_error(k, d, n, name)
        if error <= level:
            return float(np.interp(-level, (-above[1], -error), (above[0], n)))
        above = (n, error)
    return np.inf


def _bites(name: str, k: int, d: int) -> int:
    """The first n at which a bound is below 1: every term of it is proportional to 1/√n."""
    return int(np.floor(_BOUNDS[name](1, d, k, _DELTA) ** 2)) + 1


def _errors_on_its_data(run: Run) -> dict[str, float]:
    """The test errors of the two classifiers on the data of a run."""
    data = Experiment.from_dict(run.spec).draw()
    return {
        name: float(np.mean(data.test_targets * (data.test_inputs @ program(data.inputs, data.targets)) <= 0))
        for name, program in _PROGRAMS.items()
    }
