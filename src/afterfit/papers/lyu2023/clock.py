"""The clock of the theorems: a transition at (1/λ)·log α, sharp as α → ∞."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from afterfit.papers import Finding
from afterfit.papers._measure import Interval, power_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["clock", "clock_law", "clock_says", "draw_growth", "growth", "near_growth", "rival_laws"]

# Laws are held against their nearest rivals. λt = b·log α + const: b = ½, for half the degree, would be the nearest,
# so the whole interval of b has to be within ¼ of 1. t ∝ λ^q: the corrections of the theorems, of order
# (1/λ)·log log A with log A near 15 here, change q by 1/(2·15·λt), at most 0.02; so all of q's interval within 0.1.
_SLOPE, _POWER = 0.25, 0.1


def clock(α: float, λ: float) -> float:
    """(1/λ)·log α."""
    return float(np.log(α) / λ)


def clock_says(α: float, λ: float) -> str:
    """What the paper says of the time of a transition."""
    return f"(1/λ)·log α = {clock(α, λ):.3g}, sharp as α → ∞"


def growth(turns: Mapping[float, float]) -> Interval:
    """b of the law λt = b·log α + const, from λt by α: e^{λt} is a power of α."""
    return power_law(list(turns), np.exp(list(turns.values())))


def near_growth(b: Interval, slope: float = 1.0) -> bool:
    """Whether all that the interval leaves possible is nearer to this slope than to half of 1 or to none."""
    return slope - _SLOPE <= b.low <= b.high <= slope + _SLOPE


def clock_law(starts: Mapping[float, float], decays: Mapping[float, float]) -> Finding:
    """The times of transitions, λt by α and t by λ, against t = (1/λ)·(log α + const)."""
    b, q = _fitted(starts, decays)
    return Finding(
        f"λt = b·log α + const with b = {b}, α from {min(starts):g} to {max(starts):g}; t ∝ λ^q with q = {q}, λ from "
        f"{min(decays):g} to {max(decays):g}",
        near_growth(b) and _near_power(q),
    )


def rival_laws(starts: Mapping[float, float], decays: Mapping[float, float]) -> Finding:
    """The same against its rivals: 1/λ whatever α, b = ½, and log α whatever λ. Holds if one of them does."""
    b, q = _fitted(starts, decays)
    return Finding(
        "b would be 0, b would be ½, q would be 0",
        (near_growth(b, 0) and _near_power(q))
        or (near_growth(b, 0.5) and _near_power(q))
        or (near_growth(b) and _near_power(q, 0)),
    )


def draw_growth(ax: Axes, turns: Mapping[float, float], label: str) -> None:
    """λt of transitions against α, beside log α plus the constant that suits it best."""
    alphas, found = np.array(list(turns)), np.array(list(turns.values()))
    late = float(np.mean(found - np.log(alphas)))
    ax.plot(alphas, found, "ko", mfc="none", label=label)
    ax.plot(alphas, np.log(alphas) + late, color="0.6", lw=1, label=r"$\lambda t=\log\alpha+$const")
    ax.set(xscale="log", xlabel=r"scale $\alpha$ of the start", ylabel=r"$\lambda t$ of the transition", ylim=(0, None))
    ax.set_xticks(alphas, [f"{α:g}" for α in alphas])
    ax.set_xticks([], minor=True)


def _fitted(starts: Mapping[float, float], decays: Mapping[float, float]) -> tuple[Interval, Interval]:
    """b and q."""
    return growth(starts), power_law(list(decays), list(decays.values()))


def _near_power(q: Interval, power: float = -1.0) -> bool:
    return power - _POWER <= q.low <= q.high <= power + _POWER
