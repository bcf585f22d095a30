"""Figs 6d and 8: a convolutional net on CIFAR-10, over the scale of its start."""

from __future__ import annotations

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
# 10⁻⁴, 2000 epochs of 50 000 images. Here a quarter of the channels, and what of the rest there is time for.
_LAYERS = {"paper": "16-M-32-M-64-64-M-128-128-M-128-M", "quick": "8-M-16-M-M-M"}
_BATCH = {"paper": 128, "quick": 32}
_IMAGES, _TESTED = {"paper": 1024, "quick": 128}, {"paper": 2000, "quick": 500}
_STEPS = {"paper": 700, "quick": 250}
_RATE = 0.1  # at α = 1
# Not in the text: the grid of α, and how many draws there are.
_ALPHAS = {"paper": (0.8, 1.0, 1.25, 1.6, 2.0), "quick": (1.0, 4.0)}
_SEEDS = range(21, 24)


class Fig6d(Entry):
    paper, name = PAPER, "fig6d"
    title = "A convolutional net takes more images for others the larger its start"
    where = "Figs 6d and 8, App. B, B.2"
    about = (
        "A VGG11-like net, 3×3 convolutions and max-pooling, is trained by SGD on the cross-entropy of images, from "
        "α times Uniform He. Shown are its test error over α, that of its kernel predictor (the net linearised where it "
        "starts, trained in the same way), and training curves. The paper has 64-M-128-M-256-256-M-512-512-M-512-M-FC "
        "on 50 000 images of CIFAR-10, 2000 epochs of batches of 128 with steps of 10⁻⁴: some months on two cores. What "
        "the ledger says was seen with a quarter of the channels, 16-M-32-M-64-64-M-128-128-M-128-M-FC, 1024 images and "
        "88 epochs, of CIFAR-10 where it is on this machine (`afterfit data fetch cifar10`), else of Fashion-MNIST, "
        "whose odd sides keep their last row in pooling. Steps are 0.1·α⁻⁶: f is homogeneous of degree D = 8, a step "
        "moves it by the step size times α^(2D−2), and with α^(2−D) that is the same share of f whatever α. Left out in "
        "the paper and chosen here: α from 0.8 to 2, three draws."
    )
    notes = ""

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        net = af.models.ConvNet(_LAYERS[scale])
        starts = {kind: [At(1.0, seed, kind) for seed in _SEEDS] for kind in ("kernel", "last")}
        return {
            "nets": {At(α, seed): _posed(scale, At(α, seed), net, net.degree) for α in _ALPHAS[scale] for seed in _SEEDS},
            "kernels": {at: _posed(scale, at, af.models.Tangent(net), net.degree) for at in starts["kernel"]},
            "last": {at: _posed(scale, at, af.models.LastLayer(net), net.degree) for at in starts["last"]},
        }

    def picture(self, nets: Runs, last: Runs, ends: Ends, kernel_ends: Ends) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.8), layout="constrained")
        over_alpha, path = figure.subplots(1, 2)
        show_errors(over_alpha, ends, color="#D55E00", marker="o", ls="--", label="net")
        level = [end.error for end in kernel_ends.values()]
        show_level(over_alpha, level, color="#222222", ls="-", label=r"its kernel predictor, $\alpha=1$")
        over_alpha.set(ylim=(0, None))
        shown = {at: nets[at] for at in (At(1.0, _SEEDS[0]), At(max(alphas(ends)), _SEEDS[0]))}
        show_path(path, shown | {at: run for at, run in last.items() if at.seed == _SEEDS[0]})
        path.set_title("training curves (Fig. 8)", pad=18)
        af.plot.legend_below(over_alpha, path)
        return figure

    @once
    def ends(self, nets: Runs) -> Ends:
        return ends_of(nets)

    @once
    def kernel_ends(self, kernels: Runs) -> Ends:
        return ends_of(kernels)

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
    def last_does_not(self, last: Runs) -> Finding:
        return _does_not_fit(ends_of(last))

    @control(last_does_not, "the nets")
    def nets_do(self, ends: Ends) -> Finding:
        return _does_not_fit(ends)

    @claim("the test error rises with α", says="Fig. 6d; App. B: similar behavior when training a VGG11-like network")
    def rises(self, ends: Ends) -> Finding:
        return rise(ends, 1.0, max(alphas(ends)))

    @control(rises, "α = 1 in place of the largest, on other draws")
    def no_rise_among_draws(self, ends: Ends) -> Finding:
        one = errors(ends, 1.0, 1.0)
        return differ(("at α = 1", one), ("at α = 1 of the next draw", np.roll(one, 1)))

    @claim(
        "at α = 1 the net is better than its kernel predictor",
        says="Fig. 6d: the dashed line, the net, below the solid one; App. B: exiting from the kernel regime allows for "
        "smaller test error",
    )
    def beats_kernel(self, ends: Ends, kernel_ends: Ends) -> Finding:
        return differ(("of the kernel predictor", errors(kernel_ends)), ("of the net at α = 1", errors(ends, 1.0, 1.0)))

    @control(beats_kernel, "the net at the largest α")
    def large_does_not(self, ends: Ends, kernel_ends: Ends) -> Finding:
        large = errors(ends, low=max(alphas(ends)))
        return differ(("of the kernel predictor", errors(kernel_ends)), ("of the net at the largest α", large))


def _posed(scale: str, at: At, model: af.models.Model, degree: int) -> af.Experiment:
    return af.Experiment(
        task=images("cifar10", scale, n=_IMAGES[scale], n_test=_TESTED[scale], flat=False),
        model=model,
        dynamics=af.dynamics.SGD(_RATE * at.α ** (2 - degree), _STEPS[scale], _BATCH[scale]),
        init=af.inits.He(at.α, "uniform"),
        seed=at.seed,
        observations=16,
    )


def _does_not_fit(ends: Ends) -> Finding:
    """Whether at least a tenth of the training images are not fitted, in every draw."""
    accuracies = [end.train_accuracy for end in ends.values()]
    return Finding(
        f"{min(accuracies):.1%} to {max(accuracies):.1%} of training images in {len(accuracies)} runs",
        max(accuracies) <= 0.9,
    )
