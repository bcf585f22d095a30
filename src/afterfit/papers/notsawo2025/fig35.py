"""Fig. 35: a two-layer net groks on images."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._images import images
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.recovery import slope_within

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
# Under ℓ_* a net of N = 1000 images has generalised when it has fitted (see `about`), so there is less of everything.
_NUCLEAR = {"paper": _Size(100, 100, 4000, 1.0), "quick": _Size(32, 100, 1700, 1.0)}
_ALPHA, _FASTER = 1e-3, 2.5e-3
_BETAS = {
    "paper": {"ℓ₁": (1.5e-4, 2.5e-4), "ℓ₂": (0.025, 0.045), "ℓ_*": (0.005, 0.01)},
    "quick": {"ℓ₁": (2.5e-3, 5e-3), "ℓ₂": (0.17, 0.35), "ℓ_*": (0.05, 0.1)},
}
_SEEDS = {"paper": (81, 82), "quick": (91, 92, 93)}
_OBSERVATIONS = {"paper": 60, "quick": 30}
_TESTED = {"paper": 2000, "quick": 1000}  # test images
_GAIN, _DELAY = 0.10, 5.0  # test accuracy has to gain ten points after the fit, not before five times t₁
_CHANGED = (
    "at first the loss was the cross-entropy and three points were to be gained: from starts of ζ = 5 and 6 gains of "
    "1 to 10 points came and went with the draw, on seeds 100, 101, 21 and 22. So the loss is the squared one and ten "
    "points are asked for, not before five times t₁. That was measured at quick scale with more images and units on "
    "seeds 31, 41 and 42, with steps twice as long on seeds 51 and 52, as it is now on seeds 71 and 72, and on seeds "
    "91 to 93 since α = 7·10⁻⁴ is not among them any more. At paper scale there were 500 units and batches of 100 on "
    "seeds 71 and 72, with whose noise the net gained 16 points without a penalty too. There are none now, 300 units, "
    "a larger start and stronger penalties, on seeds 81 and 82"
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
        "on other draws. Under the nuclear norm there are 100 images, 100 units and ζ = 1: of 1000 images, with 100 "
        "units, ζ = 1.6 and β = 0.0012 and 0.01, on seed 90, the net had fitted after 10 200 and 6600 steps, when it "
        "had generalised (75 and 78 % of test images); 18 000 steps would take some 3 minutes. Nets with α = 2.5·10⁻³ "
        "are there for the order of times alone: on seed 90 t₂ was 2.5 times t₁. t₁ is the first observed step at "
        "which 99 % of the training images are fitted, t₂ that from which on test accuracy is ten points higher than "
        "at t₁."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        betas, seeds = _BETAS[scale], _SEEDS[scale]
        first = seeds[0]
        penalised = [_At("ℓ₁", _ALPHA, β, seed) for β in betas["ℓ₁"] for seed in seeds]
        penalised += [_At(norm, _ALPHA, β, first) for norm in ("ℓ₂", "ℓ_*") for β in betas[norm]]
        faster = [_At("ℓ₁", _FASTER, betas["ℓ₁"][-1], seed) for seed in seeds]
        return {
            "nets": {at: _posed(scale, at) for at in penalised},
            "fast": {at: _posed(scale, at) for at in faster},
            "free": {at: _posed(scale, at) for at in [_At(norm, _ALPHA, 0.0, first) for norm in ("ℓ₁", "ℓ_*")]},
        }

    def picture(self, nets: _Runs, fast: _Runs, free: _Runs, paths: _Paths) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 8.6), layout="constrained")
        (strengths, rates, times), (second, nuclear, beside) = figure.subplots(2, 3)
        seed = min(at.seed for at in nets)
        of = {at: run for at, run in nets.items() if at.seed == seed}
        never = {at.norm: run for at, run in free.items()}
        for ax, norm in ((strengths, "ℓ₁"), (second, "ℓ₂"), (nuclear, "ℓ_*")):
            shown = {rf"$\beta={at.β:g}$": run for at, run in of.items() if at.norm == norm}
            shown[r"$\beta=0$"] = never.get(norm, never["ℓ₁"])  # that of ℓ₁ is that of ℓ₂
            _show(ax, shown, rf"{_NAMES[norm]}, $\alpha={_ALPHA:g}$")
        strongest = max(at.β for at in of if at.norm == "ℓ₁")
        both = {at: run for at, run in {**of, **fast}.items() if (at.norm, at.β, at.seed) == ("ℓ₁", strongest, seed)}
        some = {rf"$\alpha={at.α:g}$": run for at, run in both.items()}
        _show(rates, some, rf"{_NAMES['ℓ₁']}, $\beta={strongest:g}$", over="step")
        _show_norms(beside, {_NAMES[norm]: _strongest(of, norm) for norm in _NAMES} | {"none": never["ℓ₁"]})
        _show_times(times, paths)
        af.plot.legend_below(strengths, rates, second, nuclear, beside, times)
        return figure

    @once
    def paths(self, nets: _Runs) -> _Paths:
        return {at: _path(run) for at, run in nets.items()}

    @once
    def fast_paths(self, fast: _Runs) -> _Paths:
        return {at: _path(run) for at, run in fast.items()}

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
    def later_with_beta(self, nets: _Runs, paths: _Paths) -> Finding:
        return _later("β", _images_of(nets), {at: path.t2 for at, path in paths.items()})

    @control(later_with_beta, "t₁ in place of t₂")
    def fit_is_not_later(self, nets: _Runs, paths: _Paths) -> Finding:
        return _later("β", _images_of(nets), {at: path.t1 for at, path in paths.items()})

    @claim(
        "under ℓ₁, the smaller α, the later, in steps",
        says="§4: a smaller learning rate delays",
        changed="α was 7·10⁻⁴ and 10⁻³ at first, of two draws each, and the control the number of steps times α². "
        "Since then it is 10⁻³ and 2.5·10⁻³, at quick scale on other draws, seeds 91 to 93; at paper scale none was "
        "measured",
    )
    def later_with_alpha(self, fast: _Runs, paths: _Paths, fast_paths: _Paths) -> Finding:
        both = {**_of("ℓ₁", paths), **fast_paths}
        return _later("α", _images_of(fast), {at: path.t2 for at, path in both.items()})

    @control(later_with_alpha, "α times the number of steps")
    def not_later_in_time(self, fast: _Runs, paths: _Paths, fast_paths: _Paths) -> Finding:
        both = {**_of("ℓ₁", paths), **fast_paths}
        return _later("α", _images_of(fast), {at: at.α * path.t2 for at, path in both.items()})


_NAMES = {"ℓ₁": r"$\ell_1$", "ℓ₂": r"$\ell_2$", "ℓ_*": r"$\ell_*$"}


def _posed(scale: str, at: _At) -> af.Experiment:
    kinds = {"ℓ₁": af.penalties.L1, "ℓ₂": af.penalties.Frobenius, "ℓ_*": af.penalties.Nuclear}
    kind = kinds[at.norm] if at.β else af.penalties.L1  # without one, none takes less time
    size = (_NUCLEAR if at.norm == "ℓ_*" else _SIZES)[scale]
    return af.Experiment(
        task=images("mnist", scale, n=size.images, n_test=_TESTED[scale], loss_name="squared", generalise=0.5),
        model=af.models.MLP((size.units,)),
        penalty=kind(at.β),
        dynamics=af.dynamics.Adam(at.α, round(size.steps * _ALPHA / at.α)),
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
    of = _images_of({at: runs[at] for at in paths})
    t1, fitted, end, t2 = np.array(list(paths.values())).T
    return Finding(
        f"{of}, {len(paths)} runs: test accuracy {_range(100 * fitted)} % at t₁ = {_range(t1)}, {_range(100 * end)} % "
        f"at the end; t₂ = {_range(t2)}, {_range(t2 / t1)} times t₁",
        bool(np.all(np.isfinite(t2)) and np.all(t2 >= _DELAY * t1)),
    )


def _images_of(runs: _Runs) -> str:
    """Which images they are about."""
    tasks = [run.spec["task"] for run in runs.values()]
    return " and ".join(dict.fromkeys(f"{task['n']} of {task['source']}" for task in tasks))


def _range(numbers: np.ndarray) -> str:
    low, high = (f"{number:.3g}" for number in (np.min(numbers), np.max(numbers)))
    return low if low == high else f"{low} to {high}"


def _later(knob: str, of: str, times: Mapping[_At, float]) -> Finding:
    """In all pairs of runs that differ in the knob alone, the time is longer by a tenth where that is smaller."""
    said, holds = [], True
    for norm in dict.fromkeys(at.norm for at in times):
        groups = _groups(knob, [at for at in times if at.norm == norm])
        if not groups:
            continue
        pairs = [pair for group in groups for pair in itertools.combinations(group, 2)]
        late = sum(1.1 * times[b] <= times[a] and np.isfinite(times[b]) for a, b in pairs)
        words = f"{norm}: later in {late} of {len(pairs)} pairs"
        there = [at for group in groups for at in group]
        if len(there) > len(groups) + 1 and all(np.isfinite(times[at]) for at in there):
            law = slope_within([[(np.log(getattr(at, knob)), np.log(times[at])) for at in group] for group in groups])
            words += f", like {knob}^p with p = {law}"
        said.append(words)
        holds &= late == len(pairs)
    return Finding(f"{of}: {'; '.join(said)}", holds)


def _groups(knob: str, runs: list[_At]) -> list[list[_At]]:
    """Those that differ in the knob alone, from the smallest on."""
    groups: dict[_At, list[_At]] = {}
    for at in sorted(runs, key=lambda at: getattr(at, knob)):
        groups.setdefault(at._replace(**{knob: 0.0}), []).append(at)
    return [group for group in groups.values() if len(group) > 1]


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
