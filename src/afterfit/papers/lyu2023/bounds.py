"""Thms E.4 and E.5: how many examples the two margins need."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import log_slope
from afterfit.papers.lyu2023 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Bounds"]

_NORMS = (1, 2)  # p of the Lp margin
_DELTA = 0.1
_DIMENSIONS = (20, 40, 80, 160)
_SIZES = tuple(round(10 * 1.25**k) for k in range(30))
_K, _D = 1, 20  # of the teacher and the inputs on which the bounds are checked


class Bounds(Entry):
    paper, name = PAPER, "bounds"
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

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        n, d, norm, decay = (100, 3000, 64.0, 1e-2) if scale == "paper" else (60, 300, 32.0, 1e-2)
        return {
            "run": af.Experiment(
                task=af.tasks.SparseClassification(n=n, d=d, sparsity=3, n_test=4000),
                model=af.models.DiagonalNet(),
                penalty=af.penalties.L2(decay),
                dynamics=af.dynamics.GradientFlow(until=20 / decay, first=1e-2, rtol=1e-4),
                init=af.inits.Constant(norm=norm),
                observations=60,
            )
        }

    @once
    def draws(self, scale: str) -> int:
        """How many training sets are tried."""
        return 100 if scale == "paper" else 20

    @once
    def trials(self, draws: int) -> dict[int, list[_Trial]]:
        """The classifiers of largest Lp margin, by p, from examples enough for their bound to say something."""
        return {p: [_trial(p, seed) for seed in range(draws)] for p in _NORMS}

    @once
    def errors_on_its_data(self, run: af.Run) -> dict[int, float]:
        """The test errors of the classifiers of largest L1 and L2 margin on the data of the run."""
        X, y, test = run.data.inputs, run.data.targets, run.data.test_inputs
        return {p: float(np.mean(run.data.test_targets * (test @ _widest(p, X, y)) <= 0)) for p in _NORMS}

    def picture(self, run: af.Run, errors_on_its_data: dict[int, float]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        path, error, needed = figure.subplots(1, 3)
        _draw_path(path, run, errors_on_its_data)
        _draw_errors(error, d=80, sizes=_SIZES[:17:2])
        _draw_needed(needed)
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "Thm E.3: the Rademacher complexities of F₁ and F₂ are below (36) and (37)",
        says="√(2·log(2d)·Σ‖xᵢ‖_∞²)/n and √(Σ‖xᵢ‖₂²)/n",
    )
    def complexities(self) -> Finding:
        rng, n = np.random.default_rng(0), 12
        inputs = [1.0 - 2.0 * rng.integers(0, 2, (n, d)) for d in _DIMENSIONS]
        shares = {p: [_complexity(p, X) / _complexity_bound(p, X) for X in inputs] for p in _NORMS}
        return Finding(
            f"over the bound, n={n} and d in {_DIMENSIONS}, by all 2ⁿ signs: "
            + "; ".join(f"L{p} " + ", ".join(f"{share:.4f}" for share in group) for p, group in shares.items()),
            all(max(group) <= 1 for group in shares.values()),
        )

    @claim(
        "the margins are at least those of the teacher: 1/k and 1/√k",
        says="γ₁(w) ≥ γ₁(w*) = 1/k, γ₂(w) ≥ γ₂(w*) = 1/√k",
    )
    def margins(self, draws: int) -> Finding:
        sets = [_training_set(40, 40, 3, seed) for seed in range(draws)]
        l1, l2 = (min(_margins(p, X, y, _widest(p, X, y)).min() for X, y, _ in sets) for p in _NORMS)
        return Finding(
            f"k=3, d=40, n=40, least of {draws} training sets: {l1:.4f} (L1, 1/k = {1 / 3:.4f}), "
            f"{l2:.4f} (L2, 1/√k = {3**-0.5:.4f})",
            l1 >= 1 / 3 - 1e-7 and l2 >= 3**-0.5 - 1e-7,
        )

    @claim(
        "Thm E.2: (35) with these margins",
        says=f"with probability 1 − δ = {1 - _DELTA:g}, q half the teacher's margin",
    )
    def margin_bound(self, trials: dict[int, list[_Trial]]) -> Finding:
        below = [trial.error <= trial.bound for group in trials.values() for trial in group]
        return Finding(
            f"the error was below it for {np.mean(below):.0%} of {len(below)} training sets",
            bool(np.mean(below) >= 1 - _DELTA),
        )

    @claim(
        "Thm E.4: the error of the largest L1 margin is below (38)",
        says=f"4k·√(2·log(2d)/n) + 3·√(log(2/δ)/2n), with probability {1 - _DELTA:g}",
    )
    def l1_error(self, trials: dict[int, list[_Trial]]) -> Finding:
        return _error_finding(1, trials[1])

    @claim(
        "Thm E.5: the error of the largest L2 margin is below (40)",
        says=f"4·√(kd/n) + 3·√(log(2/δ)/2n), with probability {1 - _DELTA:g}",
    )
    def l2_error(self, trials: dict[int, list[_Trial]]) -> Finding:
        return _error_finding(2, trials[2])

    @claim("the largest L1 margin needs O(k²·log d) examples", says="only needs O(k²·log d) (§3.2.3)")
    def l1_needs(self) -> Finding:
        measured, like, slope = _needs(1, 9 * np.log(_DIMENSIONS), "k²·log d")
        return Finding(measured, like.max() <= 2 * like.min() and slope <= 0.4)

    @claim("the largest L2 margin needs O(kd) examples", says="needs O(kd) (§3.2.3)")
    def l2_needs(self) -> Finding:
        measured, like, slope = _needs(2, 3 * np.array(_DIMENSIONS), "kd")
        return Finding(measured, like.max() <= 2 * like.min() and 0.8 <= slope <= 1.1)

    @claim(
        "a diagonal net goes from the error of the largest L2 margin to that of the largest L1 margin",
        says="the early phase has the largest L2 margin, the late one the largest L1 margin (§3.2.3)",
    )
    def net_turns(self, run: af.Run, errors_on_its_data: dict[int, float]) -> Finding:
        l1, l2 = errors_on_its_data[1], errors_on_its_data[2]
        wrong = 1 - run.curves["test_accuracy"]
        fit, decay = run.verdict.t_fit or np.inf, run.spec["penalty"]["strength"]
        early, late = float(wrong.sel(time=slice(fit, 0.5 / decay)).mean()), float(wrong[-1])
        return Finding(
            f"test error {early:.3f} between the fit and t = 1/2λ, {late:.3f} at the end; the programs' are "
            f"{l2:.3f} (L2) and {l1:.3f} (L1)",
            abs(early - l2) <= 0.03 and abs(late - l1) <= 0.03,
        )


class _Trial(NamedTuple):
    """The error of a classifier of largest margin, and what (35) allows on its training set."""

    error: float
    bound: float


def _trial(p: int, seed: int) -> _Trial:
    X, y, teacher = _training_set(_enough(p), _D, _K, seed)
    w = _widest(p, X, y)
    bound = af.theory.bounds.margin_bound(_margins(p, X, y, w), 0.5, _complexity_bound(p, X), _DELTA)
    return _Trial(_error(w, teacher, seed), bound)


def _enough(p: int) -> int:
    """Examples with which the bound of Thm E.4 or E.5 is well below 1."""
    return round(1.2 * _bites(p, _K, _D))


def _bites(p: int, k: int, d: int) -> int:
    """The first n at which that bound is below 1: every term of it is proportional to 1/√n."""
    return int(np.floor(_bound(p, 1, d, k) ** 2)) + 1


def _bound(p: int, n: int, d: int, k: int) -> float:
    """(38) or (40)."""
    bounds = {1: af.theory.bounds.l1_margin_bound, 2: af.theory.bounds.l2_margin_bound}
    return bounds[p](n, d, k, _DELTA)


def _complexity(p: int, X: np.ndarray) -> float:
    """The Rademacher complexity of {x ↦ ⟨w, x⟩: ‖w‖_p ≤ 1}, by all signs: the sup is the dual norm."""
    n, dual = len(X), {1: np.inf, 2: 2}[p]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    return float(np.mean(np.linalg.norm(signs @ X / n, dual, axis=1)))


def _complexity_bound(p: int, X: np.ndarray) -> float:
    """(36) or (37)."""
    bounds = {1: af.theory.bounds.rademacher_l1_bound, 2: af.theory.bounds.rademacher_l2_bound}
    return bounds[p](X)


def _widest(p: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The classifier of largest Lp margin."""
    programs = {1: af.theory.max_l1_margin, 2: af.theory.max_l2_margin}
    return programs[p](X, y)


