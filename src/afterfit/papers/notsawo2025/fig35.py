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


class _Size(NamedTuple):
    images: int
    units: int
    steps: int
    start: float  # ζ


# App. H.3.4: N = 1000 images, B·ReLU(Ax) without biases, ℓ₁ (Fig. 35), ℓ₂ and ℓ_* (in words); Adam, as all of App. H.3.
# There is no code, and no other number. What was chosen, on seeds 100 to 104:
_SIZES = {"paper": _Size(1000, 300, 18000, 1.6), "quick": _Size(32, 100, 2000, 1.0)}
# Under ℓ_* there are singular vectors at every step, so there is less of everything.
_NUCLEAR = {"paper": _Size(100, 100, 4000, 1.0), "quick": _Size(32, 100, 1700, 1.0)}
_ALPHAS = (7e-4, 1e-3)
_BETAS = {
    "paper": {"ℓ₁": (1.5e-4, 2.5e-4), "ℓ₂": (0.025, 0.045), "ℓ_*": (0.005, 0.01)},
    "quick": {"ℓ₁": (2.5e-3, 5e-3), "ℓ₂": (0.17, 0.35), "ℓ_*": (0.05, 0.1)},
}
_SEEDS = {"paper": (81, 82), "quick": (71, 72)}
_OBSERVATIONS = {"paper": 60, "quick": 30}
_TESTED = {"paper": 2000, "quick": 1000}  # test images
_GAIN, _DELAY = 0.10, 5.0  # test accuracy has to gain ten points after the fit, not before five times t₁
_CHANGED = (
    "at first the loss was the cross-entropy and three points were to be gained: from starts of ζ = 5 and 6 gains of 1 "
    "to 10 points came and went with the draw, on seeds 100, 101, 21 and 22. So the loss is the squared one and ten "
    "points are asked for, not before five times t₁. That was measured at quick scale with more images and units on "
    "seeds 31, 41 and 42, with steps twice as long on seeds 51 and 52, and as it is now on seeds 71 and 72. At paper "
    "scale there were 500 units and batches of 100 on seeds 71 and 72, with whose noise the net gained 16 points "
    "without a penalty too. There are none now, 300 units, a larger start and stronger penalties, on seeds 81 and 82"
)


class _At(NamedTuple):
    norm: str
    α: float
    β: float
    seed: int


class _Path(NamedTuple):
    """When the training images are fitted, the test accuracy then and at the end, and when it has gained ten points."""

    t1: float
    fitted: float
    end: float
    t2: float


_Paths = Mapping[_At, _Path]


