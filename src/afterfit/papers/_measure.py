"""What entries measure alike: the examples of a run, relative distances, slopes on log-log axes, first steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import afterfit as af

__all__ = ["examples", "first_step", "log_slope", "relative_distance"]


def examples(run: af.Run) -> tuple[np.ndarray, np.ndarray]:
    """X and y of a run."""
    return run.data.inputs, run.data.targets


def relative_distance(at: np.ndarray, goal: np.ndarray) -> float:
    """‖at − goal‖/‖goal‖."""
    return float(np.linalg.norm(at - goal) / np.linalg.norm(goal))


def log_slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """The slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


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
