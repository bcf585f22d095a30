"""Adaptive phase diagrams: runs where the answer changes, instead of everywhere on a grid.

Nothing here trains. `Refine` proposes rounds of grid points; whoever carries them out gives their labels back. What
comes next depends on the labels alone, so a sweep that is started again proposes the same runs, and finds them done.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from afterfit._base.errors import nearest, require
from afterfit._base.machine import check_memory
from afterfit._sweeps.knobs import check_runs
from afterfit._training.experiment import as_whole

__all__ = ["CATEGORIES", "Point", "Refine", "read_refine", "refine"]

CATEGORIES = ("verdict", "status")  # what has kinds, and so boundaries between them
_SPAN = 100.0
_POINT = 40  # bytes that following the boundary takes a point of the finest grid
_SPACING = 8  # of the first round, in cells of the finest grid

Point = tuple[int, ...]  # one index a knob


@dataclasses.dataclass(frozen=True)
class Refine:
    """Where to look for boundaries between kinds of run; made by `afterfit.refine`, which says what the fields mean.

    A point is a tuple of indices into `axes`, one a knob. The first round is a coarse grid: every 8th point of the
    finest, and at least 5 a side. From each grid to the next, of half its spacing, those points are run whose
    neighbours differ. On the finest it goes on until every change of label is between two neighbours both run.

    So every region of which one point was run, and that holds together on the grid (point to point along its
    axes), comes out as on the dense grid, however its boundary winds. What is not found is an island or a strip
    between the points of the coarse grid, and the tip of a wedge where it is thinner than the finest grid. The
    longer the boundary, the more runs: at 33 x 33, one of twice the diagram's width takes a fifth of the dense grid's.
    """

    names: tuple[str, ...]
    on: str
    budget: int
    ranges: Mapping[str, tuple[float, float]]
    resolution: int

    def __post_init__(self):
        words = isinstance(self.names, tuple) and all(isinstance(name, str) for name in self.names)
        require(words, f"refine goes over names of knobs, such as 'penalty.strength', got {self.names!r}.")
        for name in ("budget", "resolution"):
            object.__setattr__(self, name, as_whole(getattr(self, name)))
            value = getattr(self, name)
            require(type(value) is int and value >= 1, f"{name} must be a whole number, 1 or more, got {value!r}.")
        require(len(self.names) > 0, "refine needs the name of a knob, such as 'penalty.strength'.")
        require(len(set(self.names)) == len(self.names), f"refine has a knob twice: {', '.join(self.names)}.")
        require(
            self.on in CATEGORIES,
            f"refine follows the boundary between kinds, so on must be {' or '.join(map(repr, CATEGORIES))}, got "
            f"{self.on!r}. For a number, sweep over a grid.",
        )
        require(isinstance(self.ranges, Mapping), f"ranges are pairs of numbers by knob, got {self.ranges!r}.")
        for name, pair in self.ranges.items():
            require(
                name in self.names, f"there is a range for {name}, which is no knob here: {nearest(name, self.names)}"
            )
            two = isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(end, Real) for end in pair)
            require(
                two and 0 < pair[0] < pair[1] < math.inf,
                f"the range of {name} must be two numbers, 0 < lowest < highest, got {pair!r}.",
            )
        cells = self.resolution - 1
        require(
            cells >= 4 and cells & (cells - 1) == 0,
            f"resolution must be a power of two plus one (5, 9, 17, 33, 65, …), got {self.resolution!r}.",
        )
        self._check_budget(seeds=1)
        points = self.resolution ** len(self.names)
        check_runs(min(self.budget, points))
        check_memory(
            _POINT * points,
            f"the finest grid has {points:.3g} points",
            lambda: f"lower the resolution (now {self.resolution}), or refine fewer knobs",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the finest grid."""
        return (self.resolution,) * len(self.names)

    @property
    def spacing(self) -> int:
        """Between points of the first round, in points of the finest grid."""
        return min(_SPACING, (self.resolution - 1) // 4)

    def axes(self, own: Mapping[str, Any]) -> dict[str, NDArray]:
        """The values of each knob on the finest grid, log-spaced; `own` holds the specification's own values."""
        found = {}
        for name in self.names:
            if name in self.ranges:
                low, high = self.ranges[name]
            else:
                value = own[name]
                require(
                    isinstance(value, int | float) and value > 0,
                    f"{name} is {value!r}, which has no factor of {_SPAN:g} either side: "
                    f"give its range, ranges={{{name!r}: (lowest, highest)}}.",
                )
                low, high = value / _SPAN, value * _SPAN
            found[name] = np.geomspace(low, high, self.resolution)
        return found

    def next_round(self, labels: Mapping[Point, Hashable], seeds: int = 1) -> list[Point]:
        """The points to run next, given the labels of those that were; none when there is nothing left to do.

        The budget is of runs, and a point costs `seeds` of them. Where it ends within a round, the round is thinned
        evenly.
        """
        self._check_budget(seeds)
        wanted = self._open(labels)
        left = max(self.budget // seeds - len(labels), 0)
        if len(wanted) <= left:
            return wanted
        return [wanted[k] for k in np.linspace(0, len(wanted) - 1, left).round().astype(int)]

    def resolved(self, labels: Mapping[Point, Hashable]) -> bool:
        """Whether the boundary is known to the finest grid; otherwise the budget ended first."""
        return not self._open(labels)

    def fill(self, labels: Mapping[Point, Hashable]) -> tuple[NDArray, NDArray]:
        """Labels of all points of the finest grid, and which of them were run; the others are inferred."""
        kinds, known = self._coded(labels)
        require(bool(labels), "there is no run yet to fill a diagram from: run the sweep first.")
        filled, _ = _infer(known, self.spacing)
        values = np.empty(len(kinds), object)
        values[:] = kinds
        return values[filled], known >= 0

    def _check_budget(self, seeds: int) -> None:
        """Refuse a budget that the first round would not fit into."""
        coarse = ((self.resolution - 1) // self.spacing + 1) ** len(self.names) * seeds
        require(
            self.budget >= coarse,
            f"the first, coarse round alone takes {coarse} runs{' over all seeds' if seeds > 1 else ''}: "
            f"raise the budget of {self.budget!r}, or refine fewer knobs.",
        )

    def _open(self, labels: Mapping[Point, Hashable]) -> list[Point]:
        """The points that have to be run before their level is settled; sorted."""
        _, wanted = _infer(self._coded(labels)[1], self.spacing)
        return [tuple(map(int, point)) for point in wanted]

    def _coded(self, labels: Mapping[Point, Hashable]) -> tuple[list[Hashable], NDArray]:
        """The different labels, and the grid of their numbers, −1 where there is none yet."""
        kinds = list(dict.fromkeys(labels[point] for point in sorted(labels)))
        number = {kind: k for k, kind in enumerate(kinds)}
        known = np.full(self.shape, -1)
        for point, label in labels.items():
            known[point] = number[label]
        return kinds, known


def refine(
    *names: str,
    on: str = "verdict",
    budget: int = 200,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    resolution: int = 33,
) -> Refine:
    """Spend runs at the boundary between kinds of run, instead of evenly on a grid.

    - `names`: one or more knobs.
    - `on`: what kinds: `"verdict"` or `"status"`.
    - `budget`: runs at most.
    - `ranges`: lowest and highest value by knob. One without a range spans a factor of 100 either side of the
      specification's own value. All are log-spaced.
    - `resolution`: points a side of the finest grid, a power of two plus one.

    ```python
    over = af.refine("penalty.strength", "init.scale", budget=200, ranges={"penalty.strength": (1e-6, 1e-2)})
    ```
    """
    return Refine(names, on, budget, {} if ranges is None else ranges, resolution)


def read_refine(table: Any, where: str) -> Refine:
    """What a file says of a refined diagram; `where` names the place in error messages."""
    fields = ("names", "on", "budget", "ranges", "resolution")
    require(isinstance(table, Mapping), f"{where} must be a table with {', '.join(fields)}, got {table!r}.")
    for name in table:
        require(name in fields, f"{where} has no {name!r}: {nearest(name, fields)}")
    settings = dict(table)
    names = settings.pop("names", ())
    require(isinstance(names, list | tuple), f"{where} wants names of knobs as a list, got {names!r}.")
    return refine(*names, **settings)


def _infer(known: NDArray, spacing: int) -> tuple[NDArray, NDArray]:
    """Labels of the whole grid, and the points to run (n, knobs) for the coarsest level that is not settled yet.

    A point of a level that was not run has the label of the points around it on the coarser level, if they agree.
    """
    if not np.any(known >= 0):
        return known, np.argwhere(_level(known, spacing)) * spacing
    place: Any = distance_transform_edt(known < 0, return_distances=False, return_indices=True)
    nearest_run = known[tuple(place)]
    level, filled, undecided, wanted = spacing, _level(known, spacing), _level(known, spacing) < 0, np.empty((0, 0))
    while True:
        run = _level(known, level) >= 0
        filled = np.where(run, _level(known, level), np.where(undecided, _level(nearest_run, level), filled))
        if not len(wanted):
            # Coarser levels halve the distance to the boundary; the finest follows it along, wherever it leads.
            follow = _on_boundary(filled) if level == 1 else False
            wanted = np.argwhere((undecided | follow) & ~run) * level
        if level == 1:
            return filled, wanted
        low, high = _between(filled, np.minimum), _between(filled, np.maximum)
        level, filled, undecided = level // 2, low, low != high


def _level(grid: NDArray, spacing: int) -> NDArray:
    """The points of `grid` that a coarser one has too."""
    return grid[(slice(None, None, spacing),) * grid.ndim]


def _between(coarse: NDArray, of: np.ufunc) -> NDArray:
    """`coarse` on a grid of half its spacing: a new point takes `of` the points of the coarse grid around it."""
    for axis in range(coarse.ndim):
        rows = np.moveaxis(coarse, axis, 0)
        fine = np.empty((2 * len(rows) - 1, *rows.shape[1:]), rows.dtype)
        fine[::2], fine[1::2] = rows, of(rows[:-1], rows[1:])
        coarse = np.moveaxis(fine, 0, axis)
    return coarse


def _on_boundary(labels: NDArray) -> NDArray:
    """Where a neighbour along an axis has another label."""
    found = np.zeros(labels.shape, bool)
    for axis in range(labels.ndim):
        rows, marks = np.moveaxis(labels, axis, 0), np.moveaxis(found, axis, 0)  # views
        change = rows[1:] != rows[:-1]
        marks[1:] |= change
        marks[:-1] |= change
    return found
