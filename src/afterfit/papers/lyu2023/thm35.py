"""Thm 3.5 and Cor. 3.7: soon after (1/λ)·log α a diagonal net is the classifier of largest L1 margin."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, once
from afterfit.papers._measure import log_slope
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import (
    STYLES,
    At,
    Regime,
    by_c,
    end_slopes,
    falls,
    first_to_last,
    margin_flows,
    mark_shares,
    weights_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm35"]

_SHARES = (1.25, 1.5, 1.9)  # 1 + c


class Thm35(Regime):
    paper, name = PAPER, "thm3.5"
    title = "Soon after (1/λ)·log α a diagonal net is the classifier of largest L1 margin"
    where = "Thm 3.5, Cor. 3.7, App. C.3"
    about = (
        "The flows of Thm 3.4, with λ = α⁻², stopped at t = (1 + c)/λ·log α. The theorem says of some t between "
        "(1/λ)·log α and that time that θ/‖θ‖ tends to the direction of a KKT point of min ‖θ‖² subject to yᵢfᵢ(θ) ≥ 1 "
        "(R1); it is checked at the last t allowed. The KKT residual is min over ν ≥ 0 of ‖θ − Σνᵢyᵢ∇fᵢ(θ)‖/‖θ‖, the "
        "slack the share of ν off the smallest margin. The KKT point is not proved to be global; here it is the "
        "classifier of largest L1 margin. Two errors are left: what remains of the start, αe^{−λt} = α^{−c}, and "
        "uneven margins, of order 1/log(1/λ), so that the direction is reached slowly."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        return {"flows": margin_flows(scale, _SHARES, power=2)}

    @once
    def directions(self, headline: af.Run) -> _Directions:
        X, y = headline.data.inputs, headline.data.targets
        return _Directions(*(_unit(program(X, y)) for program in (af.theory.max_l1_margin, af.theory.max_l2_margin)))

    @once
    def ends(self, groups: dict[float, list[af.Run]], directions: _Directions) -> dict[float, list[_End]]:
        """Where the runs ended, by c and in the order of α."""
        return {c: [_end(run, directions) for run in group] for c, group in groups.items()}

    def picture(
        self, headline: af.Run, directions: _Directions, ends: dict[float, list[_End]], alphas: list[float]
    ) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        path, stationary, margin = figure.subplots(1, 3)
        _draw_path(path, headline, directions)
        for (c, group), style in zip(ends.items(), STYLES, strict=True):
            stationary.loglog(alphas, [end.kkt.residual for end in group], **style, label=f"residual, c = {c:g}")
            stationary.loglog(alphas, [end.kkt.slack for end in group], **style, ls=":", label=f"slack, c = {c:g}")
            margin.loglog(alphas, [1 - end.margin for end in group], **style, label=f"margin, c = {c:g}")
            margin.loglog(alphas, [end.off_l1 for end in group], **style, ls=":", label=f"direction, c = {c:g}")
        stationary.set(ylabel="KKT residual and slack of R1")
        margin.set(ylabel=r"1 − $L^1$ margin/largest, and distance of $w/\|w\|_2$")
        for ax in (stationary, margin):
            ax.set(xlabel=r"scale $\alpha$ of the start", title=r"at $t=(1+c)/\lambda\cdot\log\alpha$")
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "θ/‖θ‖ tends to a KKT point of R1: the residual goes to 0",
        says="for every c > 0 and some t up to (1 + c)/λ·log α, as α → ∞",
    )
    def tends_to_kkt(self, ends: dict[float, list[_End]], alphas: list[float], reached: str) -> Finding:
        residual = by_c(ends, lambda end: end.kkt.residual)
        return Finding(
            f"{reached}: {falls(alphas, residual)}",
            all(np.all(np.diff(r) < 0) and log_slope(alphas[-2:], r[-2:]) < -0.1 for r in residual.values()),
        )

    @claim(
        "the multipliers move onto the smallest margins: the slack goes to 0",
        says="ν is 0 off the smallest margin at a KKT point; ν̄ᵢ/ν̄ⱼ = exp(−‖θ‖^L·(qᵢ − qⱼ))",
    )
    def slack_goes(self, ends: dict[float, list[_End]], alphas: list[float]) -> Finding:
        # Multipliers mean something near a KKT point only.
        slack = {c: [end.kkt.slack for end in group if end.kkt.residual < 0.5] for c, group in ends.items()}
        products = by_c(ends, lambda end: end.kkt.slack * np.log(1 / end.decay))
        return Finding(
            f"from a residual of 0.5 on, up to α={alphas[-1]:g}: {first_to_last(slack)}; times log(1/λ) at most "
            f"{max(map(max, products.values())):.2g}",
            all(len(s) >= 2 and np.all(np.diff(s) < 0) for s in slack.values()),
        )

    @claim(
        "the loss itself has the gradient that the proof needs: ‖∇𝓛_λ‖ = O(λ·(log 1/λ)^{−(1/2 − 1/L)})",
        says="O(λ) for L = 2, at some t up to (1 + c)/λ·log α: (21)",
    )
    def gradient_is_small(self, ends: dict[float, list[_End]], reached: str) -> Finding:
        gradient = by_c(ends, lambda end: end.gradient / end.decay)
        return Finding(
            f"‖∇𝓛_λ‖/λ at the last t, {reached}: {first_to_last(gradient)}",
            all(g[-1] <= g[0] for g in gradient.values()),
        )

    @claim("‖θ‖ = Θ((log 1/λ)^{1/L}) (Lemma C.11)", says="of the order √(log 1/λ) for L = 2")
    def norm_grows(self, ends: dict[float, list[_End]], reached: str) -> Finding:
        sizes = by_c(ends, lambda end: end.norm / np.sqrt(np.log(1 / end.decay)))
        changed = max(abs(s[-1] / s[-2] - 1) for s in sizes.values())
        return Finding(
            f"‖θ‖/√(log 1/λ) {reached}: {first_to_last(sizes, '.2f')}, changed by at most {changed:.0%} between the "
            "last two α",
            changed <= 0.1,
        )

    @claim("the L1 margin tends to the largest", says="if the KKT point is global, it is the largest L1 margin")
    def margin_grows(self, ends: dict[float, list[_End]], reached: str) -> Finding:
        margin = by_c(ends, lambda end: end.margin)
        short = by_c(ends, lambda end: (1 - end.margin) * np.log(1 / end.decay))
        return Finding(
            f"share of it, {reached}: {first_to_last(margin, '.3f')}; what is missing times log(1/λ): at most "
            f"{max(map(max, short.values())):.2g}",
            all(np.all(np.diff(m) > 0) for m in margin.values())
            and all(s[-1] <= 1.1 * max(s[:-1]) for s in short.values()),
        )

    @claim(
        "w/‖w‖ tends to the direction of largest L1 margin, and leaves that of largest L2 margin",
        says="a transition from the largest L2 to the largest L1 margin",
    )
    def direction_turns(self, ends: dict[float, list[_End]], directions: _Directions, reached: str) -> Finding:
        off = by_c(ends, lambda end: end.off_l1)
        left = min(group[-1].off_l2 for group in ends.values())
        away = float(np.linalg.norm(directions.l1 - directions.l2))
        return Finding(
            f"distance {reached}: {first_to_last(off)}; from the L2 direction {left:.2g} or more at the last α; the "
            f"two are {away:.2g} apart",
            all(np.all(np.diff(o) < 0) and o[-1] < 0.5 * away for o in off.values()),
        )


@dataclasses.dataclass(frozen=True)
class _Directions:
    """The directions of largest L1 and L2 margin."""

    l1: np.ndarray
    l2: np.ndarray


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of a run, at t = (1 + c)/λ·log α, with what the theorem compares it to."""

    decay: float
    kkt: af.theory.Stationarity
    gradient: float  # ‖∇𝓛_λ‖
    norm: float  # ‖θ‖
    margin: float  # the L1 margin, as a share of the largest
    off_l1: float  # distances of w/‖w‖ from the direction of largest L1 margin
    off_l2: float  # and L2 margin


