"""Fig. 1a: a diagonal net groks a sparse classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.accuracy import ALL, first_time
from afterfit.papers.lyu2023.diagonal import (
    DECAY,
    LR,
    NORM,
    NORM_SAYS,
    TURN_SAYS,
    diagonal_picture,
    norm_finding,
    turn_finding,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fig1a"]


class Fig1a(Entry):
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
        "first step. α is the initial norm, as in the authors' code: §3.2.3 writes α for one entry, here 0.29, whose "
        "logarithm is negative."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        n, d = (256, 100_000) if scale == "paper" else (100, 3000)
        return {
            "run": af.Experiment(
                task=af.tasks.SparseClassification(n=n, d=d, sparsity=3),
                model=af.models.DiagonalNet(),
                penalty=af.penalties.L2(DECAY[scale]),
                dynamics=af.dynamics.GradientFlow(until=20 / DECAY[scale], first=LR, rtol=1e-4),
                init=af.inits.Constant(norm=NORM[scale]),
                observations=120,
            )
        }

    def picture(self, run: af.Run) -> Figure:
        return diagonal_picture(run)

    @once
    def fitted(self, run: af.Run) -> float:
        """When the training accuracy is first 100 %."""
        return first_time(run.curves, run.curves["train_accuracy"].values >= ALL)

    @claim("training accuracy is 100 % at t < 1", says="the net fits the training set very quickly")
    def fits(self, run: af.Run, fitted: float) -> Finding:
        last = float(run.curves["train_accuracy"][-1])
        return Finding(f"100 % from t={fitted:.3g}, and {last:.0%} at the end", fitted < 1 and last >= ALL)

    @claim(
        "test accuracy is near 50 % until t ≈ 10³",
        says={
            "paper": "it fails to generalise in the early phase",
            "quick": "it fails to generalise in the early phase, until t ≈ 1/λ",
        },
    )
    def guesses(self, run: af.Run, fitted: float) -> Finding:
        slow = 1 / run.spec["penalty"]["strength"]  # 10³ in the paper
        early = run.curves["test_accuracy"].sel(time=slice(fitted, slow))
        return Finding(
            f"between {float(early.min()):.1%} and {float(early.max()):.1%} until t={slow:g}",
            bool(early.max() <= 0.6),
        )

    @claim(
        "test accuracy is 100 % after the transition",
        says="after a sharp transition in the late phase, the test accuracy becomes 100 %",
    )
    def generalises(self, run: af.Run) -> Finding:
        last = float(run.curves["test_accuracy"][-1])
        return Finding(f"{last:.2%} at the end; {run.verdict}", last >= 0.995 and run.verdict.kind == "grokking")

    @claim("the transition is at a time of order (1/λ)·log α", says=TURN_SAYS)
    def turns(self, run: af.Run) -> Finding:
        return turn_finding(run)

    @claim("in the early phase the norm decays as α·exp(−λt)", says=NORM_SAYS)
    def decays(self, run: af.Run) -> Finding:
        return norm_finding(run)

    @claim(
        "the late phase finds the teacher's coordinates",
        says="maximising the L1 margin encourages sparsity: n of order k² log d examples are enough",
    )
    def finds_the_teacher(self, run: af.Run) -> Finding:
        weights = np.abs(run.params["plus"] ** 2 - run.params["minus"] ** 2)
        support = np.flatnonzero(run.data.truth)
        largest = np.argsort(weights)[-len(support) :]
        return Finding(
            f"{len(np.intersect1d(support, largest))} of the {len(support)} largest |w_k| are on the teacher's "
            f"coordinates, which have {weights[support].sum() / weights.sum():.1%} of ‖w‖₁",
            set(support) == set(largest),
        )
