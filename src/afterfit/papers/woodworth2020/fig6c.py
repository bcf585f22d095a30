"""Fig. 6c: a wide ReLU net on MNIST, over the scale of its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once, passing
from afterfit.papers._images import images
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.over_alpha import (
    At,
    Ends,
    Runs,
    between,
    differ,
    early,
    ends_of,
    fit,
    flat,
    images_of,
    in_pairs,
    rise,
    show_errors,
    show_level,
    show_path,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fig6c"]

# App. B.2: 5000 units, batches of 256, the two levels of α, and the loss that every net came below.
_UNITS = {"paper": 5000, "quick": 300}
_BATCH = {"paper": 256, "quick": 32}
_SMALL, _LARGE = 2.0, 50.0
_LOSS = 1e-5
# Step sizes were searched, (0.5, 0.01, 0.05, ...), for each α. So they were here, on one other draw, seed 100: at paper
# scale of 0.05, 0.2 and 0.5 for α = 1 and of 0.01, 0.05, 0.2 and 0.5 for α = 50, in 300 to 500 steps. For the last
# layer alone 0.05 was tried; for the other α nothing, but that 0.2 fits all images at ½.
_RATES = {"paper": {0.5: 0.2, 1.0: 0.2, 2.0: 0.2}, "quick": {1.0: 0.2, 2.0: 0.2}}
_RATE = {"paper": 0.05, "quick": 0.1}
# What is ours: how many images and steps there is time for, the grid of α (a picture in the paper), and the draws.
_IMAGES = {"paper": 512, "quick": 128}
_TESTED = 2000
_STEPS, _OBSERVED = {"paper": 600, "quick": 300}, {"paper": 20, "quick": 10}
_ALPHAS = {"paper": (0.5, 1.0, 2.0, 10.0, 50.0, 100.0), "quick": (1.0, 2.0, 50.0, 100.0)}
_SEEDS = {"paper": range(51, 54), "quick": range(61, 66)}
_FRESH = "It is measured on other draws since: seeds 61 to 65 at quick scale, 51 to 53 at paper scale"
# What was seen at quick scale before, of 128 images.
_UNFITTED = (
    "of seeds 41 to 45 a net with α = 1 did not fit all of its images, so steps are twice as long for α ≤ 2 since, as "
    "at paper scale, and there are 2000 test images in place of 1000. It is measured on seeds 61 to 65 since"
)
_CHANGED = (
    "at quick scale there were three draws at first, seeds 21 to 23: {}; then five, seeds 31 to 35: {}; then seeds 41 "
    f"to 45: {{}}. But {_UNFITTED}"
)
_LEVELS = f"the control was all α, which the check cannot accept: the whole rise is among them. {_FRESH}"


class Fig6c(Entry):
    paper, name = PAPER, "fig6c"
    title = "A wide ReLU net takes more images for others the larger its start"
    where = "Fig. 6c, App. B, B.2"
    about = (
        "A ReLU net with one hidden layer of 5000 units is trained by SGD with batches of 256 on the cross-entropy of "
        "images, from α times He's N(0, 2/n_in), until it takes all training images for what they are. Shown over α is "
        "its test error, and that of the same net of which only the output layer is trained, a linear predictor on "
        "random features: the caption's kernel predictor is that one (App. B.2). The paper has all 60 000 images of "
        "MNIST. Two cores have no time for that: 512 are drawn, 600 steps are made, and 2000 test images are looked "
        "at, of MNIST where it is on this machine (`afterfit data fetch mnist`), else of Fashion-MNIST. What the "
        "ledger says was seen on Fashion-MNIST. Left out in the paper and chosen here: no biases, pixels in [0, 1], α "
        "from ½ to 100, three draws of images and start. Its step sizes were the best for each α, by validation error "
        "in the caption and by generalisation in the text; here they were searched on another draw than those "
        "reported, for α = 1 and α = 50."
    )
    notes = (
        "f is homogeneous of degree 2 in its weights, and so is its tangent kernel: with the same step size, a step "
        "that moves each output's error by as much changes f by the same share of what it is at the start, whatever α."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        grid = [At(α, seed) for α in _ALPHAS[scale] for seed in _SEEDS[scale]]
        starts = [At(1.0, seed, "last") for seed in _SEEDS[scale]]
        net = af.models.MLP((_UNITS[scale],))
        return {
            "nets": {at: _posed(scale, at, net) for at in grid},
            "last": {at: _posed(scale, at, af.models.LastLayer(net)) for at in starts},
        }

    def picture(self, nets: Runs, ends: Ends, last_ends: Ends) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.6), layout="constrained")
        over_alpha, path = figure.subplots(1, 2)
        show_errors(over_alpha, ends, color="#D55E00", marker="o", ls="--", label="net")
        level = [end.error for end in last_ends.values()]
        show_level(over_alpha, level, color="#222222", ls="-", label=r"its last layer only, $\alpha=1$")
        for α in (_SMALL, _LARGE):
            over_alpha.axvline(α, color="0.8", lw=1, zorder=0)
        over_alpha.set(ylim=(0, None))
        seed = min(at.seed for at in nets)
        show_path(path, {at: nets[at] for at in (At(_SMALL, seed), At(_LARGE, seed))})
        af.plot.legend_below(over_alpha, path)
        return figure

    @once
    def ends(self, nets: Runs) -> Ends:
        return ends_of(nets)

    @once
    def last_ends(self, last: Runs) -> Ends:
        return ends_of(last)

    @once
    def rises_by(self, ends: Ends) -> float:
        large, small = in_pairs(between(ends, low=_LARGE), between(ends, high=_SMALL))
        return float(np.mean(large - small))

    @claim(
        "every net reaches 100 % training accuracy",
        says="App. B.2: every network reached 100 % training accuracy",
        changed=f"at quick scale, {_UNFITTED}",
    )
    def fits(self, ends: Ends) -> Finding:
        return fit(ends)

    @control(fits, "the same nets at a third of the observations")
    def does_not_fit_yet(self, nets: Runs) -> Finding:
        return fit(early(nets))

    @claim(
        "every net reaches a cross-entropy below 10⁻⁵",
        says="App. B.2: every network reached less than 10⁻⁵ cross-entropy loss",
        fails="outputs have to grow to a margin of 11.5, from small starts like the logarithm of time: there are not "
        "as many steps here as in the paper",
    )
    def loss_is_small(self, ends: Ends) -> Finding:
        return _loss(ends)

    @passing(loss_is_small, "nets with α ≥ 50 alone, whose outputs are as large from the start")
    def loss_of_large(self, ends: Ends) -> Finding:
        return _loss(between(ends, low=_LARGE))

    @claim(
        "the test error is higher for α ≥ 50 than for α ≤ 2",
        says="App. B.2: ≈ 1.4 % error for α ≤ 2, and ≈ 2.4 % error for α ≥ 50, of MNIST with 60 000 images",
        changed=_CHANGED.format(
            "8.68 in [−6.1, 23.5] points, above 0 in 3 of 3",
            "9.6 in [8.15, 11], 5 of 5",
            "10.7 in [7.63, 13.7], 5 of 5",
        ),
    )
    def rises(self, ends: Ends) -> Finding:
        return rise(ends, _SMALL, _LARGE)

    @control(rises, "α = 2 in place of α ≥ 50")
    def no_rise_among_small(self, ends: Ends) -> Finding:
        return rise(between(ends, high=_SMALL), 1.0, _SMALL)

    @claim(
        "up to α = 2 mean test errors differ by at most half of the rise from α ≤ 2 to α ≥ 50",
        says="App. B.2: a visible phase transition, ≈ 1.4 % error for α ≤ 2",
        changed=_LEVELS,
    )
    def is_flat_below(self, ends: Ends, rises_by: float) -> Finding:
        return flat(ends, 0.0, _SMALL, rises_by)

    @control(is_flat_below, "α from 2 to 50")
    def is_not_flat_between(self, ends: Ends, rises_by: float) -> Finding:
        return flat(ends, _SMALL, _LARGE, rises_by)

    @claim(
        "from α = 50 on mean test errors differ by at most half of the rise from α ≤ 2 to α ≥ 50",
        says="App. B.2: a visible phase transition, ≈ 2.4 % error for α ≥ 50",
        changed=_LEVELS,
    )
    def is_flat_above(self, ends: Ends, rises_by: float) -> Finding:
        return flat(ends, _LARGE, np.inf, rises_by)

    @control(is_flat_above, "α from 2 to 50")
    def is_not_flat_either(self, ends: Ends, rises_by: float) -> Finding:
        return flat(ends, _SMALL, _LARGE, rises_by)

    @claim(
        "for α ≥ 50 a net is no better than its last layer alone, trained on random features",
        says="App. B: the 2.4 % test error reached for large initialization is no better than what can be achieved "
        "with a linear model over a random feature map; App. B.2: 2.7 %",
        changed="at first 0.85 of the last layer's errors were enough, as 2.4 in 2.7 is 0.89, and the control was a "
        "share, 1.4 in 2.7 of them. Since then nets must have as many in every draw, and nets with α ≤ 2 must not. "
        f"{_FRESH}",
    )
    def no_better(self, ends: Ends, last_ends: Ends) -> Finding:
        return _no_better("α ≥ 50", between(ends, low=_LARGE), last_ends)

    @control(no_better, "nets with α ≤ 2")
    def small_are(self, ends: Ends, last_ends: Ends) -> Finding:
        return _no_better("α ≤ 2", between(ends, high=_SMALL), last_ends)

    @claim(
        "for α ≤ 2 a net is better than its last layer alone",
        says="App. B.2: ≈ 1.4 % error for α ≤ 2, 2.7 % when training only the output layer",
        fails={
            "quick": "the last layer trained alone errs on 31.5 % of the test images, nets with α ≤ 2 on 30.5 %: 1.04 "
            "in [−0.408, 2.49] points less, on 4 of 5 draws. There are 128 images here",
            "paper": "on seeds 21 to 23 the last layer of 5000 units trained alone errs on 22.3 % of the test images, "
            "nets with α ≤ 2 on 22.1 %: 0.239 in [−0.49, 0.968] points less, on 2 of 3 draws. There are 512 images "
            "here, and 60 000 in the paper",
        },
        changed=_CHANGED.format(
            "2.2 in [−0.689, 5.09] points, above 0 in 3 of 3",
            "2.24 in [1.29, 3.19], 5 of 5",
            "1.59 in [−0.348, 3.53], 5 of 5",
        )
        + ". Before that 256 images had been drawn: 1.08 in [−2.06, 4.23] points, above 0 in 2 of 3",
    )
    def is_better(self, ends: Ends, last_ends: Ends) -> Finding:
        return differ(("of the last layer alone", last_ends), ("of nets, α ≤ 2", between(ends, high=_SMALL)))

    @passing(is_better, "nets with α ≥ 50 in place of the last layer")
    def is_better_than_large(self, ends: Ends) -> Finding:
        return differ(("of nets, α ≥ 50", between(ends, low=_LARGE)), ("of nets, α ≤ 2", between(ends, high=_SMALL)))

    @control(is_better, "nets with α ≥ 50")
    def large_is_not(self, ends: Ends, last_ends: Ends) -> Finding:
        return differ(("of the last layer alone", last_ends), ("of nets, α ≥ 50", between(ends, low=_LARGE)))


def _posed(scale: str, at: At, model: af.models.Model) -> af.Experiment:
    rate = _RATE[scale] if at.kind == "last" else _RATES[scale].get(at.α, _RATE[scale])
    return af.Experiment(
        task=images("mnist", scale, n=_IMAGES[scale], n_test=_TESTED),
        model=model,
        dynamics=af.dynamics.SGD(rate, _STEPS[scale], batch=_BATCH[scale]),
        init=af.inits.He(at.α),
        seed=at.seed,
        observations=_OBSERVED[scale],
    )


def _loss(ends: Ends) -> Finding:
    losses = [end.loss for end in ends.values()]
    return Finding(
        f"{images_of(ends)}: {sum(loss < _LOSS for loss in losses)} of {len(losses)} runs below 1e-5, "
        f"from {min(losses):.1g} to {max(losses):.1g}",
        max(losses) < _LOSS,
    )


def _no_better(where: str, ends: Ends, last_ends: Ends) -> Finding:
    """Whether nets take at least as many images for others as the last layer alone, in every draw."""
    nets, last = in_pairs(ends, last_ends)
    ratios = nets / last
    return Finding(
        f"{images_of(ends)}: test error {nets.mean():.1%} of nets with {where}, {last.mean():.1%} of the last layer "
        f"alone, {ratios.min():.2f} to {ratios.max():.2f} of it by draw",
        ratios.min() >= 1,
    )
