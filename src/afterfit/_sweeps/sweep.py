"""A sweep: this run, over these knobs."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from afterfit._base.errors import SpecError, SweepFailed, Unreadable, nearest, require
from afterfit._base.html import picture, table
from afterfit._base.progress import progress_bar
from afterfit._base.turns import hearing
from afterfit._sweeps.complete import complete
from afterfit._sweeps.knobs import check_knobs, check_runs, check_seeds, plain_values
from afterfit._sweeps.refine import Point, Refine, read_refine
from afterfit._sweeps.results import (
    Cell,
    Loaded,
    ScalingLaw,
    count_verdicts,
    curves_over,
    fit_scaling_law,
    is_result,
    read_rows,
    table_over,
    values_over,
)
from afterfit._sweeps.slurm import Slurm
from afterfit._sweeps.store import Store
from afterfit._training.experiment import Experiment, flatten
from afterfit._training.run import Run

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["Sweep", "sweep"]

_GIGABYTE = 1e9
_There = Mapping[Cell, tuple[str, str]]  # runs that are in the store: name and stamp


def sweep(
    spec: Experiment | Mapping[str, Any],
    over: Mapping[str, Iterable[Any]] | Refine,
    seeds: int | Sequence[int] = 1,
    store: str | os.PathLike[str] | Store = "results/store",
) -> Sweep:
    """The experiment `spec`, over all combinations of some settings and several seeds.

    `over` gives the values of each setting by its dotted name, or is `af.refine(…)`, which looks for the boundary
    between verdicts. `seeds` is how many, counted from the experiment's own, or a list of them. Runs are kept in
    `store`, a directory or any fsspec URL: what is there already is not computed again.

    ```python
    sweep = af.sweep(spec, over={"penalty.strength": af.geomspace(1e-6, 1e-2, 17)}, seeds=5)
    sweep.run()
    sweep.phase_diagram("verdict")
    sweep.scaling_law("t_gen", x="penalty.strength").exponent
    ```
    """
    spec = spec if isinstance(spec, Experiment) else Experiment.from_dict(spec)
    spec.id  # noqa: B018  (what has none cannot be kept in a store: it says why)
    seeds = check_seeds(spec, seeds)
    refine = over if isinstance(over, Refine) else None
    if refine is not None:
        own = flatten(spec.to_dict())
        for name in refine.names:
            require(name in own, f"there is no setting {name!r}: {nearest(name, own)}")
        over = {name: values.tolist() for name, values in refine.axes(own).items()}
    assert not isinstance(over, Refine)
    knobs = plain_values(over)
    if refine is None:
        check_runs(math.prod(map(len, knobs.values())) * len(seeds))
    check_knobs(spec, knobs)
    return Sweep(spec, knobs, tuple(seeds), store if isinstance(store, Store) else Store(store), refine)


@dataclasses.dataclass(frozen=True)
class Described:
    """An experiment of which only the specification is there: `why` says what is missing, such as its arrays."""

    data: Mapping[str, Any]
    why: str

    def to_dict(self) -> dict[str, Any]:
        return dict(self.data)

    def set(self, changes: Mapping[str, Any]) -> Experiment:
        raise SpecError(f"this sweep can be read but not run: {self.why} Make it again in Python, with af.sweep.")


@dataclasses.dataclass(eq=False, repr=False)
class Sweep:
    """Runs of one experiment over `knobs` (values by dotted name) and `seeds`, kept in `store`. Made by `af.sweep`."""

    spec: Experiment | Described
    knobs: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    store: Store
    refine: Refine | None = None
    thresholds: dict[str, float] = dataclasses.field(default_factory=dict, init=False)
    _ids: dict[tuple[Point, int], str] = dataclasses.field(default_factory=dict, init=False)
    _experiments: dict[tuple[Point, int], Experiment] = dataclasses.field(default_factory=dict, init=False)
    _parts: dict[tuple[tuple[str, int], ...], Any] = dataclasses.field(default_factory=dict, init=False)
    _kept: dict[str, tuple[Any, xr.Dataset]] = dataclasses.field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._loaded = Loaded(self.store)

    @property
    def id(self) -> str:
        """The name of this sweep: 16 hex digits that its specification, knobs and seeds decide.

        Not where images are found, as for its runs.
        """
        said = self.to_dict()
        if isinstance(self.spec, Experiment):
            said["spec"]["task"] = self.spec.task.identity()
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """This sweep as plain data, ready for JSON."""
        over = dataclasses.asdict(self.refine) if self.refine else {name: list(v) for name, v in self.knobs.items()}
        return {"spec": self.spec.to_dict(), "refine" if self.refine else "over": over, "seeds": list(self.seeds)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], store: str | Store) -> Sweep:
        """The sweep that `to_dict` wrote.

        One of arrays, or of classes that are not defined here, can be looked at but not run: its runs are known by
        the ids that a store keeps with it.
        """
        whole = isinstance(data, Mapping) and {"spec", "seeds"} <= set(data) and ("refine" in data or "over" in data)
        require(whole, f"a sweep has spec, seeds, and over or refine, got {data!r:.60}.")
        over: Any = read_refine(data["refine"], "refine") if "refine" in data else data["over"]
        try:
            spec = Experiment.from_dict(data["spec"])
        except SpecError as error:
            if "runs" not in data:
                raise
            return cls._described(data, over, store, str(error))
        return sweep(spec, over, data["seeds"], store)

    @classmethod
    def _described(cls, data: Mapping[str, Any], over: Any, store: str | Store, why: str) -> Sweep:
        """A sweep to be looked at, with the ids of its runs."""
        refine = over if isinstance(over, Refine) else None
        axes: Any = over if refine is None else refine.axes(flatten(data["spec"]))
        knobs = {name: tuple(np.asarray(values).tolist() if refine else values) for name, values in axes.items()}
        place = store if isinstance(store, Store) else Store(store)
        found = cls(Described(data["spec"], why), knobs, tuple(data["seeds"]), place, refine)
        found._ids = {(tuple(point), seed): id for point, seed, id in data["runs"]}
        return found

    # ---------------------------------------------------------------------------------------------- its runs

    def experiment(self, point: Point, seed: int) -> Experiment:
        """The experiment at a point, an index a knob, with one of the seeds."""
        if (point, seed) not in self._experiments:
            parts = {head: self._part(head, tuple(at)) for head, at in self._split(point).items()}
            self._experiments[point, seed] = dataclasses.replace(self.spec.set({"seed": seed}), **parts)
        return self._experiments[point, seed]

    def _split(self, point: Point) -> dict[str, list[tuple[str, int]]]:
        """The knobs of a point, with their indices, by the noun that they are settings of."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, k in zip(self.knobs, point, strict=True):
            found.setdefault(name.partition(".")[0], []).append((name, k))
        return found

    def _part(self, head: str, at: tuple[tuple[str, int], ...]) -> Any:
        """A noun with some of its knobs set: one object for all the points that have it."""
        if at not in self._parts:
            changes = {name: self.knobs[name][k] for name, k in at}
            self._parts[at] = getattr(self.spec.set(changes), head)
        return self._parts[at]

    def run_id(self, point: Point, seed: int) -> str:
        """The id of the run at a point with one of the seeds; empty if only its experiment could tell."""
        if isinstance(self.spec, Described):
            return self._ids.get((point, seed), "")
        return self.experiment(point, seed).id

    @property
    def points(self) -> list[Point]:
        """All points of a grid; of a refined diagram, those that were or are to be run, as far as is known."""
        if self.refine is None:
            return list(itertools.product(*(range(len(values)) for values in self.knobs.values())))
        return list(dict.fromkeys(point for points, _ in self._rounds() for point in points))

    @property
    def missing(self) -> list[Experiment]:
        """The experiments whose runs are not in the store."""
        there = set(self.store.ids())
        return [experiment for experiment in self._of(self.points) if experiment.id not in there]

    def _of(self, points: Iterable[Point]) -> list[Experiment]:
        return [self.experiment(point, seed) for seed in self.seeds for point in points]

    @property
    def labels(self) -> dict[Point, str]:
        """What the runs of a refined diagram say at each point, of the rounds that are complete."""
        require(self.refine is not None, "only a refined diagram has labels: see sweep.dataset.")
        *_, (_, labels) = self._rounds()
        return labels

    def _rounds(self) -> Iterator[tuple[list[Point], dict[Point, str]]]:
        """The rounds of a refined diagram, each with the labels of all before it, and at the end none with all labels.

        Each has to be complete before the next is known.
        """
        assert self.refine is not None
        labels: dict[Point, str] = {}
        while points := self.refine.next_round(labels, len(self.seeds)):
            yield points, labels
            ids = {point: [self.run_id(point, seed) for seed in self.seeds] for point in points}
            wanted = set(itertools.chain(*ids.values()))
            if not wanted <= self.store.stamps().keys():
                return
            rows = read_rows(self.store, wanted, self.refine.on.__eq__)
            if wanted <= self.store.stamps().keys():  # else one was damaged and is set aside: its round comes again
                labels = labels | {point: self._label(rows[id] for id in ids[point] if id in rows) for point in points}
        yield [], labels

    def _label(self, rows: Iterable[Mapping[str, Any]]) -> str:
        """What most seeds say at a point; of equally many, the first in the alphabet."""
        assert self.refine is not None
        said = Counter(row[self.refine.on] or "" for row in rows)
        if not said:  # of a newer afterfit, say, as the store has warned; the other seeds would say enough
            raise Unreadable("no run of some point of this diagram can be read here, so that it cannot be refined.")
        return min(said, key=lambda label: (-said[label], label))

    def run(
        self,
        on: str | Slurm | None = None,
        *,
        memory: float | None = None,
        progress: bool | Callable[[float], None] | None = None,
    ) -> Sweep:
        """Compute what is missing, and keep it in the store run by run.

        `on` is where: on the cores of this machine (None), at the address of a Dask scheduler, or on `af.slurm(…)`.
        `memory` is how many gigabytes the sweep may take beside this process as it is: the runs under way, and 0.3 for
        every process that helps (None: 4, or 0.6 a core; on a cluster: 4, for the runs of one worker). A sweep that was
        interrupted or killed goes on where it was; several processes may run the same sweep at once and share its work.
        Runs in the store that are damaged are computed again. Runs that fail do not stop the others: what failed is
        said in a `SweepFailed` at the end.
        """
        require(
            memory is None or 0 < memory < math.inf,
            f"memory is in gigabytes and must be positive and finite, got {memory}.",
        )
        total = self.refine.budget if self.refine else len(self.seeds) * len(self.points)
        failures: dict[str, str] = {}
        done = 0
        with hearing(), progress_bar("sweep", progress) as show:
            for points, _ in self._rounds() if self.refine else [(self.points, {})]:
                experiments = self._of(points)
                self._keep(points)

                def report(runs: float, done: int = done) -> None:
                    show(min(1.0, (done + runs) / total))

                self._set_aside_damaged(experiments)
                failures |= complete(self.store, experiments, on, memory and memory * _GIGABYTE, report)
                done += len(experiments)
                if failures:
                    break
        if failures:
            raise SweepFailed(self._complain(failures))
        return self

    def _set_aside_damaged(self, experiments: Iterable[Experiment]) -> None:
        """Of runs that are in the store: then they are missing, and computed."""
        there = set(self.store.ids())
        for said in self.store.set_aside_damaged(e.id for e in experiments if e.id in there).values():
            warnings.warn(said, stacklevel=3)

    def _keep(self, points: Iterable[Point]) -> None:
        """Write down what this sweep is, and the ids of its runs as far as they are known."""
        self._ids |= {(point, seed): self.experiment(point, seed).id for point in points for seed in self.seeds}
        runs = [[list(point), seed, id] for (point, seed), id in self._ids.items()]
        self.store.keep_sweep(self.id, {**self.to_dict(), "runs": runs})

    def _complain(self, failures: Mapping[str, str]) -> str:
        """What failed, with the setting of the first of each kind."""
        places = {experiment.id: key for key, experiment in self._experiments.items()}
        lines = []
        for error in dict.fromkeys(failures.values()):
            ids = [id for id, said in failures.items() if said == error]
            point, seed = places[ids[0]]
            setting = ", ".join(f"{name}={self.knobs[name][k]}" for name, k in zip(self.knobs, point, strict=True))
            lines.append(f"  {len(ids)} x {error} (such as {setting}, seed={seed})")
        return "\n".join([f"{len(failures)} runs failed; the others are in {self.store.url}.", *lines])

    # ------------------------------------------------------------------------------------------ what they say

    def judged(self, *, fit: float | None = None, generalise: float | None = None) -> Sweep:
        """This sweep with its runs judged by other thresholds, as `Run.judged` does."""
        given = {name: level for name, level in (("fit", fit), ("generalise", generalise)) if level is not None}
        if not given:
            return self
        require(
            self.refine is None,
            "a refined diagram was refined by the task's own thresholds: it cannot be judged by others.",
        )
        other = dataclasses.replace(self)
        other.thresholds, other._ids, other._loaded = {**self.thresholds, **given}, self._ids, self._loaded
        return other

    @property
    def dataset(self) -> xr.Dataset:
        """What came of the runs that are in the store: one dimension a knob, and `seed`.

        `verdict`, `status`, `id`, the numbers of the verdict (`t_fit`, `t_gen`, `t_half`, `delay_ratio`, …), `end` (the
        last training time), `seconds` and the last value of every curve (`final_…`). What is not there is NaN or empty.
        The dimension of `penalty.strength` is `penalty_strength`. No run is opened for it, unless `judged` asks for
        other thresholds.

        ```python
        sweep.dataset["t_gen"].sel(penalty_strength=1e-3).median("seed")
        ```
        """
        return self._keep_while_unchanged("dataset", lambda there: table_over(self, self._rows(there)))

    @property
    def curves(self) -> xr.Dataset:
        """The curves of the runs that are in the store, over knobs, `seed` and `time`; loaded once.

        Runs observed at different times are brought to common ones; after a run's end, and where there is none, they
        are NaN. Curves with several numbers a time, such as `weights`, are in the runs: `sweep.store.load(id)`.
        """
        return self._keep_while_unchanged("curves", lambda there: curves_over(self, self._runs(there)))

    def _keep_while_unchanged(self, name: str, make: Callable[[_There], xr.Dataset]) -> xr.Dataset:
        """What `make` gives of the runs that are in the store (name and stamp by cell), until these are others."""
        there = self._there()
        before, dataset = self._kept.get(name, (None, None))
        if dataset is None or before != there:
            dataset = make(there)
            self._kept[name] = there, dataset
        return dataset.copy(deep=True)  # its own, should somebody write to it

    def _there(self) -> dict[Cell, tuple[str, str]]:
        stamps = self.store.stamps()
        ids = {(*point, k): self.run_id(point, seed) for point in self.points for k, seed in enumerate(self.seeds)}
        return {cell: (id, stamps[id]) for cell, id in ids.items() if id in stamps}

    def _rows(self, there: _There) -> dict[Cell, Mapping[str, Any]]:
        """What came of each run: the store's rows, or those of the runs judged otherwise."""
        if self.thresholds:
            return {cell: run.judged(**self.thresholds).summary for cell, run in self._runs(there).items()}
        rows = read_rows(self.store, (id for id, _ in there.values()), is_result)
        return {cell: rows[id] for cell, (id, _) in there.items() if id in rows}

    def _runs(self, there: _There) -> dict[Cell, Run]:
        runs = self._loaded.runs(dict(there.values()))
        return {cell: runs[id] for cell, (id, _) in there.items() if id in runs}

    def phase_diagram(
        self,
        quantity: str = "verdict",
        *,
        x: str | None = None,
        y: str | None = None,
        at: Mapping[str, Any] | None = None,
    ) -> Figure:
        """A map of a quantity over one or two knobs: what most seeds say of kinds, the median over seeds of numbers.

        `x` and `y` are the knobs of its axes (the first two when not given); `at` fixes the values of others.
        """
        from afterfit._sweeps.phases import draw_phases

        values, more = values_over(self, quantity, at or {})
        return draw_phases(values, x, y, **more)

    def report(self, path: str | Path = "report.html", *, thorough: bool = False) -> Path:
        """Write one self-contained HTML page about the sweep, as `af.report` does; returns its path."""
        import afterfit

        return afterfit.report(self, path, thorough=thorough)

    def scaling_law(self, quantity: str = "t_gen", *, x: str, at: Mapping[str, Any] | None = None) -> ScalingLaw:
        """quantity = C·x^p, with an interval for p over seeds; runs that never got there count as censored.

        `at` fixes values of other knobs; over those it does not fix, the law is for all values together.

        ```python
        law = sweep.scaling_law("t_gen", x="penalty.strength")
        law.exponent, law.interval
        law.plot()
        ```
        """
        return fit_scaling_law(self, quantity, x, at or {})

    def __repr__(self) -> str:
        size = " x ".join(
            [*(f"{len(values)} {name}" for name, values in self.knobs.items()), f"{len(self.seeds)} seeds"]
        )
        most = f", {self.refine.budget} runs at most" if self.refine else ""
        return f"<Sweep {self.id}: {size}{most}, in {self.store.url}>"

    def _repr_html_(self) -> str:
        """For a notebook: what it goes over, how far it is, and what came of it."""
        there, asked = len(self._there()), len(self.points) * len(self.seeds)
        rows = [(name, _in_short(values)) for name, values in {**self.knobs, "seed": self.seeds}.items()]
        rows.append(("runs", f"{there} in {self.store.url}, {asked - there} missing"))
        if not there:
            return table(("sweep", self.id), rows)
        counts = count_verdicts(self.dataset)
        rows += [("verdict" if k == 0 else "", f"{n} {kind}") for k, (kind, n) in enumerate(counts.most_common())]
        diagram = picture(self.phase_diagram(), f"verdict over {', '.join(self.knobs)}") if len(self.knobs) <= 2 else ""
        return table(("sweep", self.id), rows) + diagram


def _in_short(values: Sequence[Any]) -> str:
    """The values of a knob: all if they are few, else how many, the first and the last."""
    from afterfit.plot import in_short

    if len(values) <= 6:
        return ", ".join(map(in_short, values))
    return f"{len(values)} values, {in_short(values[0])} to {in_short(values[-1])}"
