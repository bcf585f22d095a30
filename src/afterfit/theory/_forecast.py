"""What theory says of a run before it is made."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from afterfit._base import html
from afterfit._base.allowance import within
from afterfit._base.machine import blas_on_one_thread
from afterfit._base.progress import progress_bar
from afterfit._base.turns import interruptible
from afterfit._diagnose import Verdict, diagnose
from afterfit._training.experiment import Experiment
from afterfit._training.size import likely_seconds
from afterfit.theory._answers import answer
from afterfit.theory._instance import Instance, posed
from afterfit.theory._routes import Route

__all__ = ["Forecast", "forecast"]

_LEAST = 2.0  # seconds that a forecast may always take: what a small run takes, with its compiling


@dataclasses.dataclass(frozen=True, repr=False)
class Forecast:
    """What theory foresees of a run, and by which theory.

    `verdict` is the diagnosis of the foreseen curves (`time`, `train`, `test`), under the task's own thresholds; None
    where no theory speaks, and `by` then says why each does not. `caveats` are what the theory takes for granted.
    `cost` says what finding it takes, `seconds` how long it took here, and `steps` how many steps of training were made
    for it: of a limiting flow, never of the run itself.
    """

    by: str
    time: np.ndarray
    train: np.ndarray
    test: np.ndarray
    verdict: Verdict | None
    caveats: tuple[str, ...] = ()
    cost: str = ""
    steps: int = 0
    seconds: float = 0.0

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
            return f"No forecast: {self.by} It took {self.seconds:.2g} s."
        caveats = "".join(f" But {caveat}." for caveat in self.caveats)
        steps = f"{self.steps} steps of that flow, " if self.steps else ""
        return f"{self.verdict}; by {self.by}.{caveats} It took {steps}{self.seconds:.2g} s: {self.cost}."

    def __repr__(self) -> str:
        return f"<Forecast: {self.verdict or 'no theory speaks of this experiment'}>"

    def _repr_html_(self) -> str:
        if self.verdict is None:
            return f"<p>{html.escape(self)}</p>"
        rows = [
            ("verdict", self.verdict),
            ("by", self.by),
            *(("but", caveat) for caveat in self.caveats),
            ("cost", f"{self.seconds:.2g} s: {self.cost}{f' (here {self.steps})' if self.steps else ''}"),
        ]
        return html.table(("", "foreseen"), rows, "Forecast")


def forecast(
    experiment: Experiment | Mapping[str, Any], *, thorough: bool = False, progress: bool | None = None
) -> Forecast:
    """Foresee the run of an experiment from theory: t_fit, t_gen and the verdict, without a step of the run itself.

    Data and initial parameters are drawn (they are part of the experiment), and the theorem's limit is computed on
    them: by a closed form, a convex program or, for a model that no other route knows, by training that limit, up to
    20,000 steps of it. `cost`, `seconds` and `steps` say what was done. Where no theory speaks, the forecast says so.

    It takes no longer than the run is likely to, told from its size, or 2 s if that is more. A route that would is
    left out, and says so; `thorough` leaves none out. `progress` shows a bar (None: on a terminal).

    ```python
    print(af.forecast(experiment))  # Grokking: fitted at t=0.01, generalised at t=2.9e3, …; by argmin Q at …
    ```
    """
    began = time.monotonic()
    with progress_bar("theory", progress) as show:
        instance = posed(experiment)
        allowed = math.inf if thorough else max(_LEAST, likely_seconds(instance.experiment))
        with within(allowed - (time.monotonic() - began), show):
            found = forecast_of(instance)
    return dataclasses.replace(found, seconds=time.monotonic() - began)


def forecast_of(instance: Instance) -> Forecast:
    """The same of a problem that is posed already."""
    return interruptible(lambda: _first_answer(instance))


def _first_answer(instance: Instance) -> Forecast:
    reasons = []
    with blas_on_one_thread():
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