class Fig35(Entry):
    paper, name = PAPER, "fig35"
    title = "A two-layer net groks on images"
    where = "Fig. 35, App. H.3.4"
    about = (
        "B·ReLU(Ax), without biases, is fitted to N = 1000 images by Adam with a penalty on A and B, ℓ₁, ℓ₂, nuclear. "
        "Shown are training and test accuracy for several step sizes α and strengths β. The paper's images are of "
        "MNIST; they are where it is on this machine (`afterfit data fetch mnist`), else of Fashion-MNIST, on which "
        "what the ledger says was seen. The authors' notebooks have nothing on images, and the text says no number but "
        "N. Chosen here: the squared loss with one-hot targets, as Liu et al. 2023 have it for grokking on MNIST; 300 "
        "units; the normal start of the authors' other nets, N(0, ζ²/outputs) of each layer, with ζ = 1.6, because "
        "from a smaller one the net generalises as it fits (ζ = 1.3 and β = 3·10⁻⁴: 62 % at the fit and 71 % at the "
        "end) and from a larger one it does not in time (ζ = 2: 25 % and 32 %); all images at each step, because with "
        "the noise of batches of 100 the net gains 16 points without a penalty too; pixels in [0, 1]; penalties as in "
        "the authors' other nets, ℓ₂ and nuclear norms of each matrix, not squared; α and β by trial. All trials were "
        "on other draws. Under the nuclear norm, singular vectors at each step, there are 100 images, 100 units and "
        "ζ = 1. t₁ is the first observed step at which 99 % of the training images are fitted, t₂ that from which "
        "on test accuracy is ten points higher than at t₁."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        α, betas, seeds = _ALPHAS[-1], _BETAS[scale], _SEEDS[scale]
        first = seeds[0]
        penalised = [_At("ℓ₁", α, β, seed) for β in betas["ℓ₁"] for seed in seeds]
        penalised += [_At("ℓ₁", slower, betas["ℓ₁"][-1], seed) for slower in _ALPHAS[:-1] for seed in seeds]
        penalised += [_At(norm, α, β, first) for norm in ("ℓ₂", "ℓ_*") for β in betas[norm]]
        return {
            "nets": {at: _posed(scale, at) for at in penalised},
            "free": {at: _posed(scale, at) for at in [_At(norm, α, 0.0, first) for norm in ("ℓ₁", "ℓ_*")]},
        }

    def picture(self, nets: _Runs, free: _Runs, paths: _Paths) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 8.6), layout="constrained")
        (strengths, rates, times), (second, nuclear, beside) = figure.subplots(2, 3)
        seed, (α, *_) = min(at.seed for at in nets), sorted({at.α for at in nets}, reverse=True)
        of = {at: run for at, run in nets.items() if at.seed == seed}
        never = {at.norm: run for at, run in free.items()}
        for ax, norm in ((strengths, "ℓ₁"), (second, "ℓ₂"), (nuclear, "ℓ_*")):
            shown = {rf"$\beta={at.β:g}$": run for at, run in of.items() if at.norm == norm and at.α == α}
            shown[r"$\beta=0$"] = never.get(norm, never["ℓ₁"])  # that of ℓ₁ is that of ℓ₂
            _show(ax, shown, rf"{_NAMES[norm]}, $\alpha={α:g}$")
        strongest = max(at.β for at in of if at.norm == "ℓ₁")
        some = {rf"$\alpha={at.α:g}$": run for at, run in of.items() if at.norm == "ℓ₁" and at.β == strongest}
        _show(rates, some, rf"{_NAMES['ℓ₁']}, $\beta={strongest:g}$", over="step")
        _show_norms(beside, {_NAMES[norm]: _strongest(of, norm) for norm in _NAMES} | {"none": never["ℓ₁"]})
        _show_times(times, paths)
        af.plot.legend_below(strengths, rates, second, nuclear, beside, times)
        return figure

    @once
    def paths(self, nets: _Runs) -> _Paths:
        return {at: _path(run) for at, run in nets.items()}

    @once
    def free_paths(self, free: _Runs) -> _Paths:
        return {at: _path(run) for at, run in free.items()}

    @claim(
        "under ℓ₁ the net groks",
        says="Fig. 35; §4: a similar phenomenon on a two-layer ReLU MLP trained on MNIST",
        changed=_CHANGED,
    )
    def groks(self, nets: _Runs, paths: _Paths) -> Finding:
        return _grok(nets, _of("ℓ₁", paths))

    @control(groks, "no penalty")
    def does_not_grok(self, free: _Runs, free_paths: _Paths) -> Finding:
        return _grok(free, _of("ℓ₁", free_paths))

    @claim(
        "under ℓ₂ and under the nuclear norm it does as well",
        says="App. H.3.4: for ℓ₂ and ℓ_* results are similar",
        changed=f"{_CHANGED}. β of ℓ₂ and ℓ_* was halved after seed 31, where t₂ was 3.5 times t₁; ℓ_* has 100 units "
        "in place of 60 since seed 51, where it was 2.6 times t₁, and β = 0.1 in place of 0.14 since seed 61, where it "
        "was 4.94 times t₁",
    )
    def others_grok(self, nets: _Runs, paths: _Paths) -> Finding:
        return _grok(nets, _of("ℓ₂", paths) | _of("ℓ_*", paths))

    @control(others_grok, "no penalty, on the net of ℓ₂")
    def does_not_grok_without_l2(self, free: _Runs, free_paths: _Paths) -> Finding:
        return _grok(free, _of("ℓ₁", free_paths))

    @control(others_grok, "no penalty, on the net of ℓ_*")
    def does_not_grok_without_nuclear(self, free: _Runs, free_paths: _Paths) -> Finding:
        return _grok(free, _of("ℓ_*", free_paths))

    @claim("the smaller β, the later, for each norm", says="§4: a smaller regularization coefficient delays")
    def later_with_beta(self, paths: _Paths) -> Finding:
        return _later("β", {at: path.t2 for at, path in paths.items()})

    @control(later_with_beta, "t₁ in place of t₂")
    def fit_is_not_later(self, paths: _Paths) -> Finding:
        return _later("β", {at: path.t1 for at, path in paths.items()})

    @claim("the smaller α, the later, in steps", says="§4: a smaller learning rate delays")
    def later_with_alpha(self, paths: _Paths) -> Finding:
        return _later("α", {at: path.t2 for at, path in paths.items()})

    @control(later_with_alpha, "the number of steps times α²")
    def not_later_in_time(self, paths: _Paths) -> Finding:
        return _later("α", {at: at.α**2 * path.t2 for at, path in paths.items()})


_NAMES = {"ℓ₁": r"$\ell_1$", "ℓ₂": r"$\ell_2$", "ℓ_*": r"$\ell_*$"}