def _margins(p: int, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The margins of the examples, w of norm 1."""
    return y * (X @ w) / np.linalg.norm(w, p)


def _training_set(n: int, d: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and the teacher, drawn by the task itself."""
    data = af.tasks.SparseClassification(n=n, d=d, sparsity=k, n_test=1).draw(np.random.default_rng([seed, n, d]))
    return data.inputs, data.targets, data.truth


def _error(w: np.ndarray, teacher: np.ndarray, seed: int) -> float:
    """The share of 5000 fresh inputs with y*(x)·⟨w, x⟩ ≤ 0."""
    fresh = 1.0 - 2.0 * np.random.default_rng([seed, 1]).integers(0, 2, (5000, len(w)), dtype=np.int8)
    return float(np.mean(np.sign(fresh @ teacher) * (fresh @ w) <= 0))


def _error_finding(p: int, trials: list[_Trial]) -> Finding:
    """Errors against (38) or (40)."""
    n, bound = _enough(p), _bound(p, _enough(p), _D, _K)
    exceeded = sum(trial.error > bound for trial in trials)
    return Finding(
        f"k={_K}, d={_D}, n={n}, bound {bound:.2f}: exceeded in {exceeded} of {len(trials)} training sets, largest "
        f"error {max(trial.error for trial in trials):.2g}; it is below 1 from n={_bites(p, _K, _D)} on, for k=3 and "
        f"d=10⁵ (Fig. 1a, n=256) from n={float(_bites(p, 3, 100_000)):.2g}",
        exceeded <= _DELTA * len(trials),
    )


def _needs(p: int, order: np.ndarray, name: str) -> tuple[str, np.ndarray, float]:
    """Examples needed against d: in words, over the order that they should have, and as a power of d."""
    counts = [_needed(p, 3, d) for d in _DIMENSIONS]
    like, slope = np.array(counts) / order, log_slope(_DIMENSIONS, counts)
    measured = (
        "k=3, examples for an error of 10 %: "
        + ", ".join(f"{n:.0f} (d={d})" for n, d in zip(counts, _DIMENSIONS, strict=True))
        + f", like d^{slope:.2f}; over {name} {like.min():.2g} to {like.max():.2g}"
    )
    return measured, like, slope


def _needed(p: int, k: int, d: int, level: float = 0.1) -> float:
    """How many examples bring the mean error down to `level`, interpolated between sizes a quarter apart."""
    above = (1, 0.5)
    for n in _SIZES:
        error = _mean_error(p, k, d, n)
        if error <= level:
            return float(np.interp(-level, (-above[1], -error), (above[0], n)))
        above = (n, error)
    return np.inf


@functools.cache
def _mean_error(p: int, k: int, d: int, n: int) -> float:
    """The error over some training sets."""
    sets = [(seed, *_training_set(n, d, k, seed)) for seed in range(6)]
    return float(np.mean([_error(_widest(p, X, y), teacher, seed) for seed, X, y, teacher in sets]))


def _styles() -> dict[int, dict]:
    return {1: af.plot.TEST, 2: af.plot.TRAIN}


def _draw_path(ax: Axes, run: af.Run, errors: dict[int, float]) -> None:
    """The test error of the net over time, and those of the two classifiers."""
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], 1 - curves["test_accuracy"], color="0.2", label="diagonal net")
    for p, style in _styles().items():
        ax.axhline(errors[p], **style, label=f"largest $L^{p}$ margin")
    ax.set(ylabel="test error", ylim=(-0.02, 0.55))
    ax.set_title(f"k = 3, d = {run.spec['task']['d']}, n = {run.spec['task']['n']}", pad=18)  # above the phases
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)


