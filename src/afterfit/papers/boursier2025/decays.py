"""Runs of one setting by their weight decay λ, 0 included, and how what they leave falls with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import Interval, power_law

__all__ = ["LINES", "decayed", "falls", "falls_like", "kept", "label", "like", "tends_to_0"]

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


def kept(run: af.Run, times: Sequence[float] | np.ndarray) -> np.ndarray:
    """All parameters that a run kept at some times, one row a time."""
    import jax

    at = [run.checkpoints.near(float(t)) for t in times]
    return np.stack([np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)]) for params in at])


def falls(values: Sequence[float] | np.ndarray) -> bool:
    """Whether each value is below the one before."""
    return bool(np.all(np.diff(values) < 0))


def like(law: Interval, exponent: float) -> bool:
    """Whether a fitted law has this exponent, and none that differs by a half.

    The next order changes what is measured by at most some 10 % at the largest λ of a fit over three decades, and so
    the exponent by up to 0.02, which scatter does not show: by so much the interval may miss.
    """
    rivals = any(law.holds(exponent + off) for off in (-0.5, 0.5))
    return law.low - 0.02 <= exponent <= law.high + 0.02 and not rivals


def falls_like(decays: Sequence[float], sups: Mapping[str, np.ndarray], exponent: float = 1.0) -> Finding:
    """Whether each row of distances, one a λ, falls like that power of λ."""
    laws = {name: power_law(decays, sup) for name, sup in sups.items()}
    return Finding(
        "exponent of λ " + ", ".join(f"{law} ({name})" for name, law in laws.items()),
        all(like(law, exponent) for law in laws.values()),
    )


def tends_to_0(decays: Sequence[float], sups: Mapping[str, np.ndarray], size: float) -> Finding:
    """Whether distances, one row an interval and one number a λ, fall with λ to a thousandth of ‖w‖ and less.

    They are to be a hundredth of the first, too: over three decades of λ, √λ falls to a thirtieth.
    """
    return Finding(
        f"λ from {decays[0]:g} to {decays[-1]:g}: "
        + "; ".join(", ".join(f"{gap:.2g}" for gap in sup) + f" ({name})" for name, sup in sups.items())
        + f", beside ‖w‖ of {size:.3g}",
        all(falls(sup) and sup[-1] <= min(1e-3 * size, 1e-2 * sup[0]) for sup in sups.values()),
    )
