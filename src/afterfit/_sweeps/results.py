"""What the runs of a sweep say together: a table of what came of them, their curves, phase diagrams, scaling laws.

The table is the store's: no run is opened for it. Curves are loaded once, and kept while the store has not changed.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from afterfit._base.curves import meaning_of
from afterfit._base.errors import Damaged, Unreadable, nearest, require
from afterfit._sweeps.laws import PowerLaw, fit_power_law
from afterfit._sweeps.store import Store
from afterfit._training.run import Run

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from afterfit._sweeps.sweep import Sweep

__all__ = [
    "Cell",
    "Loaded",
    "ScalingLaw",
    "count_verdicts",
    "curves_over",
    "dimensions",
    "fit_scaling_law",
    "is_result",
    "read_rows",
    "table_over",
    "values_over",
]

Cell = tuple[int, ...]  # an index a knob, and one of the seeds

_LONG = 3.0
_WORDS = {"verdict": "what happened", "status": "how the run ended", "id": "the run in the store"}
_NUMBERS = {
    "t_fit": "when the training metric met its threshold for good",
    "t_gen": "when the test metric met its threshold for good",
    "t_half": "when the test metric was half-way through its transition",
    "delay": "t_gen - t_fit",
    "delay_ratio": "t_gen / t_fit",
    "width_decades": "how long the transition took, in decades of time",
    "width_relative": "how long the transition took, divided by t_gen",
    "progress": "the share of its way that grokking under way has gone",
    "t_expected": "when grokking under way would be there at its present pace",
    "end": "training time at the end",
    "seconds": "what the run cost, in seconds",
}


# ----------------------------------------------------------------------------------------------- rows and runs


def read_rows(store: Store, ids: Iterable[str], column: Callable[[str], bool]) -> dict[str, dict[str, Any]]:
    """The rows of these runs in the store's table, by name: of its columns, their `id` and those that `column` says."""
    table, wanted = store.summaries(), set(ids)
    places = np.array([k for k, id in enumerate(table["id"].to_pylist()) if id in wanted], int)
    rows = table.select([name for name in table.column_names if name == "id" or column(name)]).take(places)
    return {row["id"]: row for row in rows.to_pylist()}


@dataclasses.dataclass(eq=False)
class Loaded:
    """Runs of a store, each loaded once, and again only if it was written again since.

    What is kept of a run is what is drawn and judged: its curves with one number a time.
    """

    store: Store
    _runs: dict[str, tuple[str, Run]] = dataclasses.field(default_factory=dict)

    def runs(self, stamps: Mapping[str, str]) -> dict[str, Run]:
        """The runs of these names and stamps; a warning says which cannot be read."""
        for id, stamp in stamps.items():
            if self._runs.get(id, ("",))[0] != stamp:
                self._runs.pop(id, None)
                try:
                    self._runs[id] = stamp, _light(self.store.load(id))
                except (Damaged, Unreadable) as error:  # the others say what they say
                    warnings.warn(str(error), stacklevel=4)
        return {id: self._runs[id][1] for id in stamps if id in self._runs}


def _light(run: Run) -> Run:
    """A run without its parameters and without curves such as the weights: thousands of these are kept."""
    several = [name for name, curve in run.curves.items() if curve.ndim > 1]
    return dataclasses.replace(run, params=None, curves=run.curves.drop_vars(several))


# ------------------------------------------------------------------------------------------- tables over knobs


def dimensions(knobs: Iterable[str]) -> dict[str, str]:
    """The dimension of each knob, a word that xarray takes as a keyword: `penalty_strength` for `penalty.strength`.

    Two that would have the same keep their dotted names.
    """
    words = {name: name.replace(".", "_") for name in knobs}
    count = Counter(words.values())
    return {name: word if count[word] == 1 else name for name, word in words.items()}


def is_result(column: str) -> bool:
    """Whether a column of the store's table is of those that `table_over` takes."""
    return column in (*_WORDS, *_NUMBERS, "metric") or column.startswith("final.")


def table_over(sweep: Sweep, rows: Mapping[Cell, Mapping[str, Any]]) -> xr.Dataset:
    """What came of the runs at some cells, as variables over knobs and seeds."""
    import xarray as xr

    require(bool(rows), "none of this sweep's runs is in the store yet: call sweep.run() first.")
    dims, shape = _grid(sweep)
    variables: dict[str, Any] = {}
    for name, meaning in _WORDS.items():
        words = np.full(shape, "", object)
        for cell, row in rows.items():
            words[cell] = row[name] or ""
        variables[name] = (dims, words.astype(str), {"long_name": meaning})
    finals = {name for row in rows.values() for name in row if name.startswith("final.") and row[name] is not None}
    numbers = _NUMBERS | {name: meaning_of(name.removeprefix("final.")) for name in sorted(finals)}
    for name, meaning in numbers.items():
        values = np.full(shape, np.nan)
        for cell, row in rows.items():
            values[cell] = np.nan if row.get(name) is None else row[name]
        variables[name.replace(".", "_")] = (dims, values, {"long_name": meaning})
    return xr.Dataset(variables, _coordinates(sweep), {"metric": next(iter(rows.values()))["metric"]})