def _posed(scale: str, at: _At) -> af.Experiment:
    kinds = {"ℓ₁": af.penalties.L1, "ℓ₂": af.penalties.Frobenius, "ℓ_*": af.penalties.Nuclear}
    kind = kinds[at.norm] if at.β else af.penalties.L1  # without one, none takes less time
    size = (_NUCLEAR if at.norm == "ℓ_*" else _SIZES)[scale]
    return af.Experiment(
        task=images("mnist", scale, n=size.images, n_test=_TESTED[scale], loss_name="squared", generalise=0.5),
        model=af.models.MLP((size.units,)),
        penalty=kind(at.β),
        dynamics=af.dynamics.Adam(at.α, size.steps),
        init=af.inits.ScaledGaussian(size.start),
        seed=at.seed,
        observations=_OBSERVATIONS[scale],
    )


# ------------------------------------------------------------------------------------------------------- checks


def _path(run: af.Run) -> _Path:
    """Between observations accuracy is taken to change evenly on a logarithmic axis of steps."""
    steps, train, test = (run.curves[name].values for name in ("step", "train_accuracy", "test_accuracy"))
    (fitted,) = np.nonzero(train > 0.99 - 1e-6)  # in single precision
    if not len(fitted):
        return _Path(np.inf, float(test[-1]), float(test[-1]), np.inf)
    k = int(fitted[0])
    found, level = _Path(float(steps[k]), float(test[k]), float(test[-1]), np.inf), test[k] + _GAIN
    if found.end < level:
        return found
    last = int(np.flatnonzero(test < level)[-1])
    part = (level - test[last]) / (test[last + 1] - test[last])
    return found._replace(t2=float(steps[last] * (steps[last + 1] / steps[last]) ** part))


def _of(norm: str, paths: _Paths) -> dict[_At, _Path]:
    return {at: path for at, path in paths.items() if at.norm == norm}


def _grok(runs: _Runs, paths: _Paths) -> Finding:
    """Ten points more after the fit, not before five times as many steps as the fit took, in every run."""
    tasks = [runs[at].spec["task"] for at in paths]
    of = " and ".join(dict.fromkeys(f"{task['n']} of {task['source']}" for task in tasks))
    t1, fitted, end, t2 = np.array(list(paths.values())).T
    return Finding(
        f"{of}, {len(paths)} runs: test accuracy {_range(100 * fitted)} % at t₁ = {_range(t1)}, {_range(100 * end)} % "
        f"at the end; t₂ = {_range(t2)}, {_range(t2 / t1)} times t₁",
        bool(np.all(np.isfinite(t2)) and np.all(t2 >= _DELAY * t1)),
    )


def _range(numbers: np.ndarray) -> str:
    low, high = (f"{number:.3g}" for number in (np.min(numbers), np.max(numbers)))
    return low if low == high else f"{low} to {high}"


def _later(knob: str, times: Mapping[_At, float]) -> Finding:
    """In all pairs of runs that differ in the knob alone, the time is longer by a tenth where that is smaller."""
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
            words += (
                f", like {knob}^p with p = {power_law([getattr(at, knob) for at in there], [of[at] for at in there])}"
            )
        said.append(words)
        holds &= late == len(pairs)
    return Finding("; ".join(said), holds)


# ----------------------------------------------------------------------------------------------------- pictures

_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#D55E00", "ls": "-"},
    {"color": "#0072B2", "ls": "--"},
    {"color": "#009E73", "ls": "-."},
    {"color": "0.45", "ls": ":"},
)


def _show(ax: Axes, runs: Mapping[str, af.Run], title: str, over: str = "time") -> None:
    """Test accuracies over time, or over steps, and the training accuracy of the first."""
    first = next(iter(runs.values()))
    train = first.curves.isel(time=slice(1, None))
    ax.plot(train[over], train["train_accuracy"], color="0.6", lw=1, label="training, " + next(iter(runs)))
    for (label, run), look in zip(runs.items(), _LOOKS, strict=False):
        curves, free = run.curves.isel(time=slice(1, None)), run.spec["penalty"]["strength"] == 0
        style = _LOOKS[-1] if free else look
        ax.plot(curves[over], curves["test_accuracy"], lw=1.8, label=f"test, {label}", **style)
    ax.set(ylabel="accuracy", ylim=(0, 1.03))
    if over == "time":
        af.plot.log_time_axes(ax)
        af.plot.mark_phases(ax, first.verdict)
    else:
        ax.set(xscale="log", xlabel="steps")
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
    ax.set(xlim=(0, 1.1), yscale="log", xlabel=r"$\beta$ over the largest of its norm", ylabel="steps")
    ax.set_title(rf"$t_1$ and $t_2$, $\alpha={α:g}$", pad=18)
