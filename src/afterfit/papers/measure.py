"""What entries measure alike: the examples of a run, relative distances, slopes on log-log axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterfit.experiment import Experiment
from afterfit.run import Run

__all__ = ["examples", "log_slope", "relative_distance"]


def examples(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """X and y of a run."""
    data = Experiment.from_dict(run.spec).draw()
    return data.inputs, data.targets


def relative_distance(at: np.ndarray, goal: np.ndarray) -> float:
    """‖at − goal‖/‖goal‖."""
    return float(np.linalg.norm(at - goal) / np.linalg.norm(goal))


def log_slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """The slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
