"""A sweep: this run, over these knobs."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.files import Damaged, Unreadable
from afterfit._base.progress import progress_bar
from afterfit._base.turns import hearing
from afterfit._sweeps.complete import complete
from afterfit._sweeps.knobs import check_knobs, check_runs, check_seeds, plain_values
from afterfit._sweeps.refine import Refine, read_refine
from afterfit._sweeps.results import ScalingLaw, Summary, collect, phase_diagram, scaling_law, summarise
from afterfit._sweeps.slurm import Slurm
from afterfit._sweeps.store import Store
from afterfit._training.experiment import Experiment, flatten

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["Sweep", "SweepFailed", "sweep"]

_GIGABYTE = 1e9
Point = tuple[int, ...]  # one index a knob


class SweepFailed(RuntimeError):
    """Some runs of a sweep failed; the others are in the store."""


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
    sweep = af.sweep(spec, over={"penalty.strength": af.logspace(1e-6, 1e-2, 17)}, seeds=5)
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


@dataclasses.dataclass(eq=False)
class Sweep:
    """Runs of one experiment over `knobs` (values by dotted name) and `seeds`, kept in `store`. Made by `af.sweep`."""

    spec: Experiment | Described
    knobs: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    store: Store
    refine: Refine | None = None
    thresholds: dict[str, float] = dataclasses.field(default_factory=dict, init=False, repr=False)
    labels: dict[Point, str] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _ids: dict[tuple[Point, int], str] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _summaries: dict[str, Summary] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _experiments: dict[tuple[Point, int], Experiment] = dataclasses.field(default_factory=dict, init=False, repr=False)

    @property
    def id(self) -> str:
        """The name of this sweep: 16 hex digits that its specification, knobs and seeds decide."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

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
            values = {name: self.knobs[name][k] for name, k in zip(self.knobs, point, strict=True)}
            self._experiments[point, seed] = self.spec.set({**values, "seed": seed})
        return self._experiments[point, seed]

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
        return [point for points in self._rounds() for point in points]

    @property
    def missing(self) -> list[Experiment]:
        """The experiments whose runs are not in the store."""
        there = set(self.store.ids())
        return [experiment for experiment in self._of(self.points) if experiment.id not in there]

    def _of(self, points: Iterable[Point]) -> list[Experiment]:
        return [self.experiment(point, seed) for seed in self.seeds for point in points]

    def _rounds(self) -> Iterator[list[Point]]:
        """The rounds of a refined diagram; each has to be complete before the next is known."""
        assert self.refine is not None
        self.labels = {}
        while points := self.refine.next_round(self.labels, len(self.seeds)):
            yield points
            if not all(self.run_id(point, seed) in self.store for seed in self.seeds for point in points):
                return
            try:
                self.labels |= {point: self._label(point) for point in points}
            except Damaged as error:  # and set aside: its round comes again
                warnings.warn(str(error), stacklevel=3)

    def _label(self, point: Point) -> str:
        """What most seeds say at a point; of equally many, the first in the alphabet."""
        assert self.refine is not None
        said: Counter[str] = Counter()
        for seed in self.seeds:
            try:
                said[getattr(self._summary(self.run_id(point, seed)), self.refine.on)] += 1
            except Unreadable as error:  # of a newer afterfit, say: the other seeds say enough
                if not said and seed == self.seeds[-1]:
                    raise
                warnings.warn(str(error), stacklevel=2)
        return min(said, key=lambda label: (-said[label], label))

    def _summary(self, id: str) -> Summary:
        if id not in self._summaries:
            self._summaries[id] = summarise(self.store.load(id))
        return self._summaries[id]

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
        bar = contextlib.nullcontext(progress) if callable(progress) else progress_bar("sweep", progress)
        failures: dict[str, str] = {}
        done = 0
        with hearing(), bar as show:
            for points in self._rounds() if self.refine else [self.points]:
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
        other.thresholds, other._ids = {**self.thresholds, **given}, self._ids
        return other

    @property
    def dataset(self) -> xr.Dataset:
        """Everything that is in the store of this sweep: one dimension a knob, `seed`, and `time` for the curves.

        `verdict`, `status`, `t_fit`, `t_gen`, `delay_ratio`, `end` (the last training time), `seconds`, `id` and the
        last value of every curve (`final_…`) are over the knobs and seeds; curves with one number a time are over
        `time` as well (not of a refined diagram). Runs observed at different times are brought to common ones. What is
        not there is NaN or empty.
        """
        return collect(self)

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
        return phase_diagram(self, quantity, x, y, at or {})

    def scaling_law(self, quantity: str = "t_gen", *, x: str, at: Mapping[str, Any] | None = None) -> ScalingLaw:
        """quantity = C·x^p, with an interval for p over seeds; runs that never got there count as censored.

        `at` fixes values of other knobs; over those it does not fix, the law is for all values together.

        ```python
        law = sweep.scaling_law("t_gen", x="penalty.strength")
        law.exponent, law.interval
        law.plot()
        ```
        """
        return scaling_law(self, quantity, x, at or {})
