"""Numbers and times in words."""

from __future__ import annotations

import math

import numpy as np

_TOP = float(np.log10(np.finfo(float).max))


def power_of_ten(tau: float) -> float:
    """10^τ, inf where that has no float."""
    return float(10.0**tau) if tau < _TOP else math.inf


def difference(late: float, early: float) -> float:
    """10^late − 10^early; ±inf where that has no float."""
    if max(late, early) < _TOP:
        return power_of_ten(late) - power_of_ten(early)
    return math.copysign(math.inf, late - early) if late != early else 0.0


def number(x: float) -> str:
    """A number as one writes it: 0.01, 42, 3.0e5."""
    if x == 0 or not math.isfinite(x) or 1e-2 <= abs(x) < 999.5:
        return f"{x:.3g}"
    mantissa, exponent = f"{x:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def at(tau: float) -> str:
    """The time 10^τ in words, by its logarithm where it has no float."""
    return f"t={number(power_of_ten(tau))}" if abs(tau) < _TOP else f"t=10^{tau:.6g}"


def times(decades: float) -> str:
    """The factor 10^decades in words."""
    return f"x{number(power_of_ten(decades))}" if abs(decades) < _TOP else f"x10^{decades:.6g}"
