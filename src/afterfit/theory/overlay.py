"""Theory drawn over a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afterfit.plot import Overlay, plot_run
from afterfit.run import Run
from afterfit.theory.clocks import clock
from afterfit.theory.forecast import forecast
from afterfit.theory.instance import instance_of
from afterfit.theory.limits import Limits, limits
from afterfit.theory.named import Named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["overlay", "plot"]


def overlay(limits: Limits, clocks: Named) -> Overlay:
    """The levels of limits and the times of clocks, for `plot_run`; of equal levels, the first."""
    levels: dict[str, float] = {}
    for limit in limits:
        if all(abs(limit.test - level) > 1e-3 * max(abs(level), 1e-3) for level in levels.values()):
            levels[limit.name] = limit.test
    times = {c.name: (c.prediction, c.window) for c in clocks if c.event in ("turn", "generalisation")}
    return Overlay(levels, times)


def plot(run: Run) -> Figure:
    """The picture of a run with theory over it: limits, clocks, and the test curve that was to be foreseen.

    ```python
    af.theory.plot(run).savefig("run.png", dpi=150)
    ```
    """
    drawn = overlay(limits(run), clock(run))
    foreseen = forecast(instance_of(run).experiment)
    if foreseen.answers:
        drawn.curves["foreseen by theory"] = (foreseen.time, foreseen.test)
    return plot_run(run, drawn)
