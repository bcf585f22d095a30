"""Fig. 3: matrix completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.accuracy import first_time, show_steps
from afterfit.papers.lyu2023.clock import clock, clock_finding, clock_says
from afterfit.papers.lyu2023.regimes import zero_filled_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fig3"]

_START = 10.0  # α
_DECAY = {"paper": 1e-4, "quick": 1e-3}  # λ


class Fig3(Entry):
    paper, name = PAPER, "fig3"
    title = "The multiplication table is completed only after 10⁶ steps"
    where = "Fig. 3, §3.3.3"
    about = (
        "The 97 x 97 table ij/97², of rank 1, is completed from 5 % of its entries by W = UUᵀ − VVᵀ started at "
        "U = V = 10·I, with weight decay λ = 10⁻⁴ and gradient descent of step 0.1 on the mean squared error. The "
        "early phase is a kernel predictor, which fits the observed entries and leaves the others at 0; weight decay "
        "ends it at a time of order (1/λ)·log α, and the minimum-norm solution completes the table."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        d, observed, steps = (97, 0.05, 1_200_000) if scale == "paper" else (20, 0.25, 120_000)
        table = af.tasks.MatrixCompletion(d, d, 1, observed=observed, truth="multiplication_table", reduction="mean")
        return {
            "run": af.Experiment(
                task=table,
                model=af.models.SymmetricFactorisation(),
                penalty=af.penalties.L2(_DECAY[scale]),
                dynamics=af.dynamics.GradientDescent(lr=0.1, steps=steps),
                init=af.inits.Identity(_START),
            )
        }

    @once
    def turn(self, run: af.Run) -> float:
        """(1/λ)·log α."""
        return clock(run.spec["init"]["scale"], run.spec["penalty"]["strength"])

    def picture(self, run: af.Run, turn: float) -> Figure:
        curves = run.curves.isel(time=slice(1, None))
        figure = af.plot.Figure(figsize=(7.5, 5), layout="constrained")
        ax = figure.subplots()
        ax.plot(curves["time"], curves["train_loss"], **af.plot.TRAIN, label="training loss")
        ax.plot(curves["time"], curves["test_loss"], **af.plot.TEST, label="test loss")
        kernel = "test loss of the kernel predictor (Cor. 3.11)"
        ax.axhline(zero_filled_loss(run), color="k", ls=":", lw=1.2, label=kernel)
        ax.axvspan(0.5 * turn, 2 * turn, color="0.9", zorder=0)
        ax.axvline(turn, color="0.5", lw=1, label=r"$(1/\lambda)\log\alpha$, and within ×2")
        ax.set(xscale="log", yscale="log", xlabel="training time t = 0.1 · steps", ylabel="mean squared error")
        show_steps(ax, run.spec["dynamics"]["lr"], "steps")
        af.plot.mark_phases(ax, run.verdict)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
        return figure

    @claim("the training loss is small within ~10¹ steps", says="~10¹ steps to minimise the training loss")
    def fits(self, run: af.Run) -> Finding:
        small, last = _first_step(run, "train_loss", 1e-2), _shares(run, "train_loss")[-1]
        return Finding(
            f"1 % of its initial value after {small} steps; {last:.1g} of it at the end",
            small is not None and 1 <= small <= 100,
        )

    @claim(
        "the test loss drops only around 10⁶ steps",
        says={
            "paper": "the sharp transition in test loss occurs only after ~10⁶ steps",
            "quick": "late, at a time of order (1/λ)·log α",
        },
    )
    def drops_late(self, run: af.Run, turn: float, scale: str) -> Finding:
        drop = _first_step(run, "test_loss", 0.1)
        expected = 1e6 if scale == "paper" else turn / run.spec["dynamics"]["lr"]
        return Finding(
            f"a tenth of its initial value after {drop} steps; {run.verdict}",
            drop is not None and expected / 4 <= drop <= 4 * expected and run.verdict.kind == "grokking",
        )

    @claim(
        "the early phase leaves unobserved entries at 0 (Cor. 3.11)",
        says="observed entries (and their mirror images) fitted, the others 0",
    )
    def fills_with_zeros(self, run: af.Run) -> Finding:
        t_fit, predicted = run.verdict.t_fit or np.inf, zero_filled_loss(run)
        plateau = float(run.curves["test_loss"].sel(time=10 * t_fit, method="nearest"))
        return Finding(
            f"test loss {plateau:.5g} at t = 10·t_fit; that of the predictor of Cor. 3.11 is {predicted:.5g}",
            abs(plateau / predicted - 1) <= 1e-2,
        )

    @claim(
        "the transition is at a time of order (1/λ)·log α",
        says={scale: clock_says(_START, λ) for scale, λ in _DECAY.items()},
    )
    def turns(self, run: af.Run, turn: float) -> Finding:
        halved = first_time(run.curves, _shares(run, "test_loss") <= 0.5)
        return clock_finding("test loss halved", halved, turn, run)

    @claim(
        "the late phase completes the table with rank 1",
        says="the minimum nuclear norm solution recovers X* with very small errors",
    )
    def completes(self, run: af.Run) -> Finding:
        error, values = float(run.curves["test_error"][-1]), run.curves["singular_values"][-1].values
        return Finding(
            f"‖W − X*‖/‖X*‖ = {error:.2g}; second singular value {values[1] / values[0]:.1g} of the first",
            error <= 0.05 and values[1] <= 0.01 * values[0],
        )


def _shares(run: af.Run, name: str) -> np.ndarray:
    """A curve over its initial value."""
    curve = run.curves[name].values
    return curve / curve[0]


def _first_step(run: af.Run, name: str, share: float) -> int | None:
    """The first step observed at which a curve has fallen to a share of its initial value."""
    below = np.flatnonzero(_shares(run, name) <= share)
    return int(run.curves["step"][below[0]]) if len(below) else None
