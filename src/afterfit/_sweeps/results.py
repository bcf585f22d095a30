"""What the runs of a sweep say together: one dataset, phase diagrams, scaling laws."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.files import Damaged, Unreadable
from afterfit._sweeps.laws import PowerLaw, fit_power_law
from afterfit._training.run import Run

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from afterfit._sweeps.sweep import Sweep

__all__ = ["ScalingLaw", "Summary", "collect", "phase_diagram", "scaling_law", "summarise"]

_WORDS = ("verdict", "status", "id")
_LONG = 3.0
_MEANING = {
    "verdict": "what happened",
    "status": "how the run ended",
    "id": "the run in the store",
    "t_fit": "when the training metric met its threshold for good",
    "t_gen": "when the test metric met its threshold for good",
    "delay_ratio": "t_gen / t_fit",
    "end": "training time at the end",
    "seconds": "what the run cost, in seconds",
}


@dataclasses.dataclass(frozen=True)
class Summary:
    """What came of one run, in a line: times are NaN where there is none."""

    id: str
    verdict: str
    status: str
    t_fit: float
    t_gen: float
    delay_ratio: float
    end: float
    seconds: float


def summarise(run: Run) -> Summary:
    """A run in a line."""
    try:
        verdict = run.verdict
    except SpecError:  # too few observations
        verdict = None
    times = [getattr(verdict, name, None) for name in ("t_fit", "t_gen", "delay_ratio")]
    return Summary(
        run.id,
        verdict.kind if verdict else "",
        run.status,
        *(math.nan if value is None else value for value in times),
        end=float(run.curves["time"][-1]),
        seconds=run.seconds,
    )


def collect(sweep: Sweep) -> xr.Dataset:
    """The runs of a sweep as one Dataset."""
    import xarray as xr

    there = set(sweep.store.ids())
    runs = {}
    for point in sweep.points:
        for k, seed in enumerate(sweep.seeds):
            id = sweep.run_id(point, seed)
            if id in there:
                try:
                    runs[*point, k] = sweep.store.load(id).judged(**sweep.thresholds)
                except (Damaged, Unreadable) as error:  # the others say what they say
                    warnings.warn(str(error), stacklevel=3)
    require(bool(runs), "none of this sweep's runs is in the store yet: call sweep.run() first.")
    shape = (*(len(values) for values in sweep.knobs.values()), len(sweep.seeds))
    dimensions = (*sweep.knobs, "seed")
    variables: dict[str, Any] = {}

    def add(name: str, values: Mapping[tuple[int, ...], Any], meaning: str, *, words: bool = False) -> None:
        table = np.full(shape, "" if words else np.nan, object if words else float)
        for place, value in values.items():
            table[place] = value
        variables[name] = (dimensions, table.astype(str) if words else table, {"long_name": meaning})

    summaries = {place: summarise(run) for place, run in runs.items()}
    for field in dataclasses.fields(Summary):
        values = {place: getattr(summary, field.name) for place, summary in summaries.items()}
        add(field.name, values, _MEANING[field.name], words=field.name in _WORDS)
    time = _common_times([run.curves["time"].values for run in runs.values()])
    for name, curve in next(iter(runs.values())).curves.items():
        if curve.ndim > 1:  # such as the weights: they are in each run's own curves
            continue
        add(f"final_{name}", {place: float(run.curves[name][-1]) for place, run in runs.items()}, curve.long_name)
        if sweep.refine is not None:  # most places of its grid are empty, and curves would fill them with NaN
            continue
        table = np.full((*shape, len(time)), np.nan)
        for place, run in runs.items():
            table[place] = _at_times(time, run.curves["time"].values, run.curves[name].values)
        variables[str(name)] = ((*dimensions, "time"), table, curve.attrs)
    coordinates = {name: (name, _labels(values), {"long_name": name}) for name, values in sweep.knobs.items()}
    clock = next(iter(runs.values())).curves["time"].attrs
    coordinates |= {"seed": ("seed", list(sweep.seeds)), "time": ("time", time, clock)}
    return xr.Dataset(variables, coordinates, {"metric": next(iter(runs.values())).metric})


def _labels(values: tuple[Any, ...]) -> list[Any]:
    """Values of a knob as a coordinate: as they are if they are numbers or words, else as they are written."""
    simple = all(isinstance(value, int | float | str) for value in values)
    return list(values) if simple else [str(value) for value in values]


def _common_times(times: list[np.ndarray]) -> np.ndarray:
    """The times of all runs if they are the same (of those cut short, as far as they go), else log-spaced ones."""
    longest = max(times, key=len)
    if all(np.array_equal(own, longest[: len(own)]) for own in times):
        return longest
    first = min(own[own > 0][0] for own in times if np.any(own > 0))
    last = max(own[np.isfinite(own)][-1] for own in times)
    return np.concatenate([[0.0], np.geomspace(first, last, max(map(len, times)) - 1)])


def _at_times(time: np.ndarray, own: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A curve at common times, interpolated along log time; NaN after its end."""
    if np.array_equal(own, time):
        return values
    with np.errstate(divide="ignore"):
        at = np.interp(np.log(time[1:]), np.log(own[1:]), values[1:], right=np.nan)
    return np.concatenate([values[:1], np.where(time[1:] <= own[-1] * (1 + 1e-12), at, np.nan)])


