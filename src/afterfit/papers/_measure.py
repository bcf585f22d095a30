"""What entries measure alike: what a run was given and recorded, distances, laws and shares with intervals, slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import afterfit as af

__all__ = [
    "Interval",
    "at",
    "examples",
    "first_step",
    "log_slope",
    "mean_of",
    "power_law",
    "relative_distance",
    "share",
    "slope_variation",
]


class Interval(NamedTuple):
    """A number, and where it lies at 95 % confidence; `3.1 in [2.9, 3.3]`."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} in [{self.low:.3g}, {self.high:.3g}]"

    def holds(self, number: float) -> bool:
        """Whether the number is one of those that the interval leaves possible."""
        return self.low <= number <= self.high


def examples(run: af.Run) -> tuple[np.ndarray, np.ndarray]:
    """X and y of a run."""
    return run.data.inputs, run.data.targets


def at(run: af.Run, name: str, time: float) -> np.ndarray:
    """What a run recorded at the observation nearest to a time, or at the last one, for a time of inf."""
    curve = run.curves[name]
    return curve.values[-1] if time == np.inf else curve.sel(time=time, method="nearest").values


def relative_distance(at: np.ndarray, goal: np.ndarray) -> float:
    """‖at − goal‖/‖goal‖."""
    return float(np.linalg.norm(at - goal) / np.linalg.norm(goal))


def log_slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """The slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def power_law(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Interval:
    """The exponent p of y = C·xᵖ by least squares of log y on log x, with Student's interval from their scatter.

    At least three points; those of several seeds may be given one after the other.
    """
    from scipy.stats import t

    log_x, log_y = np.log(x), np.log(y)
    slope, start = np.polyfit(log_x, log_y, 1)
    variance = np.sum((log_y - start - slope * log_x) ** 2) / (len(log_x) - 2)
    half = float(t.ppf(0.975, len(log_x) - 2) * np.sqrt(variance / np.sum((log_x - log_x.mean()) ** 2)))
    return Interval(float(slope), float(slope) - half, float(slope) + half)


def mean_of(values: Sequence[float] | np.ndarray) -> Interval:
    """The mean of draws, with Student's interval."""
    from scipy.stats import t

    mean, half = np.mean(values), t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return Interval(float(mean), float(mean - half), float(mean + half))


def share(hits: int, of: int) -> Interval:
    """A share of random draws, with the exact interval of Clopper and Pearson."""
    from scipy.stats import binomtest

    low, high = binomtest(hits, of).proportion_ci(0.95, method="exact")
    return Interval(hits / of, float(low), float(high))


def first_step(steps: np.ndarray, values: np.ndarray, level: float) -> float:
    """The step at which a falling curve is first at `level` or below, inf if never.

    `steps` are those observed; between them the curve is taken for a straight line on log-log axes.
    """
    (below,) = np.nonzero(values <= level)
    if not len(below):
        return float("inf")
    k = int(below[0])
    if k == 0 or steps[k - 1] == 0:
        return float(steps[k])
    share = np.log(values[k - 1] / level) / np.log(values[k - 1] / values[k])
    return float(steps[k - 1] * (steps[k] / steps[k - 1]) ** share)


def slope_variation(x: np.ndarray, f: np.ndarray) -> float:
    """∫|f''| of the piecewise linear function with values f at the rising places x: the sum of its changes of slope."""
    return float(np.sum(np.abs(np.diff(np.diff(f) / np.diff(x)))))
