"""What Figs 1a and 1b share: the diagonal net's start and decay, its two laws with their rivals, and its picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers.lyu2023.accuracy import accuracy_picture, crossing
from afterfit.papers.lyu2023.clock import (
    clock,
    clock_law,
    clock_says,
    draw_growth,
    halved_growth,
    norm_halved,
    without_decay,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DiagonalFigure", "diagonal_runs", "margin_accuracies"]

_LR = 0.01  # the authors' learning rate, which turns training time into their steps
_NORM = {"paper": 128.0, "quick": 64.0}  # α, that of all parameters together
_DECAY = {"paper": 1e-3, "quick": 1e-2}  # λ
_HALFWAY = 0.75  # between the 50 % and the 100 % that the paper says test accuracy goes from and to
Times = dict[str, dict[float, float]]


class DiagonalFigure(Entry):
    """A figure of the diagonal net: `run`, one without decay (`free`), and for a law `starts` by α, `weaker` by λ."""

    def picture(self, run: af.Run, times: Times) -> Figure:
        return accuracy_picture(
            run,
            _LR,
            chance=0.5,
            predictions=lambda accuracy, norm: _draw_predictions(run, accuracy, norm),
            law=lambda ax: draw_growth(ax, times["α"], "75 % of test examples right"),
        )

    @once
    def times(self, run: af.Run, starts: dict[float, af.Run], weaker: dict[float, af.Run]) -> Times:
        """When the test accuracy is half-way: λt by α and t by λ."""
        return _times(run, starts, weaker, lambda of: crossing(of, _HALFWAY))

    @once
    def halvings(self, run: af.Run, starts: dict[float, af.Run], weaker: dict[float, af.Run]) -> Times:
        """When the norm is halved, in the same runs."""
        return _times(run, starts, weaker, norm_halved)

    @claim(
        "the transition is at a time of order (1/λ)·log α",
        says={scale: clock_says(_NORM[scale], _DECAY[scale]) for scale in _NORM},
    )
    def turns(self, run: af.Run, times: Times) -> Finding:
        own, law = crossing(run, _HALFWAY), clock_law(times["α"], times["λ"])
        return Finding(f"half-way at t={own:.4g}, {own / clock(*_knobs(run)):.2f} of it; {law.measured}", law.holds)

    @control(turns, "the time at which the norm is halved")
    def norm_turns(self, halvings: Times) -> Finding:
        return clock_law(halvings["α"], halvings["λ"])

    @control(turns, "times of (1/λ)·log √α with the scatter of these")
    def turns_half_as_late(self, times: Times) -> Finding:
        return clock_law(halved_growth(times["α"]), times["λ"])

    @control(turns, "times of c·log α with the scatter of these")
    def turns_whatever_the_decay(self, times: Times) -> Finding:
        return clock_law(times["α"], without_decay(times["λ"]))

    @claim(
        "in the early phase the norm decays as α·exp(−λt)",
        says="the norm decays, the direction stays: θ(t) ≈ α·exp(−λt)·θ_init (§3.2.1)",
    )
    def decays(self, run: af.Run) -> Finding:
        return _norm(run)

    @control(decays, "the usual kernel regime, where the norm stays")
    def stays(self, run: af.Run) -> Finding:
        return _norm(run, rate=0.0)

    @control(decays, "the late phase")
    def decays_for_ever(self, run: af.Run) -> Finding:
        return _norm(run, since=2 * np.log(_knobs(run)[0]))


def diagonal_runs(scale: str, task: af.tasks.Task, until: float) -> dict[str, Any]:
    """The run of a figure, until a time in units of 1/λ, the same without decay, and those of its transition's law.

    All move the parameters themselves, by their gradients: the dual variables of a diagonal net have a factor e^{−λt}
    built in.
    """
    α, λ = _NORM[scale], _DECAY[scale]
    starts, weaker = ((0.25, 0.5, 1, 2, 4), (0.3, 0.1, 0.01)) if scale == "paper" else ((0.25, 1, 4), (0.1, 0.01))

    def flow(α: float, λ: float, until: float, first: float, observations: int = 40) -> af.Experiment:
        return af.Experiment(
            task=task,
            model=af.models.DiagonalNet(),
            penalty=af.penalties.L2(λ),
            dynamics=af.dynamics.GradientFlow(until=until, first=first, rtol=1e-4, method="stabilised"),
            init=af.inits.Constant(norm=α),
            observations=observations,
        )

    def short(α: float, λ: float) -> af.Experiment:
        return flow(α, λ, 2 * clock(α, λ), 0.1 / λ)

    return {
        "run": flow(α, λ, until / λ, _LR, 120),
        "starts": {k * α: short(k * α, λ) for k in starts},
        "weaker": {k * λ: short(α, k * λ) for k in weaker},
        "free": flow(α, 0.0, until / λ, _LR),
    }


def margin_accuracies(run: af.Run) -> dict[str, float]:
    """Test accuracy of the classifiers that the early and the late phase lead to (Cors 3.6 and 3.7)."""
    import jax

    instance = af.theory.instance_of(run)
    ends = {"max-L2-margin": af.theory.max_l2_margin, "max-L1-margin": af.theory.max_l1_margin}
    with jax.enable_x64(True):
        return {name: instance.score_weights(find(instance.design, instance.targets))[1] for name, find in ends.items()}


def _times(
    run: af.Run, starts: dict[float, af.Run], weaker: dict[float, af.Run], time: Callable[[af.Run], float]
) -> Times:
    """A time of the runs that are for a law: λt by α and t by λ."""
    α, λ = _knobs(run)
    found = {α: time(of) for α, of in starts.items()}
    return {
        "α": {α: λ * t for α, t in found.items()},
        "λ": {λ: found[α]} | {λ: time(of) for λ, of in weaker.items()},
    }


def _norm(run: af.Run, rate: float = 1.0, since: float = 0.0) -> Finding:
    """‖θ‖ against α·exp(−λt), or its like with another rate, for a time of 1/λ, in which the law falls by e."""
    α, λ = _knobs(run)
    part = run.curves["norm_l2"].interp(time=np.linspace(since, since + 1, 21) / λ)
    ratio = part / (α * np.exp(-rate * λ * part["time"]))
    return Finding(
        f"‖θ‖/{'(α·exp(−λt))' if rate else 'α'} between {float(ratio.min()):.4g} and {float(ratio.max()):.4g} from "
        f"t={since / λ:.3g} to {(since + 1) / λ:.3g}",
        bool((abs(ratio - 1) <= 0.05).all()),
    )


def _draw_predictions(run: af.Run, accuracy: Axes, norm: Axes) -> None:
    """What is predicted: the accuracy of both margins, (1/λ)·log α and α·exp(−λt)."""
    α, λ = _knobs(run)
    turn = clock(α, λ)
    time = run.curves["time"].values[1:]
    early = time[time <= turn]
    norm.plot(early, α * np.exp(-λ * early), color="k", ls=":", lw=1.4, label=r"$\alpha\,e^{-\lambda t}$")
    norm.set_yscale("log")
    for (name, level), style in zip(margin_accuracies(run).items(), ((0, (6, 2)), (0, (2, 1))), strict=True):
        accuracy.axhline(100 * level, color="#7B3294", lw=1.2, ls=style, zorder=1, label=f"{name} classifier")
    for ax in (accuracy, norm):
        label = r"$(1/\lambda)\log\alpha$" if ax is accuracy else None
        ax.axvline(turn, color="0.5", lw=1, zorder=1, label=label)


def _knobs(run: af.Run) -> tuple[float, float]:
    """α and λ."""
    return run.spec["init"]["norm"], run.spec["penalty"]["strength"]