def phase_diagram(sweep: Sweep, quantity: str, x: str | None, y: str | None, at: Mapping[str, Any]) -> Figure:
    """A map of a quantity over one or two knobs."""
    import xarray as xr

    from afterfit._sweeps import phases

    data = _fixed(sweep, at)
    require(quantity in data, f"there is no quantity {quantity!r}: {nearest(quantity, map(str, data.data_vars))}")
    values = data[quantity]
    require("time" not in values.dims, f"{quantity} is a curve: choose final_{quantity}, its last value.")
    if sweep.refine is None or quantity != sweep.refine.on:
        if values.dtype.kind == "U":
            return phases.phase_diagram(values.where(values != ""), x, y)
        at_the_end = quantity.startswith("final_")
        never = _broken(data) if at_the_end else values.isnull()
        values = values.where(~never, np.inf).where(data["status"] != "")
        return phases.phase_diagram(values, x, y, never="diverged" if at_the_end else "never")
    filled, run = sweep.refine.fill(sweep.labels)
    coordinates = {name: data[name] for name in sweep.knobs}
    labels, ran = (xr.DataArray(table, coordinates, list(sweep.knobs), name=quantity) for table in (filled, run))
    return phases.phase_diagram(labels, x, y, run=ran)


@dataclasses.dataclass(frozen=True)
class ScalingLaw:
    """quantity = C·x^p, and the runs it was fitted to.

    `law` is the fit; `at_x` (one a row) and `values` (a row a place, a column a seed) are what it was fitted to, and
    `censored` says which of the values are only the ends of runs that never got there. NaN is left out: the run broke
    down (diverged, or met a singular point), and has no later times.
    """

    quantity: str
    x: str
    law: PowerLaw
    at_x: np.ndarray
    values: np.ndarray
    censored: np.ndarray

    @property
    def exponent(self) -> float:
        """p."""
        return self.law.exponent

    @property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval of p over seeds; None with one seed."""
        return self.law.interval

    @property
    def never(self) -> int:
        """How many censored runs went on for long after those that got there would have: they may never.

        A penalty that is too strong keeps a run from generalising at all, which is not the same as later. The law takes
        them for late ones, and means little where there are many: leave such values of x out.
        """
        seen = self.came
        x = np.broadcast_to(self.at_x[:, None], self.values.shape)
        slope, level = np.polyfit(np.log(x[seen]), np.log(self.values[seen]), 1)
        expected = np.exp(level + slope * np.log(x))
        return int(np.sum(self.censored & (self.values > _LONG * expected)))

    @property
    def came(self) -> np.ndarray:
        """Which runs got there."""
        return ~self.censored & ~np.isnan(self.values)

    def __str__(self) -> str:
        said = self.law.describe(self.quantity, self.x)
        if self.never:
            said += f" But {self.never} of these ended {_LONG:g} times as late as the others suggest: they may never."
        return said

    def plot(self) -> Figure:
        """The runs, the law and its band."""
        from afterfit._sweeps.pictures import scaling_law_figure

        figure = scaling_law_figure(
            self.at_x, self.values, self.censored, self.law, x_name=self.x, t_name=self.quantity
        )
        if self.never:
            (ax,) = figure.axes
            said = f"{ax.get_title(loc='left')}\n{self.never} censored runs may never get there, and are not just late"
            ax.set_title(said, loc="left", fontsize="medium")
        return figure


def scaling_law(sweep: Sweep, quantity: str, x: str, at: Mapping[str, Any]) -> ScalingLaw:
    """Fit quantity = C·x^p to the runs of a sweep."""
    require(x in sweep.knobs, f"{x!r} is not a knob of this sweep: {nearest(x, sweep.knobs)}")
    data = _fixed(sweep, at)
    numbers = [str(name) for name, v in data.items() if v.dtype.kind == "f" and "time" not in v.dims]
    require(quantity in numbers, f"{quantity!r} is not a number of a run: {nearest(quantity, numbers)}")
    rows = [name for name in sweep.knobs if name in data[quantity].dims]
    places = data[[quantity, "end"]].assign(broken=_broken(data), there=data["status"] != "")
    places = places.stack(row=rows).transpose("row", "seed")
    places = places.isel(row=places["there"].values.all(axis=1))  # of a refined diagram, the places that were run
    values, end, broken = (places[name].values for name in (quantity, "end", "broken"))
    # A time that never came is only known to be later than the end; of anything else, what is not there is missing.
    censored = np.isnan(values) & ~broken if quantity in ("t_fit", "t_gen") else np.zeros(values.shape, bool)
    missing = np.isnan(values) & ~censored & ~broken
    require(not missing.any(), f"{quantity} is missing in some runs, which a law cannot use.")
    values, at_x = np.where(broken, np.nan, np.where(censored, end, values)), places[x].values.astype(float)
    law = ScalingLaw(quantity, x, fit_power_law(at_x, values, censored, broken), at_x, values, censored)
    came = int(law.came.sum())
    require(
        law.never <= came,
        f"{came} runs got there, and {law.never} had not after {_LONG:g} times as long: that is a question of whether, "
        f"not of when. Leave out the values of {x} at which most runs never get there.",
    )
    return law


def _broken(data: xr.Dataset) -> xr.DataArray:
    """Which runs broke down: they have no later times, and no end that means anything."""
    return data["status"].isin(["diverged", "singular"]) | (data["verdict"] == "diverged")


def _fixed(sweep: Sweep, at: Mapping[str, Any]) -> xr.Dataset:
    """The dataset at given values of some knobs."""
    data = sweep.dataset
    for name, value in at.items():
        require(name in sweep.knobs, f"{name!r} is not a knob of this sweep: {nearest(name, sweep.knobs)}")
        require(
            value in sweep.knobs[name],
            f"{name} does not take the value {value!r} here, but {', '.join(map(str, sweep.knobs[name]))}.",
        )
        data = data.isel({name: sweep.knobs[name].index(value)})
    return data
