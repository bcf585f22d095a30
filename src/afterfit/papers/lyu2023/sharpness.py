"""The transition at (1/λ)·log α, and how sharp it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.clock import clock
from afterfit.papers.lyu2023.regimes import margin_flow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Sharpness"]

_START, _DECAY = 1e3, 1e-2  # α where λ varies, and λ where α does


class _At(NamedTuple):
    α: float
    λ: float


class Sharpness(Entry):
    paper, name = PAPER, "sharpness"
    title = "The transition is at (1/λ)·log α, and sharper for larger α"
    where = "§3.2, Thms 3.4–3.10"
    about = (
        "A diagonal net with the exponential loss and Gaussian inputs, whose population risk is an angle over π, from "
        "(α, …, α) with α over decades, and with λ over decades at one α. The transition is read off the risk: "
        "half-way between its values in the kernel regime and at the end, and from 10 % to 90 % of the way. The "
        "theorems put it between (1 − c)/λ·log α and (1 + c)/λ·log α for every c > 0, as α → ∞. At finite α it is "
        "later by a constant times 1/λ, which the proof lets depend on λ by (1/L)·log log(1/λ) (Lemma C.5)."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        if scale == "paper":
            n, d, alphas, decays, observations = 60, 200, (1e4, 1e3, 1e2, 1e1), (1e-1, 1e-3, 1e-4, 1e-5), 200
        else:
            n, d, alphas, decays, observations = 30, 100, (1e3, 1e2, 1e1), (1e-1, 1e-3), 80
        grid = [_At(α, _DECAY) for α in alphas] + [_At(_START, λ) for λ in decays]
        return {"flows": {at: _flow(n, d, at, observations) for at in grid}}

    @once
    def rising(self, flows: dict[_At, af.Run]) -> dict[float, Passage]:
        """The transitions at one λ, in the order of α."""
        return {at.α: passage(at, flows[at]) for at in sorted(flows) if at.λ == _DECAY}

    @once
    def falling(self, flows: dict[_At, af.Run]) -> dict[float, Passage]:
        """The transitions from one α, in the order of falling λ."""
        return {at.λ: passage(at, flows[at]) for at in sorted(flows, reverse=True) if at.α == _START}

    @once
    def logs(self, rising: dict[float, Passage]) -> np.ndarray:
        """log α."""
        return np.log(list(rising))

    @once
    def halfway(self, rising: dict[float, Passage]) -> np.ndarray:
        """λt half-way, one number an α."""
        return np.array([p.halfway for p in rising.values()])

    @once
    def width(self, rising: dict[float, Passage]) -> np.ndarray:
        """λ·(the time from 10 % to 90 % of the way), one number an α."""
        return np.array([p.width for p in rising.values()])

    def picture(self, flows: dict[_At, af.Run], rising: dict[float, Passage], falling: dict[float, Passage]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        path, place, width = figure.subplots(1, 3)
        _draw_risks(path, {α: flows[_At(α, _DECAY)] for α in rising})
        _draw_places(place, rising)
        _draw_widths(width, rising, falling)
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "the half-way time is (1/λ)·log α up to a constant: slope 1 in log α",
        says="a sharp transition around (1/λ)·log α",
    )
    def has_slope_one(self, rising: dict[float, Passage], halfway: np.ndarray, logs: np.ndarray) -> Finding:
        slope, constant = np.polyfit(logs, halfway, 1)
        return Finding(
            f"λt half-way {_at_each('α', rising, halfway)}: {slope:.4f}·log α + {constant:.2f}",
            abs(slope - 1) <= 0.02,
        )

    @claim("the half-way time over (1/λ)·log α tends to 1", says="within (1 ± c)/λ·log α for every c > 0")
    def tends_to_one(self, rising: dict[float, Passage], halfway: np.ndarray, logs: np.ndarray) -> Finding:
        ratio, late = halfway / logs, halfway - logs
        return Finding(
            f"{_at_each('α', rising, ratio, '.3f')}; it is late by {late.min():.2f} to {late.max():.2f} times 1/λ at "
            "every α, so that the limit is 1",
            bool(np.all(np.diff(ratio) < 0) and late.max() <= 1.2 * late.min()),
        )

    @claim("the width relative to the half-way time shrinks as α grows", says="sharp as α → ∞")
    def sharpens(self, rising: dict[float, Passage], halfway: np.ndarray, width: np.ndarray) -> Finding:
        relative = width / halfway
        return Finding(f"width/half-way time {_at_each('α', rising, relative)}", bool(np.all(np.diff(relative) < 0)))

    @claim(
        "the width is of order 1/λ, whatever α: the relative one falls like 1/log α",
        says="not in the paper; it follows where only αe^{−λt} matters",
    )
    def has_one_width(self, rising: dict[float, Passage], width: np.ndarray) -> Finding:
        return Finding(f"λ·width {_at_each('α', rising, width)}", width.max() <= 1.25 * width.min())

    @claim(
        "at a fixed α, time is in units of 1/λ, up to ½·log log(1/λ)",
        says="the kernel regime ends at (1/λ)·(log α − (1/L)·log log A + const)",
    )
    def is_slow(self, falling: dict[float, Passage]) -> Finding:
        later = np.array([p.halfway for p in falling.values()]) - np.log(_START)
        expected = 0.5 * np.log(np.log(1 / np.array(list(falling))))
        fall, growth = later[0] - later[-1], expected[-1] - expected[0]
        return Finding(
            f"α={_START:g}: λt − log α half-way is {_at_each('λ', falling, later)}; from first to last it falls by "
            f"{fall:.2f}, ½·log log(1/λ) grows by {growth:.2f}",
            bool(np.all(np.diff(later) < 0) and fall <= 2 * growth),
        )


@dataclasses.dataclass(frozen=True)
class Passage:
    """When the risk has come 10 %, half and 90 % of its way, in units of 1/λ."""

    begin: float
    halfway: float
    end: float

    @property
    def width(self) -> float:
        return self.end - self.begin


def passage(at: _At, run: af.Run) -> Passage:
    """The transition of a run, from its population risk at λt = ½·log α, in the kernel regime, to the last."""
    curves, kernel = run.curves.isel(time=slice(1, None)), 0.5 * np.log(at.α)
    passed, risk = at.λ * curves["time"].values, curves["population_risk"].values
    before, after = np.interp(kernel, passed, risk), risk[-1]
    way = (before - risk) / (before - after)

    def crossing(share: float) -> float:
        k = int(np.flatnonzero((way >= share) & (passed > kernel))[0])
        return float(np.interp(share, way[k - 1 : k + 1], passed[k - 1 : k + 1]))

    return Passage(*(crossing(share) for share in (0.1, 0.5, 0.9)))


def _flow(n: int, d: int, at: _At, observations: int) -> af.Experiment:
    """Well past the transition, with most observations around it."""
    return margin_flow(n, d, at.α, 1.0, observations).set(
        {
            "penalty.strength": at.λ,
            "dynamics.until": float((np.log(at.α) + 10) / at.λ),
            "dynamics.first": 0.05 / at.λ,
        }
    )


def _at_each(knob: str, values: Mapping[float, Passage], found: np.ndarray, digits: str = ".2f") -> str:
    return ", ".join(f"{x:{digits}} ({knob}={value:g})" for x, value in zip(found, values, strict=True))


def _draw_risks(ax: Axes, rising: Mapping[float, af.Run]) -> None:
    """The risk over time, from light to dark as α grows, with (1/λ)·log α."""
    for (α, run), grey in zip(rising.items(), np.linspace(0.7, 0.0, len(rising)), strict=True):
        curves, label = run.curves.isel(time=slice(1, None)), rf"$\alpha=10^{{{np.log10(α):g}}}$"
        ax.plot(curves["time"], curves["population_risk"], color=str(grey), label=label)
        ax.axvline(clock(α, _DECAY), color=str(grey), lw=0.8, ls="--")
    headline = rising[max(rising)]
    ax.plot([], [], "k--", lw=0.8, label=r"$(1/\lambda)\log\alpha$")
    ax.set(ylabel="population risk")
    af.plot.log_time_axes(ax)
    ax.set_xlim(left=0.8 * headline.spec["dynamics"]["first"])
    ax.set_title(rf"$\lambda={_DECAY:g}$", pad=18)  # above the phases
    af.plot.mark_phases(ax, headline.verdict)


def _draw_places(ax: Axes, rising: Mapping[float, Passage]) -> None:
    """When the transition is, against log α."""
    logs, passages = np.log(list(rising)), list(rising.values())
    ax.errorbar(
        logs,
        [p.halfway for p in passages],
        yerr=np.array([(p.halfway - p.begin, p.end - p.halfway) for p in passages]).T,
        fmt="ko",
        mfc="none",
        capsize=3,
        label=r"half-way, 10–90 %",
    )
    ax.plot(logs, logs, "k--", lw=0.8, label=r"$\lambda t=\log\alpha$")
    ax.set(xlabel=r"$\log\alpha$", ylabel=r"$\lambda t$ of the transition", title=rf"$\lambda={_DECAY:g}$")


def _draw_widths(ax: Axes, rising: Mapping[float, Passage], falling: Mapping[float, Passage]) -> None:
    """How wide the transition is, beside a constant width over a time of log α and a constant."""
    logs, passages = np.log(list(rising)), list(rising.values())
    label = r"$\alpha$ varied: width/half-way"
    ax.plot(logs, [p.width / p.halfway for p in passages], "ko", mfc="none", label=label)
    mean, shift = (float(np.mean(x)) for x in ([p.width for p in passages], [p.halfway for p in passages] - logs))
    fine = np.linspace(logs[0], logs[-1], 50)
    label = r"constant width, half-way at $\log\alpha+$const"
    ax.plot(fine, mean / (fine + shift), color="0.5", lw=1.0, label=label)
    others = [p.width / p.halfway for p in falling.values()]
    ax.plot(np.full(len(others), np.log(_START)), others, "k+", label=r"$\lambda$ varied")
    ax.set(xlabel=r"$\log\alpha$", ylabel="width (10–90 %) / half-way time", ylim=(0, None))
