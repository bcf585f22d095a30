"""The clock of the theorems: a transition at (1/λ)·log α, sharp as α → ∞."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import Interval, first_step, power_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "clock",
    "clock_law",
    "clock_says",
    "draw_growth",
    "growth",
    "halved_growth",
    "near_growth",
    "norm_halved",
    "without_decay",
]

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


def near_growth(b: Interval) -> bool:
    """Whether all that the interval leaves possible is nearer to 1 than to ½."""
    return 1 - _SLOPE <= b.low <= b.high <= 1 + _SLOPE


def clock_law(starts: Mapping[float, float], decays: Mapping[float, float]) -> Finding:
    """The times of transitions, λt by α and t by λ, against t = (1/λ)·(log α + const)."""
    b, q = growth(starts), power_law(list(decays), list(decays.values()))
    return Finding(
        f"λt = b·log α + const with b = {b}, α from {min(starts):g} to {max(starts):g}; t ∝ λ^q with q = {q}, λ from "
        f"{min(decays):g} to {max(decays):g}",
        near_growth(b) and -1 - _POWER <= q.low <= q.high <= -1 + _POWER,
    )


def halved_growth(turns: Mapping[float, float]) -> dict[float, float]:
    """λt by α as for (1/λ)·log √α: half of its growth is taken away, and the scatter stays."""
    b = growth(turns).value
    return {α: turn - b / 2 * float(np.log(α)) for α, turn in turns.items()}


def without_decay(decays: Mapping[float, float]) -> dict[float, float]:
    """t by λ as for c·log α whatever λ: its power of λ is taken away, and the scatter stays."""
    q = power_law(list(decays), list(decays.values())).value
    return {λ: t * (λ / max(decays)) ** -q for λ, t in decays.items()}


def norm_halved(run: af.Run) -> float:
    """When the norm of the parameters is half of the initial one: a time of order 1/λ whatever α."""
    norms = run.curves["norm_l2"].values
    return first_step(run.curves["time"].values, norms, norms[0] / 2)


def draw_growth(ax: Axes, turns: Mapping[float, float], label: str) -> None:
    """λt of transitions against α, beside log α plus the constant that suits it best."""
    alphas, found = np.array(list(turns)), np.array(list(turns.values()))
    late = float(np.mean(found - np.log(alphas)))
    ax.plot(alphas, found, "ko", mfc="none", label=label)
    ax.plot(alphas, np.log(alphas) + late, color="0.6", lw=1, label=r"$\lambda t=\log\alpha+$const")
    ax.set(xscale="log", xlabel=r"scale $\alpha$ of the start", ylabel=r"$\lambda t$ of the transition", ylim=(0, None))
    ax.set_xticks(alphas, [f"{α:g}" for α in alphas])
    ax.set_xticks([], minor=True)
