"""Thm 1: the end point of gradient flow on a diagonal net."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control
from afterfit.papers._measure import examples, relative_distance
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.ends import end, minimiser, parameter_flow, start_shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm1"]

_ALPHAS = (0.01, 0.1, 1.0, 10.0)
# Each parameter is followed to 10⁻⁹ of itself. At α = 10 the weights are differences of squares that are 100 times as
# large as they, so that they may be off by some 10⁻⁶.
_EXACT = 1e-5
_ByScale = Mapping[float, "af.Run"]


class Thm1(Entry):
    paper, name = PAPER, "thm1"
    title = "Gradient flow on a diagonal net ends at the minimiser of Q"
    where = "Thm 1, §4"
    about = (
        "The diagonal net w₊² − w₋² is fitted by gradient flow to sparse regression with fewer examples than "
        "dimensions, from w₊ = w₋ = α·w₀. Whatever the scale α and the shape w₀ (no zero entries), the weights end at "
        "the interpolating β that minimises Q_{α,w₀}, which goes from a weighted L2 norm (α → ∞) to the L1 norm "
        "(α → 0). The minimiser is found by a convex solver that knows nothing of the flow, and the flow is that of "
        "the parameters: its integrator knows nothing of Q."
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
        return _fits(runs, -1)

    @control(interpolates, "the same flows half-way, in log time")
    def not_yet(self, runs: Mapping[str, af.Run]) -> Finding:
        return _fits(runs, 60)

    @claim("uniform w₀: the limit is argmin Q_{α,1}", says="equality")
    def ends_at_q(self, uniform: _ByScale) -> Finding:
        return _ends_at(minimiser, uniform)

    @control(ends_at_q, "Q with 2α² in place of α²")
    def not_at_twice_the_scale(self, uniform: _ByScale) -> Finding:
        return _ends_at(lambda run: minimiser(run, alpha=np.sqrt(2) * run.spec["init"]["scale"]), uniform)

    @claim("non-uniform w₀: the limit is argmin Q_{α,w₀}", says="equality")
    def ends_at_shaped_q(self, shaped: _ByScale) -> Finding:
        return _ends_at(minimiser, shaped)

    @control(ends_at_shaped_q, "Q weighted by |w₀| in place of w₀²")
    def not_at_the_root_of_the_shape(self, shaped: _ByScale) -> Finding:
        return _ends_at(lambda run: minimiser(run, w0=np.sqrt(start_shape(run))), shaped)

    @claim(
        "the shape matters: with non-uniform w₀ the limit is not argmin Q_{α,1}",
        says="w₀ changes the weights of the limit norm for α → ∞ and not the L1 limit for α → 0",
    )
    def shape_matters(self, shaped: _ByScale) -> Finding:
        wrong = {alpha: relative_distance(end(run), minimiser(run, w0=1.0)) for alpha, run in shaped.items()}
        return Finding(
            "distance to argmin Q_{α,1}: " + ", ".join(f"{gap:.2g} (α={alpha:g})" for alpha, gap in wrong.items()),
            min(wrong.values()) >= 100 * _EXACT and wrong[_ALPHAS[-1]] > 2 * wrong[_ALPHAS[0]],
        )

    @control(shape_matters, "uniform w₀")
    def no_shape_no_matter(self, uniform: _ByScale) -> Finding:
        return self.shape_matters(uniform)

    @claim("the limit goes from min-L2 to min-L1 as α falls", says="min-L1 as α → 0, min-L2 as α → ∞")
    def goes_from_l2_to_l1(self, uniform: _ByScale) -> Finding:
        """Down to α = 0.01 by flows, and at 10⁻¹⁰⁰, which no flow reaches, by the argmin Q at which they end."""
        X, y = examples(uniform[_ALPHAS[0]])
        l1, l2 = np.abs(af.theory.min_l1(X, y)).sum(), np.linalg.norm(af.theory.min_l2(X, y))
        ends = [minimiser(uniform[_ALPHAS[0]], alpha=1e-100), *map(end, uniform.values())]
        excess_l1 = [np.abs(beta).sum() / l1 - 1 for beta in ends]
        excess_l2 = [np.linalg.norm(beta) / l2 - 1 for beta in ends]
        return Finding(
            f"excess L1 norm {excess_l1[0]:.1g} (argmin Q at α=1e-100), {excess_l1[1]:.1g} (flow, α={_ALPHAS[0]:g}) "
            f"to {excess_l1[-1]:.2g} (α={_ALPHAS[-1]:g}); excess L2 norm {excess_l2[0]:.2g} to {excess_l2[-1]:.1g}",
            bool(np.all(np.diff(excess_l1) > 0) and np.all(np.diff(excess_l2) < 0))
            and max(excess_l1[0], excess_l2[-1]) <= 1e-3,
        )

    @control(goes_from_l2_to_l1, "non-uniform w₀, from which the flow goes to another L2 norm")
    def not_to_this_l2(self, shaped: _ByScale) -> Finding:
        return self.goes_from_l2_to_l1(shaped)


def _flow(task: af.tasks.Task, alpha: float, shape: tuple[float, ...] | None) -> af.Experiment:
    return af.Experiment(
        task=task,
        model=af.models.DiagonalNet(depth=2),
        dynamics=parameter_flow(200.0, alpha, first=1e-6),
        init=af.inits.Constant(scale=alpha, shape=shape),
        observations=120,
    )


def _fits(runs: Mapping[str, af.Run], at: int) -> Finding:
    """Whether Xβ = y at an observation of each run."""
    residual = max(float(run.curves["train_error"][at]) for run in runs.values())
    return Finding(f"largest ‖Xβ − y‖/‖y‖ of {len(runs)} runs: {residual:.1g}", residual <= _EXACT)


def _ends_at(limit: Callable[[af.Run], np.ndarray], group: _ByScale) -> Finding:
    gaps = {alpha: relative_distance(end(run), limit(run)) for alpha, run in group.items()}
    return Finding(
        "relative distance " + ", ".join(f"{gap:.1g} (α={alpha:g})" for alpha, gap in gaps.items()),
        max(gaps.values()) <= _EXACT,
    )


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
    ax.plot(end(run)[order], ls="", marker="o", mfc="none", ms=3.5, color=colour)
