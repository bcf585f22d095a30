"""Figs 6d and 8: a convolutional net on CIFAR-10, over the scale of its start."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._images import images
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.over_alpha import (
    At,
    Ends,
    Runs,
    alphas,
    differ,
    early,
    ends_of,
    errors,
    fit,
    rise,
    show_errors,
    show_level,
    show_path,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fig6d"]

# App. B.2: 64-M-128-M-256-256-M-512-512-M-512-M-FC, no biases, Uniform He times α, SGD with batches of 128, steps of
# 10⁻⁴, 2000 epochs of 50 000 images: a time, steps times their size, of 78. Here a quarter of the channels, and what of
# the rest there is time for. At quick scale images are halved first, and five poolings leave one pixel there too.
_LAYERS = {"paper": "16-M-32-M-64-64-M-128-128-M-128-M", "quick": "M-12-M-24-M-M-M"}
_BATCH = {"paper": 128, "quick": 24}
_IMAGES, _TESTED = {"paper": 256, "quick": 48}, {"paper": 2000, "quick": 500}
_STEPS = {"paper": 300, "quick": 250}
_RATE = {"paper": 0.1, "quick": 0.3}  # at α = 1
# Not in the text: the grid of α, and how many draws there are.
_ALPHAS = {"paper": (1.0, 1.4, 2.0), "quick": (1.0, 2.0, 8.0)}
_SEEDS = range(21, 24)


class Fig6d(Entry):
    paper, name = PAPER, "fig6d"
    title = "A convolutional net takes more images for others the larger its start"
    where = "Figs 6d and 8, App. B, B.2"
    about = (
        "A VGG11-like net, 3×3 convolutions and max-pooling, is trained by SGD on the cross-entropy of images, from α "
        "times Uniform He. Shown are its test error over α and training curves. The caption has the kernel predictor "
        "beside it, which App. B.2 takes for the net of which only the output layer is trained: here are that one, and "
        "the kernel predictor itself, the net linearised where it starts, trained in the same way. The paper has "
        "64-M-128-M-256-256-M-512-512-M-512-M-FC on 50 000 images of CIFAR-10 and 2000 epochs of batches of 128 with "
        "steps of 10⁻⁴, more than two cores have time for. What the ledger says at paper scale was seen with a quarter "
        "of the channels, 16-M-32-M-64-64-M-128-128-M-128-M-FC, on 256 images in 150 epochs, of CIFAR-10 where it is "
        "on this machine (`afterfit data fetch cifar10`), else of Fashion-MNIST, whose odd sides keep their last row "
        "in pooling. Steps are 0.1·α⁻⁶, so that as many are enough for every α: f is homogeneous of degree D = 8 in "
        "its weights, a step moves it by the step size times α^(2D−2), which with α^(2−D) is the same share of f "
        "whatever α. At α = 1 the time, steps times their size, is 30 where the paper's is 78. Left out in the paper "
        "and chosen here: α from 1 to 2, three draws."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        net = af.models.ConvNet(_LAYERS[scale])
        frozen = {"kernel": af.models.Tangent(net), "last": af.models.LastLayer(net)}
        beside = {kind: {At(1.0, seed, kind): model for seed in _SEEDS} for kind, model in frozen.items()}
        return {
            "nets": {at: _posed(scale, at, net, net.degree) for at in _grid(scale)},
            "kernels": {at: _posed(scale, at, model, net.degree) for at, model in beside["kernel"].items()},
            "last": {at: _posed(scale, at, model, net.degree) for at, model in beside["last"].items()},
        }

    def picture(self, nets: Runs, ends: Ends, kernel_ends: Ends, last_ends: Ends) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.8), layout="constrained")
        over_alpha, path = figure.subplots(1, 2)
        show_errors(over_alpha, ends, color="#D55E00", marker="o", ls="--", label="net")
        level = [end.error for end in kernel_ends.values()]
        show_level(over_alpha, level, color="#0072B2", ls="-.", label=r"its kernel predictor, $\alpha=1$")
        level = [end.error for end in last_ends.values()]
        show_level(over_alpha, level, color="#222222", ls="-", label=r"its last layer only, $\alpha=1$")
        over_alpha.set(ylim=(0, None))
        show_path(path, {at: nets[at] for at in (At(1.0, _SEEDS[0]), At(max(alphas(ends)), _SEEDS[0]))})
        path.set_title("training curves (Fig. 8)", pad=18)
        af.plot.legend_below(over_alpha, path)
        return figure

    @once
    def ends(self, nets: Runs) -> Ends:
        return ends_of(nets)

    @once
    def kernel_ends(self, kernels: Runs) -> Ends:
        return ends_of(kernels)

    @once
    def last_ends(self, last: Runs) -> Ends:
        return ends_of(last)

    @claim("every net reaches 100 % training accuracy", says="App. B.2: all experiments reached 100 % train accuracy")
    def fits(self, ends: Ends) -> Finding:
        return fit(ends)

    @control(fits, "the same nets at a third of the observations")
    def does_not_fit_yet(self, nets: Runs) -> Finding:
        return fit(early(nets))

    @claim(
        "training only the last layer does not",
        says="App. B.2: except when training only the last layer, which reached 50.38 % train accuracy",
    )
    def last_does_not(self, last_ends: Ends) -> Finding:
        return _does_not_fit(last_ends)

    @control(last_does_not, "the nets")
    def nets_do(self, ends: Ends) -> Finding:
        return _does_not_fit(ends)

    @claim("the test error rises with α", says="Fig. 6d; App. B: similar behavior when training a VGG11-like network")
    def rises(self, ends: Ends) -> Finding:
        return rise(ends, 1.0, max(alphas(ends)))

    @control(rises, "α = 1 in place of the largest, of other draws")
    def no_rise_among_draws(self, ends: Ends) -> Finding:
        one = errors(ends, 1.0, 1.0)
        return differ(("at α = 1", one), ("at α = 1 of the next draw", np.roll(one, 1)))

    @claim(
        "at α = 1 the net is better than its kernel predictor",
        says="App. B: exiting from the kernel regime allows for smaller test error; Fig. 6d",
    )
    def beats_kernel(self, ends: Ends, kernel_ends: Ends) -> Finding:
        found = differ(
            ("of the kernel predictor", errors(kernel_ends)), ("of the net at α = 1", errors(ends, 1.0, 1.0))
        )
        fitted = [end.train_accuracy for end in kernel_ends.values()]
        return Finding(
            f"{found.measured}; the kernel predictor fits {min(fitted):.1%} to {max(fitted):.1%} of its images",
            found.holds,
        )

    @control(beats_kernel, "the net at the largest α")
    def large_does_not(self, ends: Ends, kernel_ends: Ends) -> Finding:
        large = errors(ends, low=max(alphas(ends)))
        return differ(("of the kernel predictor", errors(kernel_ends)), ("of the net at the largest α", large))

    @claim(
        "at α = 1 the net is better than its last layer alone",
        says="Fig. 6d: the dashed line, the net, and the solid one, by App. B.2 the net with all but its output layer "
        "frozen",
    )
    def beats_last(self, ends: Ends, last_ends: Ends) -> Finding:
        return differ(("of the last layer alone", errors(last_ends)), ("of the net at α = 1", errors(ends, 1.0, 1.0)))

    @control(beats_last, "the last layer alone of other draws in place of the net")
    def last_does_not_beat_itself(self, last_ends: Ends) -> Finding:
        last = errors(last_ends)
        return differ(("of the last layer alone", last), ("of that of the next draw", np.roll(last, 1)))

    @claim(
        "the smaller α, the longer training takes, in time, which is steps times their size",
        says="Fig. 8, App. B.2: the optimization difficulties that arise from using smaller α",
    )
    def small_is_slow(self, nets: Runs) -> Finding:
        return _slower({at: _fitted(run) for at, run in nets.items()})

    @control(small_is_slow, "the number of steps, of sizes that fall with α like α^(2−D)")
    def not_in_steps(self, nets: Runs) -> Finding:
        return _slower({at: _fitted(run) / run.spec["dynamics"]["lr"] for at, run in nets.items()})


def _grid(scale: str) -> list[At]:
    return [At(α, seed) for α in _ALPHAS[scale] for seed in _SEEDS]


def _posed(scale: str, at: At, model: af.models.Model, degree: int) -> af.Experiment:
    return af.Experiment(
        task=images("cifar10", scale, n=_IMAGES[scale], n_test=_TESTED[scale], flat=False),
        model=model,
        dynamics=af.dynamics.SGD(_RATE[scale] * at.α ** (2 - degree), _STEPS[scale], batch=_BATCH[scale]),
        init=af.inits.He(at.α, "uniform"),
        seed=at.seed,
        observations=12,
    )


def _does_not_fit(ends: Ends) -> Finding:
    """Whether at least a tenth of the training images are not fitted, in every draw."""
    accuracies = [end.train_accuracy for end in ends.values()]
    return Finding(
        f"{min(accuracies):.1%} to {max(accuracies):.1%} of training images in {len(accuracies)} runs",
        max(accuracies) <= 0.9,
    )


def _fitted(run: af.Run) -> float:
    """The time of the first observation from which on 99 % of the training images are fitted."""
    below = np.flatnonzero(run.curves["train_accuracy"].values < 0.99)
    last = int(below[-1]) if len(below) else -1
    return float(run.curves["time"].values[last + 1]) if last + 1 < len(run.curves["time"]) else np.inf


def _slower(times: dict[At, float]) -> Finding:
    """Whether at each α all draws take longer than every draw does at the next."""
    grid = sorted({at.α for at in times})
    ranges = [[time for at, time in times.items() if at.α == α] for α in grid]
    said = ", ".join(f"{min(of):.2g} to {max(of):.2g} at α = {α:g}" for α, of in zip(grid, ranges, strict=True))
    return Finding(
        f"99 % of training images are fitted after {said}",
        bool(np.all(np.isfinite(ranges))) and all(min(slow) > max(fast) for slow, fast in itertools.pairwise(ranges)),
    )
