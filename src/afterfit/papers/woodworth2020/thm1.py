"""Thm 1: the end point of gradient flow on a diagonal net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim
from afterfit.papers._measure import examples, relative_distance
from afterfit.papers.woodworth2020 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm1"]

_ALPHAS = (0.01, 0.1, 1.0, 10.0)
_ByScale = Mapping[float, "af.Run"]


class Thm1(Entry):
    paper, name = PAPER, "thm1"
    title = "Gradient flow on a diagonal net ends at the minimiser of Q"
    where = "Thm 1, §4"
    about = (
        "The diagonal net w₊² − w₋² is fitted by gradient flow to sparse regression with fewer examples than "
        "dimensions, from w₊ = w₋ = α·w₀. Whatever the scale α and the shape w₀ (no zero entries), the weights end at "
        "the interpolating β that minimises Q_{α,w₀}, which goes from a weighted L2 norm (α → ∞) to the L1 norm "
        "(α → 0). The minimiser is found by a convex solver that knows nothing of the flow."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        n, d, sparsity = (40, 100, 5) if scale == "paper" else (12, 30, 2)
        task = af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01)
        shape = tuple(float(w) for w in np.random.default_rng(0).uniform(0.25, 2.0, d))
        return {
            "uniform": {alpha: _flow(task, alpha, None) for alpha in _ALPHAS},
            "shaped": {alpha: _flow(task, alpha, shape) for alpha in _ALPHAS},
        }

    def picture(self, uniform: _ByScale, shaped: _ByScale) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for alpha, grey in zip(_ALPHAS, np.linspace(0.75, 0.0, len(_ALPHAS)), strict=True):
            _show_distance(left, uniform[alpha], "-", str(grey), f"uniform α={alpha:g}")
            _show_distance(left, shaped[alpha], "--", str(grey), f"non-uniform α={alpha:g}")
            _show_end(right, uniform[alpha], str(grey))
        left.set(yscale="log", ylabel=r"$\|\beta(t)-\mathrm{argmin}\,Q\|/\|\mathrm{argmin}\,Q\|$")
        af.plot.log_time_axes(left)
        af.plot.mark_phases(left, uniform[_ALPHAS[0]].verdict)
        headline = f"uniform α={_ALPHAS[0]:g}"
        left.legend(loc="lower left", fontsize="small", frameon=False, title=f"phases marked: {headline}")
        right.set(xlabel="coordinate, sorted", ylabel=r"$\beta_i$", title="uniform: circles the flow, lines argmin Q")
        return figure

    @claim("the flow interpolates: Xβ = y at the end", says="assumed by the theorem")
    def interpolates(self, runs: Mapping[str, af.Run]) -> Finding:
        residual = max(float(run.curves["train_error"][-1]) for run in runs.values())
        return Finding(f"largest ‖Xβ − y‖/‖y‖ of {len(runs)} runs: {residual:.1g}", residual <= 1e-4)

    @claim("uniform w₀: the limit is argmin Q_{α,1}", says="equality")
    def ends_at_q(self, uniform: _ByScale) -> Finding:
        return _ends_at_minimiser(uniform)

    @claim("non-uniform w₀: the limit is argmin Q_{α,w₀}", says="equality")
    def ends_at_shaped_q(self, shaped: _ByScale) -> Finding:
        return _ends_at_minimiser(shaped)

    @claim(
        "the shape matters: with non-uniform w₀ the limit is not argmin Q_{α,1}",
        says="w₀ changes the weights of the limit norm for α → ∞ and not the L1 limit for α → 0",
    )
    def shape_matters(self, shaped: _ByScale) -> Finding:
        wrong = {alpha: relative_distance(_end(run), minimiser(run, uniform=True)) for alpha, run in shaped.items()}
        return Finding(
            "distance to argmin Q_{α,1}: " + ", ".join(f"{gap:.2g} (α={alpha:g})" for alpha, gap in wrong.items()),
            max(wrong.values()) >= 0.05 and wrong[_ALPHAS[-1]] > wrong[_ALPHAS[0]],
        )

    @claim("the limit goes from min-L2 to min-L1 as α falls", says="min-L1 as α → 0, min-L2 as α → ∞")
    def goes_from_l2_to_l1(self, uniform: _ByScale) -> Finding:
        X, y = examples(uniform[_ALPHAS[0]])
        l1, l2 = np.abs(af.theory.min_l1(X, y)).sum(), np.linalg.norm(af.theory.min_l2(X, y))
        ends = [run.params["plus"] ** 2 - run.params["minus"] ** 2 for run in uniform.values()]
        excess_l1 = [np.abs(end).sum() / l1 - 1 for end in ends]
        excess_l2 = [np.linalg.norm(end) / l2 - 1 for end in ends]
        return Finding(
            f"excess L1 norm {excess_l1[0]:.1g} at α={_ALPHAS[0]:g} to {excess_l1[-1]:.2g} at "
            f"α={_ALPHAS[-1]:g}; excess L2 norm {excess_l2[0]:.2g} to {excess_l2[-1]:.1g}",
            bool(np.all(np.diff(excess_l1) > 0) and np.all(np.diff(excess_l2) < 0) and excess_l2[-1] < 1e-3),
        )


def _flow(task: af.tasks.Task, alpha: float, shape: tuple[float, ...] | None) -> af.Experiment:
    return af.Experiment(
        task=task,
        model=af.models.DiagonalNet(depth=2),
        # Large α makes the flow fast (its rates grow like α²); small α leaves coordinates near 0 slow.
        dynamics=af.dynamics.GradientFlow(until=200.0 / max(1.0, alpha) ** 2, rtol=1e-9, atol=1e-12, first=1e-6),
        init=af.inits.Constant(scale=alpha, shape=shape),
        observations=120,
    )


def minimiser(run: af.Run, uniform: bool = False) -> np.ndarray:
    """argmin Q for the data, scale and shape of a run (or for its scale and w₀ = 1)."""
    shape = run.spec["init"]["shape"]
    potential = af.theory.Q(run.spec["init"]["scale"], 1.0 if uniform or shape is None else shape)
    return potential.minimise(*examples(run))


def _ends_at_minimiser(group: _ByScale) -> Finding:
    gaps = {alpha: relative_distance(_end(run), minimiser(run)) for alpha, run in group.items()}
    return Finding(
        "relative distance " + ", ".join(f"{gap:.1g} (α={alpha:g})" for alpha, gap in gaps.items()),
        max(gaps.values()) <= 1e-3,
    )


def _end(run: af.Run) -> np.ndarray:
    return run.curves["weights"][-1].values


def _show_distance(ax: Axes, run: af.Run, style: str, colour: str, label: str) -> None:
    """How far the weights are from argmin Q, over time."""
    curves, limit = run.curves.isel(time=slice(1, None)), minimiser(run)
    distance = np.linalg.norm(curves["weights"].values - limit, axis=1) / np.linalg.norm(limit)
    ax.plot(curves["time"], distance, style, color=colour, label=label)


def _show_end(ax: Axes, run: af.Run, colour: str) -> None:
    """The weights at the end, and argmin Q."""
    limit = minimiser(run)
    order = np.argsort(limit)
    ax.plot(limit[order], color=colour, lw=1.2)
    ax.plot(_end(run)[order], ls="", marker="o", mfc="none", ms=3.5, color=colour)
