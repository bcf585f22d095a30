"""What theory says of a run before it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from afterfit.diagnose import Verdict, diagnose
from afterfit.dynamics import Discrete
from afterfit.experiment import Experiment
from afterfit.theory.instance import Instance, posed
from afterfit.theory.routes import ROUTES, Unanswered
from afterfit.turns import computing

__all__ = ["Forecast", "forecast"]


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What theory foresees of a run, and by which theory.

    `verdict` is the diagnosis of the foreseen curves (`time`, `train`, `test`), under the task's own thresholds; None
    where no theory speaks, and `by` then says why each does not. `caveats` are what the theory takes for granted.
    """

    by: str
    time: np.ndarray
    train: np.ndarray
    test: np.ndarray
    verdict: Verdict | None
    caveats: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether any theory speaks to this experiment."""
        return self.verdict is not None

    @property
    def t_fit(self) -> float | None:
        """When the data will be fitted; None if never, or if no theory says."""
        return self.verdict.t_fit if self.verdict else None

    @property
    def t_gen(self) -> float | None:
        """When the run will generalise; None if never, or if no theory says."""
        return self.verdict.t_gen if self.verdict else None

    def __str__(self) -> str:
        if self.verdict is None:
            return f"No forecast: {self.by}"
        caveats = "".join(f" But {caveat}." for caveat in self.caveats)
        return f"{self.verdict}; by {self.by}.{caveats}"


def forecast(experiment: Experiment | Mapping[str, Any]) -> Forecast:
    """Foresee the run of an experiment from theory alone: t_fit, t_gen and the verdict, without a training step.

    Data and initial parameters are drawn (they are part of the experiment), and the theorem's limit is computed on
    them. Where no theory speaks, the forecast says so.

    ```python
    af.forecast(experiment)  # Grokking: fitted at t=0.01, generalised at t=2.9e3, …; by argmin Q at …
    ```
    """
    instance = posed(experiment)
    with computing():
        reasons = []
        for route in ROUTES:
            obstacle = route.obstacle(instance)
            if obstacle is None:
                times = _times(instance)
                try:
                    found = route.curves(instance, times)
                except Unanswered as error:
                    obstacle = str(error)
                else:
                    verdict = diagnose(times, found.train, found.test, instance.task.criteria)
                    return Forecast(route.by, times, found.train, found.test, verdict, found.caveats)
            reasons.append(f"{route.by.split(' (')[0]}: {obstacle}")
    none = np.empty(0)
    return Forecast("no theory here speaks of it. " + "; ".join(reasons) + ".", none, none, none, None)


def _times(instance: Instance) -> np.ndarray:
    """The times at which the run would be observed."""
    dynamics, _ = instance.experiment.dynamics.resolve(instance.problem, instance.initial)
    targets = np.asarray(dynamics.targets(instance.experiment.observations), dtype=float)
    return targets * dynamics.lr if isinstance(dynamics, Discrete) else targets
