"""Runs that differ in the weight decay λ only, and how what they leave falls with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterfit.run import Run

__all__ = ["LINES", "by_decay", "falls", "label"]

# One line a λ, from the largest on, told apart in greyscale.
LINES = (
    {"color": "0.65", "ls": "-"},
    {"color": "0.4", "ls": "--"},
    {"color": "0.0", "ls": "-."},
    {"color": "0.0", "ls": (0, (5, 1.5, 1, 1.5, 1, 1.5))},
)


def by_decay(runs: Mapping[str, Run], setting: str) -> tuple[dict[float, Run], Run]:
    """The runs of a setting with weight decay, by λ, and the one without."""
    group = {run.spec["penalty"]["strength"]: run for name, run in runs.items() if name.startswith(f"{setting} λ")}
    free = group.pop(0.0)
    return group, free


def label(decay: float) -> str:
    """λ = 10⁻³ for Matplotlib's mathtext, for a power of ten."""
    return rf"$\lambda=10^{{{np.log10(decay):.0f}}}$"


def falls(values: Sequence[float] | np.ndarray) -> bool:
    """Whether each value is below the one before."""
    return bool(np.all(np.diff(values) < 0))
