"""Fig. 35: a two-layer net groks on images."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._images import images
from afterfit.papers._measure import power_law
from afterfit.papers.notsawo2025 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    _Runs = Mapping["_At", af.Run]

__all__ = ["Fig35"]

# App. H.3.4: N = 1000 images, B·ReLU(Ax) without biases, ℓ₁ (Fig. 35), ℓ₂ and ℓ_* (in words); Adam, as all of App. H.3.
_IMAGES = {"paper": 1000, "quick": 200}
# There is no code, and no other number. What was chosen, on seed 100:
_UNITS = {"paper": 200, "quick": 64}
_START = {"paper": 6.0, "quick": 5.0}  # ζ, where the authors' other nets have 1
_ALPHAS = {"paper": (5e-3, 1e-2, 2e-2), "quick": (1e-2, 2e-2)}
_BETAS = {
    "paper": {"ℓ₁": (3e-4, 1e-3, 3e-3), "ℓ₂": (0.1, 0.2, 0.4), "ℓ_*": (0.03, 0.06, 0.12)},
    "quick": {"ℓ₁": (2e-3, 8e-3), "ℓ₂": (0.1, 0.3), "ℓ_*": (0.05, 0.15)},
}
_STEPS = {"paper": 3000, "quick": 1500}
_SEEDS = {"paper": range(21, 24), "quick": range(21, 23)}
_TESTED = {"paper": 4000, "quick": 2000}  # test images: of two accuracies on them, the difference is known to a point
_GAIN, _DELAY = 0.03, 5.0  # of test accuracy after the fit, and of when half of it is there, in units of t₁


class _At(NamedTuple):
    norm: str
    α: float
    β: float
    seed: int


class _Path(NamedTuple):
    """When the training images are fitted, the test accuracy then and at its best, and when half of that is gained."""

    t1: float
    fitted: float
    best: float
    t2: float

    @property
    def gain(self) -> float:
        return self.best - self.fitted


_Paths = Mapping[_At, _Path]


class Fig35(Entry):
    paper, name = PAPER, "fig35"
    title = "A two-layer net groks on images"
    where = "Fig. 35, App. H.3.4"
    about = (
        "B·ReLU(Ax), without biases, is fitted to N = 1000 images by Adam on the cross-entropy with a penalty on A and "
        "B: ℓ₁, ℓ₂ or nuclear. Shown are training and test accuracy for several step sizes α and strengths β. The "
        "paper's images are of MNIST; they are where it is on this machine (`afterfit data fetch mnist`), else of "
        "Fashion-MNIST, on which what the ledger says was seen. The authors' notebooks have nothing on images, and the "
        "text says no number but N. Chosen here: 200 units; all images in every step; pixels in [0, 1]; penalties as in "
        "the authors' other nets, ℓ₂ and nuclear norms of each matrix, not squared; their normal start, N(0, 1/outputs) "
        "of each layer, times ζ = 6, because from ζ = 1 little is gained after the fit; α and β by trial on another "
        "draw, as large as leaves the training images fitted and as small as there are steps for. t₁ is the first step "
        "at which 99 % of the training images are fitted, t₂ the step at which half of what test accuracy gains after "
        "t₁ is gained to stay."
    )
    notes = (
        "Adam divides the gradient by its size: once the images are fitted, every weight is moved by about α a step, "
        "however small β is, until the loss pulls back with β. So t₂ goes with α rather than with αβ. Test accuracy "
        "falls by some points before it rises, in all of the runs that were looked at."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        α, seeds = _ALPHAS[scale][-1], _SEEDS[scale]
        betas = _BETAS[scale]
        penalised = [_At("ℓ₁", α, β, seed) for β in betas["ℓ₁"] for seed in seeds]
        penalised += [_At("ℓ₁", slower, betas["ℓ₁"][-1], seed) for slower in _ALPHAS[scale][:-1] for seed in seeds]
        penalised += [_At(norm, α, β, seeds[0]) for norm in ("ℓ₂", "ℓ_*") for β in betas[norm]]
        own = _At("ℓ₁", α, betas["ℓ₁"][-1], seeds[0])
        return {
            "nets": {at: _posed(scale, at) for at in penalised},
            "free": {_At("free", α, 0.0, seed): _posed(scale, _At("free", α, 0.0, seed)) for seed in seeds},
            "own": {own._replace(norm="ζ = 1"): _posed(scale, own).set({"init.scale": 1.0})},
        }

    def picture(self, nets: _Runs, free: _Runs, paths: _Paths) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 8.6), layout="constrained")
        (strengths, rates, times), (second, nuclear, beside) = figure.subplots(2, 3)
        seed, (α, *_) = min(at.seed for at in nets), sorted({at.α for at in nets}, reverse=True)
        of = {at: run for at, run in nets.items() if at.seed == seed}
        (never,) = (run for at, run in free.items() if at.seed == seed)
        for ax, norm in ((strengths, "ℓ₁"), (second, "ℓ₂"), (nuclear, "ℓ_*")):
            shown = {rf"$\beta={at.β:g}$": run for at, run in of.items() if at.norm == norm and at.α == α}
            _show(ax, {**shown, r"$\beta=0$": never}, rf"{_NAMES[norm]}, $\alpha={α:g}$")
        strongest = max(at.β for at in of if at.norm == "ℓ₁")
        some = {rf"$\alpha={at.α:g}$": run for at, run in of.items() if at.norm == "ℓ₁" and at.β == strongest}
        _show(rates, some, rf"{_NAMES['ℓ₁']}, $\beta={strongest:g}$")
        _show_norms(beside, {_NAMES[norm]: _strongest(of, norm) for norm in ("ℓ₁", "ℓ₂", "ℓ_*")} | {"none": never})
        _show_times(times, paths)
        af.plot.legend_below(strengths, rates, second, nuclear, beside, times)
        return figure

    @once
    def paths(self, nets: _Runs) -> _Paths:
        return {at: _path(run) for at, run in nets.items()}

    @once
    def free_paths(self, free: _Runs) -> _Paths:
        return {at: _path(run) for at, run in free.items()}

    @claim("under ℓ₁ the net groks", says="Fig. 35; §4: a similar phenomenon on a two-layer ReLU MLP trained on MNIST")
    def groks(self, nets: _Runs, paths: _Paths) -> Finding:
        return _grok(nets, _of("ℓ₁", paths))

    @control(groks, "no penalty")
    def does_not_grok(self, free: _Runs, free_paths: _Paths) -> Finding:
        return _grok(free, free_paths)

    @claim("under ℓ₂ and under the nuclear norm it does as well", says="App. H.3.4: for ℓ₂ and ℓ_* results are similar")
    def others_grok(self, nets: _Runs, paths: _Paths) -> Finding:
        return _grok(nets, _of("ℓ₂", paths) | _of("ℓ_*", paths))

    @control(others_grok, "no penalty")
    def does_not_grok_either(self, free: _Runs, free_paths: _Paths) -> Finding:
        return _grok(free, free_paths)

    @claim("the smaller β, the later, for each norm", says="§4: a smaller regularization coefficient delays")
    def later_with_beta(self, paths: _Paths) -> Finding:
        return _later("β", {at: path.t2 for at, path in paths.items()})

    @control(later_with_beta, "t₁ in place of t₂")
    def fit_is_not_later(self, paths: _Paths) -> Finding:
        return _later("β", {at: path.t1 for at, path in paths.items()})

    @claim("the smaller α, the later, in steps", says="§4: a smaller learning rate delays")
    def later_with_alpha(self, paths: _Paths) -> Finding:
        return _later("α", {at: path.t2 for at, path in paths.items()})

    @control(later_with_alpha, "the number of steps times α², which undoes more than α does")
    def not_later_in_time(self, paths: _Paths) -> Finding:
        return _later("α", {at: at.α**2 * path.t2 for at, path in paths.items()})


_NAMES = {"ℓ₁": r"$\ell_1$", "ℓ₂": r"$\ell_2$", "ℓ_*": r"$\ell_*$"}


def _posed(scale: str, at: _At) -> af.Experiment:
    kinds = {"ℓ₁": af.penalties.L1, "ℓ₂": af.penalties.Frobenius, "ℓ_*": af.penalties.Nuclear}
    return af.Experiment(
        task=images("mnist", scale, n=_IMAGES[scale], n_test=_TESTED[scale]),
        model=af.models.MLP((_UNITS[scale],)),
        penalty=kinds[at.norm](at.β) if at.norm in kinds else af.penalties.NoPenalty(),
        dynamics=af.dynamics.Adam(at.α, _STEPS[scale]),
        init=af.inits.ScaledGaussian(_START[scale]),
        seed=at.seed,
        observations=60,
    )


# ------------------------------------------------------------------------------------------------------- checks


def _path(run: af.Run) -> _Path:
    """Between observations accuracy is taken to change evenly on a logarithmic axis of steps."""
    steps, train, test = (run.curves[name].values for name in ("step", "train_accuracy", "test_accuracy"))
    (fitted,) = np.nonzero(train >= 0.99)
    if not len(fitted):
        return _Path(np.inf, float(test[-1]), float(test.max()), np.inf)
    k = int(fitted[0])
    last = k + int(np.argmax(test[k:]))
    middle = (test[k] + test[last]) / 2
    below = k + int(np.flatnonzero(test[k : last + 1] <= middle)[-1])
    t2 = float(steps[last])
    if below < last:
        part = (middle - test[below]) / (test[below + 1] - test[below])
        t2 = float(steps[below] * (steps[below + 1] / steps[below]) ** part)
    return _Path(float(steps[k]), float(test[k]), float(test[last]), t2)


def _of(norm: str, paths: _Paths) -> dict[_At, _Path]:
    return {at: path for at, path in paths.items() if at.norm == norm}


def _grok(runs: _Runs, paths: _Paths) -> Finding:
    """Three points more after the fit, half of them not before five times as many steps as the fit took."""
    (of,) = {f"{run.spec['task']['n']} of {run.spec['task']['source']}" for run in runs.values()}
    gains, delays = ([f(path) for path in paths.values()] for f in (lambda p: p.gain, lambda p: p.t2 / p.t1))
    before, after = (np.mean([f(path) for path in paths.values()]) for f in (lambda p: p.fitted, lambda p: p.best))
    first, second = ([f(path) for path in paths.values()] for f in (lambda p: p.t1, lambda p: p.t2))
    return Finding(
        f"{of}: in {len(paths)} runs test accuracy goes from {before:.1%} at t₁={min(first):.0f} to {max(first):.0f} to "
        f"{after:.1%}, by {100 * min(gains):.1f} to {100 * max(gains):.1f} points; t₂={min(second):.0f} to "
        f"{max(second):.0f}, {min(delays):.1f} to {max(delays):.1f} times t₁",
        min(gains) >= _GAIN and min(delays) >= _DELAY,
    )


def _later(knob: str, times: Mapping[_At, float]) -> Finding:
    """In all pairs of runs that differ in the knob alone, the time is longer where it is smaller, by a tenth or more."""
    fixed, said, holds = "α" if knob == "β" else "β", [], True
    for norm in dict.fromkeys(at.norm for at in times):
        of = {at: time for at, time in times.items() if at.norm == norm}
        pairs = [
            (a, b)
            for a, b in itertools.permutations(of, 2)
            if getattr(a, knob) < getattr(b, knob) and (getattr(a, fixed), a.seed) == (getattr(b, fixed), b.seed)
        ]
        if not pairs:
            continue
        late = sum(of[a] >= 1.1 * of[b] for a, b in pairs)
        there = list(dict.fromkeys(at for pair in pairs for at in pair))
        words = f"{norm}: later in {late} of {len(pairs)} pairs"
        if len(there) > 2 and all(np.isfinite(of[at]) for at in there):
            words += f", like {knob}^p with p = {power_law([getattr(at, knob) for at in there], [of[at] for at in there])}"
        said.append(words)
        holds &= late == len(pairs)
    return Finding("; ".join(said), holds)


# ----------------------------------------------------------------------------------------------------- pictures

_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#D55E00", "ls": "-"},
    {"color": "#0072B2", "ls": (0, (5, 1.5, 1, 1.5))},
    {"color": "#009E73", "ls": "-."},
    {"color": "0.45", "ls": ":"},
)


def _show(ax: Axes, runs: Mapping[str, af.Run], title: str) -> None:
    """Test accuracies over time, and the training accuracy of the first."""
    first = next(iter(runs.values()))
    train = first.curves.isel(time=slice(1, None))
    ax.plot(train["time"], train["train_accuracy"], color="0.6", ls="--", lw=1.3, label="training, " + next(iter(runs)))
    for (label, run), look in zip(runs.items(), _LOOKS, strict=False):
        curves = run.curves.isel(time=slice(1, None))
        ax.plot(curves["time"], curves["test_accuracy"], lw=1.8, label=f"test, {label}", **look)
    ax.set(ylabel="accuracy", ylim=(0, 1.03))
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, first.verdict)
    ax.set_title(title, pad=18)


def _strongest(runs: _Runs, norm: str) -> af.Run:
    return runs[max((at for at in runs if at.norm == norm), key=lambda at: (at.α, at.β))]


def _show_norms(ax: Axes, runs: Mapping[str, af.Run]) -> None:
    for (label, run), look in zip(runs.items(), _LOOKS, strict=True):
        curves = run.curves.isel(time=slice(1, None))
        ax.plot(curves["time"], curves["norm_l2"], lw=1.8, label=f"penalty {label}", **look)
    ax.set(ylabel=r"$\|\theta\|_2$", yscale="log")
    af.plot.log_time_axes(ax)
    ax.set_title("the penalties shrink the weights", pad=18)


def _show_times(ax: Axes, paths: _Paths) -> None:
    """t₁ and t₂ over β, each divided by the largest β of its norm."""
    α = max(at.α for at in paths)
    for norm, marker, look in zip(_NAMES, "os^", _LOOKS, strict=False):
        of = {at: path for at, path in paths.items() if at.norm == norm and at.α == α}
        largest = max(at.β for at in of)
        for name, filled in (("t2", look["color"]), ("t1", "none")):
            style: dict[str, Any] = {"marker": marker, "mec": look["color"], "mfc": filled, "ls": "", "ms": 6}
            label = f"$t_{name[1]}$, {_NAMES[norm]}"
            ax.plot([at.β / largest for at in of], [getattr(p, name) for p in of.values()], label=label, **style)
    ax.set(xscale="log", yscale="log", xlabel=r"$\beta$ over the largest of its norm", ylabel="steps")
    ax.set_title(rf"$t_1$ and $t_2$, $\alpha={α:g}$", pad=18)
