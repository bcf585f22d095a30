"""Accuracies as fractions or in percent: told from all values of a curve, or refused where they do not tell."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from afterfit._base.errors import SpecError, require
from afterfit._diagnose.thresholds import Threshold
from afterfit._diagnose.words import number

__all__ = ["check_thresholds", "finite", "scale_of", "within"]

_ROUNDING = 1e-3  # 1.0000001 is a fraction, 100.00001 is in percent
_SURELY = 2.0  # no fraction gets here, with noise and all
_LEAP = 20.0  # from one observation to the next, the factor that takes fractions to percent
_VARIETY = 3.0  # fractions vary by more than this; an accuracy in percent that is below 1 is at chance
_HUNDREDTH = 1.25  # within this factor of a hundredth of the last value, the next may be that in fractions


def finite(curve: NDArray) -> NDArray:
    return curve[np.isfinite(curve)]


def within(values: NDArray, ceiling: float) -> bool:
    """Whether values can be accuracies of which `ceiling` is the best."""
    return bool(values.min() >= -_ROUNDING and values.max() <= ceiling * (1 + _ROUNDING))


def scale_of(values: NDArray) -> float | None:
    """1 for fractions, 100 for percent, None for what may be either: nothing, or little more than 1."""
    if values.size == 0 or values.max() <= 0:
        return None
    if values.max() > _SURELY:
        return 100.0
    return 1.0 if values.max() <= 1 + _ROUNDING else None


def check_thresholds(curves: dict[str, tuple[NDArray, Threshold]]) -> None:
    """Refuse thresholds that cannot be met, and accuracies that are not on their scale, or on two scales at once."""
    for name, (_, threshold) in curves.items():
        low, high = (0, math.inf) if threshold.like == "error" else (0, 100)
        require(
            low <= threshold.value <= high,
            f"the {name} threshold of an error must not be negative, that of an accuracy lies between 0 and 1, or 0 "
            f"and 100 in percent; got {threshold.value!r}.",
        )
    accuracies = {name: (finite(values), t) for name, (values, t) in curves.items() if t.like == "accuracy"}
    percent = any(scale_of(values) == 100 for values, _ in accuracies.values())
    for name, (values, threshold) in accuracies.items():
        _refuse_mixture(name, values)
        said = f"the {name} threshold is {number(threshold.value)}, but the {name} accuracies go up to"
        if threshold.ceiling == 1:
            require(
                scale_of(values) != 100,
                f"{said} {number(values.max(initial=0.0))}: they are in percent. "
                f"Give a threshold in percent too, such as {number(100 * threshold.value)}.",
            )
        else:  # alone, values up to 1 are fractions; beside a curve in percent they may be at chance
            require(
                percent or scale_of(values) != 1,
                f"{said} {number(values.max(initial=0.0))}: they are fractions. "
                f"Give a threshold that is a fraction too, such as {number(threshold.value / 100)}.",
            )


def _refuse_mixture(name: str, values: NDArray) -> None:
    """Refuse a curve that goes over from fractions to percent, or to and fro between them."""
    small = (values > 0) & (values <= 1 + _ROUNDING)
    if not small.any() or scale_of(values) != 100:
        return
    one, other = values[:-1], values[1:]
    low = values <= 1 + _ROUNDING
    switch = low[:-1] & ~low[1:] & (np.cumsum(~low)[:-1] == 0) & (np.cumsum(low)[-1] == np.cumsum(low)[:-1])
    up = switch & (other >= _LEAP * one) & (np.ptp(np.log(values[small])) > np.log(_VARIETY))
    down = small[1:] & ~low[:-1] & (one < _HUNDREDTH * 100 * other) & (one > 100 * other / _HUNDREDTH)
    leaps = np.flatnonzero(up | (down if down.sum() > 1 else False))  # down once may be a collapse
    if leaps.size:
        a, b = (number(float(side[leaps[0]])) for side in (one, other))
        raise SpecError(
            f"the {name} accuracies go from {a} to {b} between two observations: fractions and percent in one "
            "column. Bring them to one scale."
        )
