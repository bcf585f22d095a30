"""Fig. 1a: a diagonal net groks a sparse classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.accuracy import ALL, first_time
from afterfit.papers.lyu2023.diagonal import LR, diagonal_picture, norm_finding, transition_finding
from afterfit.run import Run

__all__ = ["Fig1a"]


class Fig1a(Entry):
    id = "lyu2023/fig1a"
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
    claims = (
        "training accuracy is 100 % at t < 1",
        "test accuracy is near 50 % until t ≈ 10³",
        "test accuracy is 100 % after the transition",
        "the transition is at a time of order (1/λ)·log α",
        "in the early phase the norm decays as α·exp(−λt)",
        "the late phase finds the teacher's coordinates",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            return {"run": self._experiment(n=256, d=100_000, norm=128.0, decay=1e-3)}
        return {"run": self._experiment(n=100, d=3000, norm=64.0, decay=1e-2)}

    def _experiment(self, n: int, d: int, norm: float, decay: float) -> Experiment:
        return Experiment(
            task=tasks.SparseClassification(n=n, d=d, sparsity=3),
            model=models.DiagonalNet(),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientFlow(until=20 / decay, first=LR, rtol=1e-4),
            init=inits.Constant(norm=norm),
            observations=120,
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        return diagonal_picture(runs["run"])

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        train, test = curves["train_accuracy"], curves["test_accuracy"]
        slow = 1 / run.spec["penalty"]["strength"]  # 10³ in the paper
        fitted = first_time(curves, train.values >= ALL)
        yield Finding(
            self.claims[0],
            "the net fits the training set very quickly",
            f"100 % from t={fitted:.3g}, and {float(train[-1]):.0%} at the end",
            fitted < 1 and bool(train[-1] >= ALL),
        )
        early = test.sel(time=slice(fitted, slow))
        yield Finding(
            self.claims[1],
            "it fails to generalise in the early phase" + ("" if scale == "paper" else ", until t ≈ 1/λ"),
            f"between {float(early.min()):.1%} and {float(early.max()):.1%} until t={slow:g}",
            bool(early.max() <= 0.6),
        )
        yield Finding(
            self.claims[2],
            "after a sharp transition in the late phase, the test accuracy becomes 100 %",
            f"{float(test[-1]):.2%} at the end; {verdict}",
            bool(test[-1] >= 0.995) and verdict.kind == "grokking",
        )
        yield transition_finding(self.claims[3], run)
        yield norm_finding(self.claims[4], run)
        weights = np.abs(run.params["plus"] ** 2 - run.params["minus"] ** 2)
        support = np.flatnonzero(Experiment.from_dict(run.spec).draw().truth)
        largest = np.argsort(weights)[-len(support) :]
        yield Finding(
            self.claims[5],
            "maximising the L1 margin encourages sparsity: n of order k² log d examples are enough",
            f"{len(np.intersect1d(support, largest))} of the {len(support)} largest |w_k| are on the teacher's "
            f"coordinates, which have {weights[support].sum() / weights.sum():.1%} of ‖w‖₁",
            set(support) == set(largest),
        )