def _end(run: af.Run, directions: _Directions) -> _End:
    stationarity, gradient = end_slopes(run)
    w = weights_of(run)
    return _End(
        decay=run.spec["penalty"]["strength"],
        kkt=stationarity,
        gradient=gradient,
        norm=float(run.curves["norm_l2"][-1]),
        margin=_l1_margin(w, run) / _l1_margin(directions.l1, run),
        off_l1=float(np.linalg.norm(_unit(w) - directions.l1)),
        off_l2=float(np.linalg.norm(_unit(w) - directions.l2)),
    )


def _l1_margin(w: np.ndarray, run: af.Run) -> float:
    return float(np.min(run.data.targets * (run.data.inputs @ w)) / np.abs(w).sum())


def _unit(w: np.ndarray) -> np.ndarray:
    return w / np.linalg.norm(w)


def _draw_path(ax: Axes, run: af.Run, directions: _Directions) -> None:
    """The distance of w/‖w‖ from both directions over time."""
    curves = run.curves.isel(time=slice(1, None))
    units = curves["weights"].values / np.linalg.norm(curves["weights"].values, axis=1)[:, None]
    for goal, style, norm in ((directions.l1, af.plot.TEST, "L^1"), (directions.l2, af.plot.TRAIN, "L^2")):
        away = np.linalg.norm(units - goal, axis=1)
        ax.plot(curves["time"], away, **style, label=f"from the largest ${norm}$ margin")
    mark_shares(ax, run, (1.0, *_SHARES))
    decade = np.log10(run.spec["init"]["scale"])
    ax.set(yscale="log", ylabel=rf"distance of $w/\|w\|_2$, $\alpha=10^{{{decade:g}}}$")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)
