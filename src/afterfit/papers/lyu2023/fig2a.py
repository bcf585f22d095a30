"""Fig. 2a: modular addition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.accuracy import ALL, accuracy_picture, first_time
from afterfit.papers.lyu2023.modular import LR, modular_flow
from afterfit.run import Run

__all__ = ["Fig2a"]


class Fig2a(Entry):
    id = "lyu2023/fig2a"
    title = "A two-layer ReLU net groks modular addition"
    where = "Fig. 2a, §2"
    about = (
        "W₂ ReLU(W₁x + b₁) of width 1024 learns a + b mod 97 from 40 % of all pairs, shown as two one-hot vectors, "
        "with the mean cross-entropy, weight decay λ = 10⁻⁴ on all parameters and He initialisation. The authors make "
        "steps of gradient descent at rate 0.002, some 10⁷ of them, which would take days here; it is gradient flow "
        "instead, which so small a rate follows closely, in single precision. The authors' code draws W₂ with "
        "variance 1/1024, where He initialisation, which the paper names and this entry uses, has 2/1024."
    )
    claims = (
        "training accuracy reaches 100 % within 10⁶ steps",
        "test accuracy is then close to random guessing",
        "test accuracy jumps to 100 % an order of magnitude later, at ~10⁷ steps",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        decay, until = (1e-4, 1e5) if scale == "paper" else (1e-3, 4e3)
        return {"run": modular_flow(scale, decay, until)}

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run = runs["run"]
        return accuracy_picture(run, LR, chance=1 / run.spec["task"]["p"])

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        test, chance = curves["test_accuracy"], 1 / run.spec["task"]["p"]
        slow = 1 / run.spec["penalty"]["strength"]
        million = 1e6 * LR if scale == "paper" else slow
        fitted = first_time(curves, curves["train_accuracy"].values >= ALL)
        yield Finding(
            self.claims[0],
            "100 % in 10⁶ steps" if scale == "paper" else "100 % before weight decay acts, at t ≈ 1/λ",
            f"100 % from t={fitted:.3g} ({fitted / LR:.2g} steps)",
            fitted <= million,
        )
        guess = float(test.sel(time=fitted, method="nearest")) if np.isfinite(fitted) else np.nan
        yield Finding(
            self.claims[1],
            "the test accuracy remains close to random guessing",
            f"{guess:.1%} at t={fitted:.3g}, beside 1/p = {chance:.1%}",
            guess <= chance + 0.05,
        )
        halfway = verdict.t_half or np.inf
        expected = 1e7 * LR if scale == "paper" else 10 * fitted
        yield Finding(
            self.claims[2],
            "after one additional order of magnitude in the number of steps, it suddenly jumps to 100 %; App. B.1: a "
            "sharp transition at ~10⁷ steps",
            f"half-way at t={halfway:.3g} ({halfway / LR:.2g} steps), {halfway / fitted:.2g} times the time "
            f"of the fit; 10–90 % within {verdict.width_decades or np.nan:.2f} decades; {float(test[-1]):.2%} at the "
            f"end; {verdict}",
            verdict.kind == "grokking" and bool(test[-1] >= 0.99) and 10**-0.5 <= halfway / expected <= 10**0.5,
        )
