"""Fig. 1a: a diagonal net groks a sparse classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, control, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.accuracy import ALL, first_time
from afterfit.papers.lyu2023.diagonal import DiagonalFigure, diagonal_runs

__all__ = ["Fig1a"]


class Fig1a(DiagonalFigure):
    paper, name = PAPER, "fig1a"
    title = "A diagonal net groks a sparse classifier"
    where = "Fig. 1a, §3.2.3"
    about = (
        "The diagonal net u² − v² learns the sign of a sum of three of 10⁵ inputs, up to their signs, from 256 "
        "examples, with the mean logistic loss, weight decay λ = 10⁻³ and all parameters equal at the start, of norm "
        "128. The early phase is the classifier of largest L2 margin, which needs of order 3d examples; weight decay "
        "ends it at a time of order (1/λ)·log α, and the classifier of largest L1 margin takes its place. The authors "
        "make 10⁶ steps of descent at rate 0.01, that is until t = 10⁴. Here it is gradient flow, which their theory "
        "is about and which needs no step for each 0.01 of time, until t = 2·10⁴; the first observation is at their "
        "first step. Shorter flows, for α from 32 to 512 and λ from 10⁻⁵ to 10⁻³, give the law of the transition. "
        "α is the initial norm, as in the authors' code: §3.2.3 writes α for one entry, here 0.29, whose logarithm is "
        "negative; the law is the same up to a constant."
    )

    def runs(self, scale: str) -> dict[str, Any]:
        n, d = (256, 100_000) if scale == "paper" else (100, 3000)
        return diagonal_runs(scale, af.tasks.SparseClassification(n=n, d=d, sparsity=3), until=20)

    @once
    def fitted(self, run: af.Run) -> float:
        """When the training accuracy is first 100 %."""
        return first_time(run.curves, run.curves["train_accuracy"].values >= ALL)

    @claim("training accuracy is 100 % at t < 1", says="the net fits the training set very quickly")
    def fits(self, run: af.Run) -> Finding:
        return _full_early(run, "train_accuracy")

    @control(fits, "test accuracy in its place")
    def fits_the_unseen(self, run: af.Run) -> Finding:
        return _full_early(run, "test_accuracy")

    @claim(
        "test accuracy is near 50 % until t ≈ 10³",
        says={
            "paper": "it fails to generalise in the early phase",
            "quick": "it fails to generalise in the early phase, until t ≈ 1/λ",
        },
    )
    def guesses(self, run: af.Run, fitted: float) -> Finding:
        return _guesses(run, fitted, 1)  # 10³ in the paper

    @control(guesses, "five times as long")
    def guesses_for_ever(self, run: af.Run, fitted: float) -> Finding:
        return _guesses(run, fitted, 5)

    @claim(
        "test accuracy is 100 % after the transition",
        says="after a sharp transition in the late phase, the test accuracy becomes 100 %",
    )
    def generalises(self, run: af.Run) -> Finding:
        last = float(run.curves["test_accuracy"][-1])
        return Finding(f"{last:.2%} at the end; {run.verdict}", last >= 0.995 and run.verdict.kind == "grokking")

    @control(generalises, "a run without weight decay")
    def generalises_by_itself(self, free: af.Run) -> Finding:
        return self.generalises(free)

    @claim(
        "the late phase finds the teacher's coordinates",
        says="maximising the L1 margin encourages sparsity: n of order k² log d examples are enough",
    )
    def finds_the_teacher(self, run: af.Run) -> Finding:
        return _largest_weights(run)

    @control(finds_the_teacher, "a run without weight decay, of largest L2 margin")
    def finds_it_by_itself(self, free: af.Run) -> Finding:
        return _largest_weights(free)


def _full_early(run: af.Run, of: str) -> Finding:
    """Whether an accuracy is 100 % at t < 1, and at the end."""
    full, last = first_time(run.curves, run.curves[of].values >= ALL), float(run.curves[of][-1])
    return Finding(f"100 % from t={full:.3g}, and {last:.0%} at the end", full < 1 and last >= ALL)


def _guesses(run: af.Run, fitted: float, until: float) -> Finding:
    """Whether the test accuracy is near 50 %, less than 60 %, from the fit until a time in units of 1/λ."""
    end = until / run.spec["penalty"]["strength"]
    early = run.curves["test_accuracy"].sel(time=slice(fitted, end))
    return Finding(
        f"between {float(early.min()):.1%} and {float(early.max()):.1%} until t={end:g}", bool(early.max() <= 0.6)
    )


def _largest_weights(run: af.Run) -> Finding:
    """Whether the largest |w| at the end of a run are on the teacher's coordinates, and these have most of ‖w‖₁.

    The classifier of largest L2 margin has its largest weights there, too.
    """
    weights = np.abs(run.params["plus"] ** 2 - run.params["minus"] ** 2)
    support = np.flatnonzero(run.data.truth)
    largest = np.argsort(weights)[-len(support) :]
    held = weights[support].sum() / weights.sum()
    return Finding(
        f"{len(np.intersect1d(support, largest))} of the {len(support)} largest |w_k| are on the teacher's "
        f"coordinates, which have {held:.1%} of ‖w‖₁",
        set(support) == set(largest) and held > 0.5,
    )
