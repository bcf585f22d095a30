"""The clock of the theorems: a transition at (1/λ)·log α, sharp as α → ∞."""

from __future__ import annotations

import numpy as np

import afterfit as af
from afterfit.papers import Finding

__all__ = ["clock", "clock_finding", "clock_says"]


def clock(α: float, λ: float) -> float:
    """(1/λ)·log α."""
    return float(np.log(α) / λ)


def clock_says(α: float, λ: float) -> str:
    """What the paper says of the time of a transition."""
    return f"(1/λ)·log α = {clock(α, λ):.3g}, sharp as α → ∞"


def clock_finding(what: str, time: float, predicted: float, run: af.Run) -> Finding:
    """When the test curve of a run is half-way, against (1/λ)·log α: of its order if within a factor of 2."""
    return Finding(
        f"{what} at t={time:.3g}, {time / predicted:.2f} of it; 10–90 % within "
        f"{run.verdict.width_decades or np.nan:.2f} decades",
        0.5 <= time / predicted <= 2,
    )
