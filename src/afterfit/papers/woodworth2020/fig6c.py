"""Fig. 6c: a wide ReLU net on MNIST, over the scale of its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._images import images
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.over_alpha import (
    At,
    End,
    Ends,
    differ,
    end_of,
    errors,
    fit,
    rise,
    show_errors,
    show_level,
    show_path,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    _Runs = Mapping[At, af.Run]

__all__ = ["Fig6c"]

# App. B.2: 5000 units, N(0, 2/n_in) times α, SGD with batches of 256, cross-entropy; the step sizes were searched.
_UNITS = {"paper": 5000, "quick": 300}
_BATCH = 256
_SMALL, _LARGE = 2.0, 50.0  # α up to which the error is low, and from which on it is high
# What is ours: how many images and steps there is time for, the grid of α (a picture in the paper), and the draws.
_IMAGES = {"paper": 2048, "quick": 512}
_STEPS = {"paper": 800, "quick": 400}
_ALPHAS = {"paper": (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0), "quick": (1.0, 2.0, 10.0, 50.0)}
_SEEDS = {"paper": range(21, 24), "quick": range(21, 24)}


class Fig6c(Entry):
    paper, name = PAPER, "fig6c"
    title = "A wide ReLU net takes more images for others the larger its start"
    where = "Fig. 6c, App. B, B.2"
    about = (
        "A ReLU net with one hidden layer of 5000 units, without biases, is trained by SGD with batches of 256 on the "
        "cross-entropy of images, from α times He's N(0, 2/n_in), until it takes all training images for what they "
        "are. Shown over α is its test error, and that of the same net at α = 1 of which only the output layer is "
        "trained, a linear predictor on random features. "
        "The paper has all 60 000 images of MNIST; there is no time for that here on two cores, so that 2048 are drawn, "
        "of MNIST where it is on this machine (`afterfit data fetch mnist`), else of Fashion-MNIST, as in the ledger. "
        "What the paper leaves out was chosen: α from ½ to 100, three draws of images and start. Its step sizes, "
        "“(0.5, 0.01, 0.05, ...)”, were the best of a search for each α by the error on test images, that is by what "
        "is reported. Here they were searched on other draws than those reported."
    )
    notes = ""

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        return {
            "nets": {
                At(α, seed): _posed(scale, seed, α, _RATES[scale][α])
                for α in _ALPHAS[scale]
                for seed in _SEEDS[scale]
            },
            "last": {
                At(1.0, seed, "last"): _posed(scale, seed, 1.0, _LAST_RATE[scale]).set(
                    {"model": af.models.LastLayer(af.models.MLP((_UNITS[scale],))).to_dict()}
                )
                for seed in _SEEDS[scale]
            },
        }

    def picture(self, nets: Runs, ends: Ends, last_ends: Ends) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.6), layout="constrained")
        over_alpha, path = figure.subplots(1, 2)
        show_errors(over_alpha, ends, color="#D55E00", marker="o", ls="--", label="net")
        level = [end.error for end in last_ends.values()]
        show_level(over_alpha, level, color="#222222", ls="-", label="last layer only")
        for α in (_SMALL, _LARGE):
            over_alpha.axvline(α, color="0.75", lw=1, zorder=0)
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
        return float(np.mean(errors(ends, low=_LARGE) - errors(ends, high=_SMALL)))

    @claim("every net reaches 100 % training accuracy", says="App. B.2: every network reached 100 % training accuracy")
    def fits(self, ends: Ends) -> Finding:
        return fit(ends)

    @control(fits, "the same nets earlier")
    def does_not_fit_yet(self, nets: Runs) -> Finding:
        return fit(early(nets))

    @claim(
        "the test error is higher for α ≥ 50 than for α ≤ 2",
        says="App. B.2: ≈ 1.4 % error for α ≤ 2, and ≈ 2.4 % error for α ≥ 50, of MNIST with 60 000 images",
    )
    def rises(self, ends: Ends) -> Finding:
        return rise(ends, _SMALL, _LARGE)

    @control(rises, "α ≤ 1 in place of α ≥ 50")
    def no_rise_among_small(self, ends: Ends) -> Finding:
        small = {at: end for at, end in ends.items() if at.α <= _SMALL}
        return rise(small, 1.0, _SMALL)
