"""Fig. 3: matrix completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._measure import first_step, relative_distance
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.accuracy import show_steps
from afterfit.papers.lyu2023.clock import (
    clock,
    clock_law,
    clock_says,
    draw_growth,
    halved_growth,
    norm_halved,
    without_decay,
)
from afterfit.papers.lyu2023.regimes import weights_of, zero_filled, zero_filled_loss

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
        "ends it at a time of order (1/λ)·log α, and the minimum-norm solution completes the table. Gradient flows "
        "from α = 5 to 40, and for λ down to a hundredth, give the law of the transition. ~10ᵏ steps are those nearer "
        "to 10ᵏ than to another power of ten."
    )

    def runs(self, scale: str) -> dict[str, Any]:
        d, observed, steps = (97, 0.05, 1_200_000) if scale == "paper" else (20, 0.25, 120_000)
        λ = _DECAY[scale]

        starts, weaker = (
            ((5.0, 10.0, 20.0, 40.0), (0.3, 0.1, 0.01)) if scale == "paper" else ((5.0, 10.0, 40.0), (0.1, 0.01))
        )
        table = af.tasks.MatrixCompletion(d, d, 1, observed=observed, truth="multiplication_table", reduction="mean")

        def completion(α: float, λ: float, dynamics: af.dynamics.Dynamics, observations: int) -> af.Experiment:
            return af.Experiment(
                task=table,
                model=af.models.SymmetricFactorisation(),
                penalty=af.penalties.L2(λ),
                dynamics=dynamics,
                init=af.inits.Identity(α),
                observations=observations,
            )

        def flow(α: float, λ: float) -> af.Experiment:
            end = 3 * clock(α, λ)
            return completion(α, λ, af.dynamics.GradientFlow(until=end, first=0.1 / λ, method="implicit"), 40)

        return {
            "run": completion(_START, λ, af.dynamics.GradientDescent(lr=0.1, steps=steps), 200),
            "starts": {α: flow(α, λ) for α in starts},
            "weaker": {k * λ: flow(_START, k * λ) for k in weaker},
        }

    @once
    def times(self, run: af.Run, starts: dict[float, af.Run], weaker: dict[float, af.Run]) -> dict[str, dict]:
        """When the test loss is halved: λt by α, t by λ, and t of the figure's run and of the flow beside it."""
        return _times(run, starts, weaker, _halved)

    @once
    def halvings(self, run: af.Run, starts: dict[float, af.Run], weaker: dict[float, af.Run]) -> dict[str, dict]:
        """When the norm is halved, in the same runs."""
        return _times(run, starts, weaker, norm_halved)

    @once
    def late(self, run: af.Run, scale: str) -> float:
        """How many steps are late: 10⁶ in the paper, (1/λ)·log α otherwise."""
        return 1e6 if scale == "paper" else _clock(run) / run.spec["dynamics"]["lr"]

    def picture(self, run: af.Run, times: dict[str, dict]) -> Figure:
        curves = run.curves.isel(time=slice(1, None))
        figure = af.plot.Figure(figsize=(11, 5), layout="constrained")
        ax, law = figure.subplots(1, 2, width_ratios=(3, 2))
        ax.plot(curves["time"], curves["train_loss"], **af.plot.TRAIN, label="training loss")
        ax.plot(curves["time"], curves["test_loss"], **af.plot.TEST, label="test loss")
        kernel = "test loss of the kernel predictor (Cor. 3.11)"
        ax.axhline(zero_filled_loss(run), color="k", ls=":", lw=1.2, label=kernel)
        ax.axvline(_clock(run), color="0.5", lw=1, label=r"$(1/\lambda)\log\alpha$")
        ax.set(xscale="log", yscale="log", xlabel="training time t = 0.1 · steps", ylabel="mean squared error")
        show_steps(ax, run.spec["dynamics"]["lr"], "steps")
        af.plot.mark_phases(ax, run.verdict)
        draw_growth(law, times["α"], "test loss halved, flows")
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
        return figure

    @claim("the training loss is small within ~10¹ steps", says="~10¹ steps to minimise the training loss")
    def fits(self, run: af.Run) -> Finding:
        return _falls(run, "train_loss", 1e-2, 10)

    @control(fits, "the test loss in its place")
    def fits_the_unseen(self, run: af.Run) -> Finding:
        return _falls(run, "test_loss", 1e-2, 10)

    @claim(
        "the test loss drops only around 10⁶ steps",
        says={
            "paper": "the sharp transition in test loss occurs only after ~10⁶ steps",
            "quick": "late, at a time of order (1/λ)·log α",
        },
    )
    def drops_late(self, run: af.Run, late: float) -> Finding:
        drop = _falls(run, "test_loss", 0.1, late)
        return Finding(f"{drop.measured}; {run.verdict}", drop.holds and run.verdict.kind == "grokking")

    @control(drops_late, "the training loss in its place")
    def drops_with_training(self, run: af.Run, late: float) -> Finding:
        return _falls(run, "train_loss", 0.1, late)

    @control(drops_late, "a decay of a tenth")
    def drops_with_less_decay(self, run: af.Run, weaker: dict[float, af.Run], late: float) -> Finding:
        tenth = weaker[0.1 * run.spec["penalty"]["strength"]]
        losses = tenth.curves["test_loss"].values
        steps = first_step(tenth.curves["time"].values, losses, losses[0] / 10) / run.spec["dynamics"]["lr"]
        return Finding(f"10% of its initial value after {steps:.3g} steps", _near(steps, late))

    @claim(
        "the early phase leaves unobserved entries at 0 (Cor. 3.11)",
        says="observed entries (and their mirror images) fitted, the others 0",
    )
    def fills_with_zeros(self, run: af.Run) -> Finding:
        return _zero_filled(run, 10 * (run.verdict.t_fit or np.inf))

    @control(fills_with_zeros, "the late phase")
    def fills_with_zeros_late(self, run: af.Run) -> Finding:
        return _zero_filled(run, float(run.curves["time"][-1]))

    @claim(
        "the transition is at a time of order (1/λ)·log α",
        says={scale: clock_says(_START, λ) for scale, λ in _DECAY.items()},
    )
    def turns(self, run: af.Run, times: dict[str, dict]) -> Finding:
        return _turn(run, times)

    @control(turns, "the time at which the norm is halved")
    def norm_turns(self, run: af.Run, halvings: dict[str, dict]) -> Finding:
        return _turn(run, halvings)

    @control(turns, "times of (1/λ)·log √α with the scatter of these")
    def turns_half_as_late(self, run: af.Run, times: dict[str, dict]) -> Finding:
        return _turn(run, times | {"α": halved_growth(times["α"])})

    @control(turns, "times of c·log α with the scatter of these")
    def turns_whatever_the_decay(self, run: af.Run, times: dict[str, dict]) -> Finding:
        return _turn(run, times | {"λ": without_decay(times["λ"])})

    @claim(
        "the late phase completes the table with rank 1",
        says="the minimum nuclear norm solution recovers X* with very small errors",
    )
    def completes(self, run: af.Run) -> Finding:
        return _completed(weights_of(run), run)

    @control(completes, "the kernel predictor of Cor. 3.11")
    def completes_early(self, run: af.Run) -> Finding:
        return _completed(zero_filled(run), run)


