"""Fig. 1b: a diagonal net misgroks."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

__all__ = ["Fig1b"]


class Fig1b(Entry):
    paper, name = PAPER, "fig1b"
    title = "A diagonal net misgroks data of large L2 margin"
    where = "Fig. 1b, §3.2.3"
    about = (
        "The net of Fig. 1a on Gaussian inputs that are pushed apart along a dense vector w* by a margin of 25, 32 "
        "examples in 10⁵ dimensions. The classifier of largest L2 margin generalises, and the one of largest L1 "
        "margin, which weight decay leads to, uses a few coordinates that know next to nothing of w*. The paper does "
        "not give the norm and the decay of this figure: they are those of Fig. 1a here, 128 and 10⁻³. Gradient flow "
        "as in Fig. 1a, until t = 10⁵, since accuracy still falls at t = 10⁴, where the authors' 10⁶ steps of 0.01 "
        "end. Test accuracy is that of the population, by quadrature."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        d, margin = (100_000, 25.0) if scale == "paper" else (20_000, 15.0)
        return {
            "run": af.Experiment(
                task=af.tasks.MarginClassification(n=32, d=d, margin=margin, n_test=100),
                model=af.models.DiagonalNet(),
                penalty=af.penalties.L2(DECAY[scale]),
                dynamics=af.dynamics.GradientFlow(until=100 / DECAY[scale], first=LR),
                init=af.inits.Constant(norm=NORM[scale]),
                observations=120,
            )
        }

    def picture(self, run: af.Run) -> Figure:
        return diagonal_picture(run)

    @once
    def both(self, run: af.Run) -> float:
        """When training and test accuracy are first at 100 %, the latter up to 1 %."""
        train, test = run.curves["train_accuracy"].values, run.curves["test_accuracy"].values
        return first_time(run.curves, (train >= ALL) & (test >= 0.99))

    @claim(
        "training and test accuracy reach 100 % early",
        says="the net first fits the training set and achieves 100 % test accuracy",
    )
    def generalises(self, run: af.Run, both: float) -> Finding:
        best = float(run.curves["test_accuracy"].max())
        return Finding(f"100 % and at least 99 % from t={both:.3g}; test accuracy {best:.2%} at its best", both < 1)

    @claim(
        "test accuracy drops to nearly 50 % late: misgrokking",
        says="after training for sufficiently longer, the test accuracy drops to nearly 50 %",
    )
    def misgroks(self, run: af.Run) -> Finding:
        test, slow = run.curves["test_accuracy"], 1 / run.spec["penalty"]["strength"]
        ten, last = float(test.sel(time=10 * slow, method="nearest")), float(test[-1])
        return Finding(
            f"{ten:.1%} at t={10 * slow:g}, {last:.1%} at the end; {run.verdict}",
            run.verdict.kind == "misgrokking" and last <= 0.6,
        )

    @claim("training accuracy stays at 100 %", says="the late-phase bias destroys generalisation, not the fit")
    def stays_fitted(self, run: af.Run, both: float) -> Finding:
        least = float(run.curves["train_accuracy"].sel(time=slice(both, None)).min())
        return Finding(f"at least {least:.2%} after t={both:.3g}", least >= ALL)

    @claim("the transition is at a time of order (1/λ)·log α", says=TURN_SAYS)
    def turns(self, run: af.Run) -> Finding:
        return turn_finding(run)

    @claim("in the early phase the norm decays as α·exp(−λt)", says=NORM_SAYS)
    def decays(self, run: af.Run) -> Finding:
        return norm_finding(run)