def _draw_errors(ax: Axes, d: int, sizes: tuple[int, ...]) -> None:
    """Errors and their bounds against the number of examples."""
    wide = np.geomspace(sizes[0], 2e4, 60)
    for p, style in _styles().items():
        errors = [_mean_error(p, 3, d, n) for n in sizes]
        ax.plot(sizes, errors, **style, marker="o", mfc="none", label=f"$L^{p}$, measured")
        bound = [_bound(p, round(n), d, 3) for n in wide]
        ax.plot(wide, bound, color=style["color"], ls=style["linestyle"], lw=1.0, label=f"$L^{p}$, bound")
    ax.axhline(1, color="0.6", lw=0.8)
    ax.set(xscale="log", ylim=(0, 30), xlabel="examples n", ylabel="test error, and its bound (log scale above 1)")
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set_title(f"k = 3, d = {d}, δ = {_DELTA:g}")


def _draw_needed(ax: Axes) -> None:
    """The examples that are needed against the dimension, beside d and log d."""
    counts = {p: [_needed(p, 3, d) for d in _DIMENSIONS] for p in _NORMS}
    for p, style in _styles().items():
        ax.loglog(_DIMENSIONS, counts[p], **style, marker="o", mfc="none", label=f"$L^{p}$")
    fine = np.geomspace(_DIMENSIONS[0], _DIMENSIONS[-1], 30)
    ax.plot(fine, counts[2][0] * fine / fine[0], "k:", lw=1.0, label="∝ d")
    ax.plot(fine, counts[1][0] * np.log(fine) / np.log(fine[0]), "k-.", lw=1.0, label="∝ log d")
    ax.set_xticks(_DIMENSIONS, [f"{d}" for d in _DIMENSIONS])
    ax.set_yticks([20, 40, 100, 200], ["20", "40", "100", "200"])
    ax.minorticks_off()
    ax.set(xlabel="dimension d", ylabel="examples for a test error of 10 %", title="k = 3")