def _times(
    run: af.Run, starts: dict[float, af.Run], weaker: dict[float, af.Run], time: Callable[[af.Run], float]
) -> dict[str, dict]:
    """A time of flows, λt by α and t by λ, and of the figure's run and of the flow beside it."""
    α, λ = run.spec["init"]["scale"], run.spec["penalty"]["strength"]
    found = {α: time(of) for α, of in starts.items()}
    return {
        "α": {α: λ * t for α, t in found.items()},
        "λ": {λ: found[α]} | {λ: time(of) for λ, of in weaker.items()},
        "run": {"descent": time(run), "flow": found[α]},
    }


def _halved(run: af.Run) -> float:
    """When the test loss is half of its initial value."""
    losses = run.curves["test_loss"].values
    return first_step(run.curves["time"].values, losses, losses[0] / 2)


def _falls(run: af.Run, name: str, share: float, expected: float) -> Finding:
    """Whether a loss is first seen at a share of its initial value at a step near the one expected."""
    losses = run.curves[name].values / run.curves[name].values[0]
    (below,) = np.nonzero(losses <= share)
    step = float(run.curves["step"][below[0]]) if len(below) else np.inf
    return Finding(
        f"{share:.0%} of its initial value after {step:g} steps; {losses[-1]:.1g} of it at the end",
        _near(step, expected),
    )


def _near(step: float, expected: float) -> bool:
    """Whether one number of steps is nearer to another than to ten times as many, or to a tenth."""
    return 10**-0.5 <= step / expected <= 10**0.5


def _zero_filled(run: af.Run, time: float) -> Finding:
    """The test loss at a time against that of the predictor of Cor. 3.11."""
    loss, predicted = float(run.curves["test_loss"].sel(time=time, method="nearest")), zero_filled_loss(run)
    return Finding(
        f"test loss {loss:.5g} at t={time:.3g}; that of the predictor of Cor. 3.11 is {predicted:.5g}",
        abs(loss / predicted - 1) <= 1e-2,
    )


def _turn(run: af.Run, times: dict[str, dict]) -> Finding:
    """When the test loss, or a norm, is halved, for several α and λ, against (1/λ)·log α.

    The law is that of flows, so the figure's descent has to have its transition where one of them does.
    """
    own, flow = times["run"]["descent"], times["run"]["flow"]
    law = clock_law(times["α"], times["λ"])
    return Finding(
        f"halved at t={own:.4g}, {own / _clock(run):.2f} of it (flow: {flow:.4g}); {law.measured}",
        law.holds and abs(own / flow - 1) <= 0.05,
    )


def _completed(table: np.ndarray, run: af.Run) -> Finding:
    """Whether a table is X* up to 5 %, and of rank 1 up to 1 %."""
    error, values = relative_distance(table, run.data.truth), np.linalg.svd(table, compute_uv=False)
    return Finding(
        f"‖W − X*‖/‖X*‖ = {error:.2g}; second singular value {values[1] / values[0]:.1g} of the first",
        error <= 0.05 and values[1] <= 0.01 * values[0],
    )


def _clock(run: af.Run) -> float:
    """(1/λ)·log α."""
    return clock(run.spec["init"]["scale"], run.spec["penalty"]["strength"])
