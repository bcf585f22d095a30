"""Runs of one setting by their weight decay λ, 0 included, and how what they leave falls with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from afterfit.papers import Finding
from afterfit.papers._measure import log_slope

__all__ = ["LINES", "decayed", "falls", "falls_like", "label"]

_Of = TypeVar("_Of")

# One line a λ, from the largest on, told apart in greyscale.
LINES: tuple[dict[str, Any], ...] = (
    {"color": "0.65", "ls": "-"},
    {"color": "0.4", "ls": "--"},
    {"color": "0.0", "ls": "-."},
    {"color": "0.0", "ls": (0, (5, 1.5, 1, 1.5, 1, 1.5))},
)


def decayed(by_decay: Mapping[float, _Of]) -> dict[float, _Of]:
    """Those with weight decay, from the largest λ on: all but the one at λ = 0."""
    return {decay: of for decay, of in by_decay.items() if decay > 0}


def label(decay: float) -> str:
    """λ = 10⁻³ for Matplotlib's mathtext, for a power of ten."""
    return rf"$\lambda=10^{{{np.log10(decay):.0f}}}$"


def falls(values: Sequence[float] | np.ndarray) -> bool:
    """Whether each value is below the one before."""
    return bool(np.all(np.diff(values) < 0))


def falls_like(decays: Sequence[float], sups: Mapping[str, np.ndarray]) -> Finding:
    """Whether the largest distances of each setting, one a λ, fall like λ."""
    slopes = {name: log_slope(decays, sup) for name, sup in sups.items()}
    return Finding(
        "log-log slope " + ", ".join(f"{slope:.3f} ({name})" for name, slope in slopes.items()),
        all(abs(slope - 1) <= 0.05 for slope in slopes.values()),
    )
