"""Theory drawn over a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afterfit._training.run import Run
from afterfit.plot import Moment, Overlay, plain, plot_run
from afterfit.theory._clocks import Clock, Clocks, clocks_of
from afterfit.theory._forecast import Forecast, forecast_of
from afterfit.theory._instance import instance_of
from afterfit.theory._limits import Limits, limits_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["overlay", "plot"]


_ORDER = 10.0  # a time of some order may come a factor this much earlier or later


def overlay(limits: Limits, clocks: Clocks, foreseen: Forecast | None = None) -> Overlay:
    """The foreseen curve, the levels of limits and the times of clocks, for `plot_run`; of equal levels, the first."""
    levels: dict[str, float] = {}
    for limit in limits:
        if all(abs(limit.test - level) > 1e-3 * max(abs(level), 1e-3) for level in levels.values()):
            levels[limit.name] = limit.test
    moments = tuple(_moment(told) for told in clocks if told.event in ("turn", "generalisation"))
    curves = {"foreseen by theory": (foreseen.time, foreseen.test)} if foreseen is not None and foreseen.answers else {}
    return Overlay(levels, moments, curves)


def _moment(told: Clock) -> Moment:
    """A clock as it may be drawn: what its theorem promises, and no more."""
    time, symbol = told.prediction, told.symbol or plain(told.name)
    if told.promise == "order":
        words = f"{told.event} ~ {symbol}"
        return Moment(words, time, time / _ORDER, time * _ORDER, False, told.measured)
    if told.promise == "at most":
        return Moment(f"{told.event} ≤ {symbol}", time, 0.0, time, True, told.measured)
    low, high = told.window or (time, time)
    return Moment(f"{told.event} ≈ {symbol}", time, low, high, True, told.measured)


def plot(run: Run) -> Figure:
    """The picture of a run with theory over it: limits, clocks, and the test curve that was to be foreseen.

    ```python
    af.theory.plot(run).savefig("run.png", dpi=150)
    ```
    """
    instance = instance_of(run)
    return plot_run(run, overlay(limits_of(instance), clocks_of(instance, run), forecast_of(instance)))
