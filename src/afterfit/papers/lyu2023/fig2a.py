"""Fig. 2a: modular addition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.accuracy import ALL, accuracy_picture, first_time
from afterfit.papers.lyu2023.modular import LR, modular_flow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fig2a"]


class Fig2a(Entry):
    paper, name = PAPER, "fig2a"
    title = "A two-layer ReLU net groks modular addition"
    where = "Fig. 2a, §2"
    about = (
        "W₂ ReLU(W₁x + b₁) of width 1024 learns a + b mod 97 from 40 % of all pairs, shown as two one-hot vectors, "
        "with the mean cross-entropy, weight decay λ = 10⁻⁴ on all parameters and He initialisation. The authors make "
        "steps of gradient descent at rate 0.002, some 10⁷ of them, which would take days here; it is gradient flow "
        "instead, which so small a rate follows closely, in single precision. The authors' code draws W₂ with "
        "variance 1/1024, where He initialisation, which the paper names and this entry uses, has 2/1024."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        decay, until = (1e-4, 1e5) if scale == "paper" else (1e-3, 4e3)
        return {"run": modular_flow(scale, decay, until)}

    def picture(self, run: af.Run, chance: float) -> Figure:
        return accuracy_picture(run, LR, chance)

    @once
    def chance(self, run: af.Run) -> float:
        """The accuracy of random guessing."""
        return 1 / run.spec["task"]["p"]

    @once
    def fitted(self, run: af.Run) -> float:
        """When the training accuracy is first 100 %."""
        return first_time(run.curves, run.curves["train_accuracy"].values >= ALL)

    @claim(
        "training accuracy reaches 100 % within 10⁶ steps",
        says={"paper": "100 % in 10⁶ steps", "quick": "100 % before weight decay acts, at t ≈ 1/λ"},
    )
    def fits(self, run: af.Run, fitted: float, scale: str) -> Finding:
        latest = 1e6 * LR if scale == "paper" else 1 / run.spec["penalty"]["strength"]
        return Finding(f"100 % from t={fitted:.3g} ({fitted / LR:.2g} steps)", fitted <= latest)

    @claim("test accuracy is then close to random guessing", says="the test accuracy remains close to random guessing")
    def guesses(self, run: af.Run, fitted: float, chance: float) -> Finding:
        test = run.curves["test_accuracy"]
        guess = float(test.sel(time=fitted, method="nearest")) if np.isfinite(fitted) else np.nan
        return Finding(f"{guess:.1%} at t={fitted:.3g}, beside 1/p = {chance:.1%}", guess <= chance + 0.05)

    @claim(
        "test accuracy jumps to 100 % an order of magnitude later, at ~10⁷ steps",
        says="after one additional order of magnitude in the number of steps, it suddenly jumps to 100 %; App. B.1: a "
        "sharp transition at ~10⁷ steps",
    )
    def jumps(self, run: af.Run, fitted: float, scale: str) -> Finding:
        verdict, last = run.verdict, float(run.curves["test_accuracy"][-1])
        halfway = verdict.t_half or np.inf
        expected = 1e7 * LR if scale == "paper" else 10 * fitted
        return Finding(
            f"half-way at t={halfway:.3g} ({halfway / LR:.2g} steps), {halfway / fitted:.2g} times the time "
            f"of the fit; 10–90 % within {verdict.width_decades or np.nan:.2f} decades; {last:.2%} at the "
            f"end; {verdict}",
            verdict.kind == "grokking" and last >= 0.99 and 10**-0.5 <= halfway / expected <= 10**0.5,
        )
