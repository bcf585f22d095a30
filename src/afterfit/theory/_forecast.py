"""What theory says of a run before it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from afterfit._base import html
from afterfit._base.turns import computing
from afterfit._diagnose import Verdict, diagnose
from afterfit._training.experiment import Experiment
from afterfit.theory._answers import answer
from afterfit.theory._instance import Instance, posed
from afterfit.theory._routes import Route

__all__ = ["Forecast", "forecast"]


@dataclasses.dataclass(frozen=True, repr=False)
class Forecast:
    """What theory foresees of a run, and by which theory.

    `verdict` is the diagnosis of the foreseen curves (`time`, `train`, `test`), under the task's own thresholds; None
    where no theory speaks, and `by` then says why each does not. `caveats` are what the theory takes for granted.
    `cost` says what finding it takes, and `steps` how many steps of training were made for it: of a limiting flow,
    never of the run itself.
    """

    by: str
    time: np.ndarray
    train: np.ndarray
    test: np.ndarray
    verdict: Verdict | None
    caveats: tuple[str, ...] = ()
    cost: str = ""
    steps: int = 0

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
        steps = f" It took {self.steps} steps of that flow." if self.steps else ""
        return f"{self.verdict}; by {self.by}.{caveats}{steps}"

    def __repr__(self) -> str:
        return f"<Forecast: {self.verdict or 'no theory speaks of this experiment'}>"

    def _repr_html_(self) -> str:
        if self.verdict is None:
            return f"<p>{html.escape(self)}</p>"
        rows = [
            ("verdict", self.verdict),
            ("by", self.by),
            *(("but", caveat) for caveat in self.caveats),
            ("cost", f"{self.cost} (here {self.steps})" if self.steps else self.cost),
        ]
        return html.table(("", "foreseen"), rows, "Forecast")


def forecast(experiment: Experiment | Mapping[str, Any]) -> Forecast:
    """Foresee the run of an experiment from theory: t_fit, t_gen and the verdict, without a step of the run itself.

    Data and initial parameters are drawn (they are part of the experiment), and the theorem's limit is computed on
    them: by a closed form, a convex program or, for a model that no other route knows, by training that limit, up to
    20,000 steps of it. `cost` and `steps` say what was done. Where no theory speaks, the forecast says so.

    ```python
    print(af.forecast(experiment))  # Grokking: fitted at t=0.01, generalised at t=2.9e3, …; by argmin Q at …
    ```
    """
    return forecast_of(posed(experiment))


def forecast_of(instance: Instance) -> Forecast:
    """The same of a problem that is posed already."""
    reasons = []
    with computing():
        for route in Route.in_turn():
            found = answer(route, instance, lambda route=route: route(instance, _times(instance)))
            if isinstance(found, Route):
                return _forecast(found, instance)
            reasons.append(f"{route.name}: {found}")
    none = np.empty(0)
    return Forecast("no theory here speaks of it. " + "; ".join(reasons) + ".", none, none, none, None)


def _forecast(route: Route, instance: Instance) -> Forecast:
    times, curves = route.times, route.curves
    verdict = diagnose(times, curves.train, curves.test, instance.task.criteria)
    by = f"{route.name} ({route.source})"
    return Forecast(by, times, curves.train, curves.test, verdict, curves.caveats, route.cost, curves.steps)


def _times(instance: Instance) -> np.ndarray:
    """The times at which the run would be observed."""
    dynamics, _ = instance.experiment.dynamics.resolve(instance.problem, instance.initial)
    targets = np.asarray(dynamics.targets(instance.experiment.observations), dtype=float)  # steps, or times
    return targets * (dynamics.step_size or 1.0)