def curves_over(sweep: Sweep, runs: Mapping[Cell, Run]) -> xr.Dataset:
    """The curves of the runs at some cells, over knobs, seeds and time."""
    import xarray as xr

    require(
        sweep.refine is None,
        "a refined diagram has no curves over its knobs, since most of its grid was not run: load its runs, by their "
        "id in sweep.dataset, with sweep.store.load.",
    )
    require(bool(runs), "none of this sweep's runs is in the store yet: call sweep.run() first.")
    dims, shape = _grid(sweep)
    time = _common_times([run.curves["time"].values for run in runs.values()])
    tables: dict[str, tuple[np.ndarray, dict[str, Any]]] = {}
    for cell, run in runs.items():
        for name, curve in run.curves.items():
            table, _ = tables.setdefault(str(name), (np.full((*shape, len(time)), np.nan), curve.attrs))
            table[cell] = _at_times(time, run.curves["time"].values, curve.values)
    first = next(iter(runs.values()))
    variables = {name: ((*dims, "time"), table, attrs) for name, (table, attrs) in tables.items()}
    coordinates = _coordinates(sweep) | {"time": ("time", time, first.curves["time"].attrs)}
    return xr.Dataset(variables, coordinates, {"metric": first.metric})


def _grid(sweep: Sweep) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The dimensions of a sweep, and their sizes."""
    sizes = [len(values) for values in sweep.knobs.values()]
    return (*dimensions(sweep.knobs).values(), "seed"), (*sizes, len(sweep.seeds))


def _coordinates(sweep: Sweep) -> dict[str, Any]:
    """The values of knobs and seeds; a knob's says which setting it is."""
    words = dimensions(sweep.knobs)
    knobs = {
        words[name]: (words[name], _labels(values), {"long_name": name, "setting": name})
        for name, values in sweep.knobs.items()
    }
    return {**knobs, "seed": ("seed", list(sweep.seeds))}


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


def count_verdicts(data: xr.Dataset) -> Counter[str]:
    """How many runs came to which verdict."""
    return Counter(kind for kind in data["verdict"].values.ravel().tolist() if kind)


def values_over(sweep: Sweep, quantity: str, at: Mapping[str, Any]) -> tuple[xr.DataArray, dict[str, Any]]:
    """A quantity over the knobs that `at` does not fix, and what else `draw_phases` has to know about it."""
    import xarray as xr

    data = _fixed(sweep, at)
    require(f"final_{quantity}" not in data, f"{quantity} is a curve: choose final_{quantity}, its last value.")
    require(quantity in data, f"there is no quantity {quantity!r}: {nearest(quantity, map(str, data.data_vars))}")
    values = data[quantity]
    if sweep.refine is not None and quantity == sweep.refine.on:
        labels, ran = sweep.refine.fill(sweep.labels)
        dims = list(dimensions(sweep.knobs).values())
        filled, run = (xr.DataArray(table, data[dims].coords, dims, name=quantity) for table in (labels, ran))
        return filled, {"run": run}
    if values.dtype.kind == "U":
        return values.where(values != ""), {}
    at_the_end = quantity.startswith("final_")
    never = _broken(data) if at_the_end else values.isnull()
    values = values.where(~never, np.inf).where(data["status"] != "")
    return values, {"never": "diverged" if at_the_end else "never"}


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

    def __repr__(self) -> str:
        return f"<ScalingLaw {self.law.describe(self.quantity, self.x)}>"

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


def fit_scaling_law(sweep: Sweep, quantity: str, x: str, at: Mapping[str, Any]) -> ScalingLaw:
    """Fit quantity = C·x^p to the runs of a sweep."""
    dimension = _dimension(sweep, x)
    data = _fixed(sweep, at)
    numbers = [str(name) for name, v in data.items() if v.dtype.kind == "f"]
    require(quantity in numbers, f"{quantity!r} is not a number of a run: {nearest(quantity, numbers)}")
    rows = [name for name in data[quantity].dims if name != "seed"]
    places = data[[quantity, "end"]].assign(broken=_broken(data), there=data["status"] != "")
    places = places.stack(row=rows).transpose("row", "seed")
    places = places.isel(row=places["there"].values.all(axis=1))  # of a refined diagram, the places that were run
    values, end, broken = (places[name].values for name in (quantity, "end", "broken"))
    # A time that never came is only known to be later than the end; of anything else, what is not there is missing.
    censored = np.isnan(values) & ~broken if quantity in ("t_fit", "t_gen") else np.zeros(values.shape, bool)
    missing = np.isnan(values) & ~censored & ~broken
    require(not missing.any(), f"{quantity} is missing in some runs, which a law cannot use.")
    values, at_x = np.where(broken, np.nan, np.where(censored, end, values)), places[dimension].values.astype(float)
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


def _dimension(sweep: Sweep, knob: str) -> str:
    """The dimension of a knob, given by the dotted name of its setting."""
    require(knob in sweep.knobs, f"{knob!r} is not a knob of this sweep: {nearest(knob, sweep.knobs)}")
    return dimensions(sweep.knobs)[knob]


def _fixed(sweep: Sweep, at: Mapping[str, Any]) -> xr.Dataset:
    """The dataset at given values of some knobs."""
    data = sweep.dataset
    for name, value in at.items():
        dimension, values = _dimension(sweep, name), sweep.knobs[name]
        require(value in values, f"{name} does not take the value {value!r} here, but {', '.join(map(str, values))}.")
        data = data.isel({dimension: values.index(value)})
    return data
