"""Which runs go together, and how many at a time: planned before any memory is used."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params

from afterfit._base.errors import SpecError
from afterfit._base.turns import computing
from afterfit._training.batches import Lane
from afterfit._training.experiment import Experiment
from afterfit._training.run import Run
from afterfit._training.size import STEP, check_size, steps_of
from afterfit._training.train import prepare
from afterfit.dynamics._problem import Problem

__all__ = ["Footprint", "Job", "Result", "footprint", "least_seconds", "plan"]

_WIDEST = 64  # lanes of a batch: more are no quicker on a CPU
_CACHE = 256e3  # bytes of data that lanes with data of their own may have together: half of what a core keeps near
_LARGE = 32e6  # bytes of a run whose steps take so long by themselves that nothing is gained by going together
_WIDE = 4e6  # bytes of a step's results, as of a wide net: several of them together leave what a core keeps near
_MANY_FLOWS = 16  # flows whose going together is worth compiling it, which takes several times as long
_ENOUGH = 16  # lanes with the same data, from which one product with a matrix is quicker than many with vectors
_APART = 2.0  # lanes of a batch wait for the longest of them, which makes at most so many times their steps


@dataclasses.dataclass(frozen=True)
class Job:
    """Experiments that run together. `shared`: all on the same data.

    Which experiments make up a job depends on the whole sweep and not on what of it has been done: a run has the same
    bits whenever it is computed. `wanted` are the places of those still to be computed; `bytes` is what they take of
    memory together, at most.
    """

    experiments: tuple[Experiment, ...]
    shared: bool
    wanted: tuple[int, ...]
    bytes: int = 0

    @property
    def ids(self) -> list[str]:
        """The ids of the runs still to be computed."""
        return [self.experiments[k].id for k in self.wanted]

    def only(self, ids: Iterable[str]) -> Job:
        """This job for some of its runs."""
        chosen = set(ids)
        wanted = tuple(k for k in self.wanted if self.experiments[k].id in chosen)
        return dataclasses.replace(self, wanted=wanted)


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of one run: its files, or what went wrong, in words."""

    id: str
    files: Mapping[str, bytes] | None = None
    error: str = ""

    @classmethod
    def of(cls, experiment: Experiment, what: Run | str) -> Result:
        """The result of an experiment that ended with a run, or with an error in words."""
        return cls(experiment.id, error=what) if isinstance(what, str) else cls(experiment.id, what.files())


def plan(experiments: Sequence[Experiment], *, memory: float, workers: int) -> list[Job]:
    """Put experiments together into jobs, the longest first.

    Runs that differ in numbers only go together, those on the same data best of all. Large ones gain nothing by it, a
    few flows less than their longer compilation costs, and flows of models with kinks wait for each other: these go one
    by one. All `workers` keep within `memory` bytes.
    """
    groups = list(_grouped(experiments, _structure).values())
    for group in groups:  # all of them now, before anything is drawn
        check_size(max(group, key=steps_of))  # alike but for their numbers of steps
    jobs = []
    sizes: dict[Hashable, Footprint] = {}  # by all that they depend on: to find one takes as long as to trace a program
    for group in groups:
        alike = _structure(_without_seed(group[0]))
        if alike not in sizes:
            sizes[alike] = _size(group[0]) if len(experiments) > 1 else _UNKNOWN
        size = sizes[alike]
        widest = _widest(group, size, memory / workers, math.ceil(len(experiments) / workers))
        if widest == 1:
            jobs += [_job([experiment], False, size.memory) for experiment in group]
            continue
        for stretch in _stretches(group):
            others = []
            for same in _grouped(stretch, _data).values():
                if len(same) >= _ENOUGH:
                    jobs += [_job(part, True, size.memory) for part in _cut(same, widest)]
                else:
                    others += same
            narrow = max(4, int(_CACHE // _data_bytes(group[0])))
            jobs += [_job(part, False, size.memory) for part in _cut(others, min(narrow, widest))]
    return sorted(jobs, key=lambda job: -_work(job))


def _job(experiments: Sequence[Experiment], shared: bool, size: int) -> Job:
    return Job(tuple(experiments), shared, tuple(range(len(experiments))), size * len(experiments))


def _size(experiment: Experiment) -> Footprint:
    try:
        return footprint(experiment)
    except SpecError:  # it cannot be: refused before any work
        raise
    except Exception:  # a fault of a user's own noun, which only its own runs are to fail by
        return _UNKNOWN


def _widest(group: Sequence[Experiment], size: Footprint, memory: float, fair: int) -> int:
    """How many runs of a group may go together; `fair` leaves none of the workers idle."""
    some = group[0]
    few = len(group) < (2 if some.dynamics.in_steps else _MANY_FLOWS)
    # At kinks the steps of a flow get short, in each run at other times, and all of a batch would make them (flows.md).
    uneven = not some.dynamics.in_steps and some.model.smooth is False
    if few or uneven or not 0 < size.memory < _LARGE or size.step >= _WIDE:
        return 1
    return max(1, min(_WIDEST, fair, int(memory // size.memory)))


def _stretches(experiments: Sequence[Experiment]) -> list[list[Experiment]]:
    """Experiments of similar length."""
    stretches: list[list[Experiment]] = []
    for experiment in sorted(experiments, key=steps_of):  # stable: otherwise in their order
        if not stretches or steps_of(experiment) > _APART * steps_of(stretches[-1][0]):
            stretches.append([])
        stretches[-1].append(experiment)
    return stretches


def _cut(experiments: Sequence[Experiment], widest: int) -> list[Sequence[Experiment]]:
    """Parts of at most so many, as equal in size as can be: every size is a compilation."""
    if not experiments:
        return []
    size = math.ceil(len(experiments) / math.ceil(len(experiments) / widest))
    return [experiments[k : k + size] for k in range(0, len(experiments), size)]


def _data_bytes(experiment: Experiment) -> int:
    """Bytes of the training data, which every step goes through."""
    data = experiment.draw()
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves((data.inputs, data.targets)))


def _work(job: Job) -> float:
    return len(job.experiments) * max(map(steps_of, job.experiments))


def least_seconds(jobs: Iterable[Job]) -> float:
    """How long jobs take on one core, at least: of flows that is not known, and counts as nothing."""
    return STEP * sum(map(_work, jobs))


T = TypeVar("T")


def _grouped(things: Iterable[T], by: Callable[[T], Hashable]) -> dict[Hashable, list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for thing in things:
        groups.setdefault(by(thing), []).append(thing)
    return groups


def _structure(experiment: Experiment) -> Hashable:
    """What two experiments have in common that differ in numbers only."""
    dynamics = experiment.dynamics
    if numbers := dynamics.uncompiled:
        dynamics = dynamics.replace(**dict.fromkeys(numbers, 1))
    nouns = (experiment.task, experiment.model, experiment.penalty, dynamics, experiment.init)
    leaves, tree = jax.tree.flatten(nouns)
    observe = tuple(jax.tree.leaves(experiment.observe)), jax.tree.structure(experiment.observe)
    return tree, tuple(_but_numbers(leaf) for leaf in leaves), experiment.observations, observe


def _without_seed(experiment: Experiment) -> Experiment:
    """An experiment of the same size, whatever seed of its own its start is drawn from."""
    init = eqx.tree_at(lambda init: init.seed, experiment.init, None, is_leaf=lambda leaf: leaf is None)
    return dataclasses.replace(experiment, init=init)


def _data(experiment: Experiment) -> Hashable:
    """What two experiments on the same data have in common."""
    leaves, tree = jax.tree.flatten(experiment.task)
    return tree, tuple(id(x) if isinstance(x, np.ndarray | jax.Array) else x for x in leaves), experiment.seed


def _but_numbers(leaf: Any) -> Hashable:
    if isinstance(leaf, float):
        return "a number"
    return ("an array", np.shape(leaf)) if isinstance(leaf, np.ndarray | jax.Array) else leaf


# -------------------------------------------------------------------------------------------------------- memory


class Footprint(NamedTuple):
    """Bytes that one more run takes in a batch, at most, and those of what one of its steps computes."""

    memory: int
    step: int


_UNKNOWN = Footprint(0, 0)


def footprint(experiment: Experiment) -> Footprint:
    """What one more run like this one takes in a batch.

    Counted from the program before it is compiled: its data, and every intermediate result as if none were reused; and
    what is kept of every observation.
    """
    with computing():
        lane = Lane(experiment, *prepare(experiment))
        state = eqx.filter_eval_shape(lane.traced.start, lane.problem, lane.params, lane.key)
        goal, limit = jnp.asarray(lane.targets[-1]), jnp.asarray(1)
        moving = eqx.filter_make_jaxpr(type(lane.traced).advance)(lane.traced, lane.problem, state, goal, limit)[0]
        observing = eqx.filter_make_jaxpr(Problem.observe)(lane.problem, lane.params)[0]
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(eqx.filter((lane.problem, lane.params), eqx.is_array)))
    kept = (len(lane.targets) + 1) * sum(map(_bytes, observing.out_avals))
    step = _intermediate(moving.jaxpr)
    return Footprint(2 * held + max(step, _intermediate(observing.jaxpr)) + 2 * kept, step)


def _intermediate(jaxpr: Any) -> int:
    """Bytes of all results in a program, those of the programs within it included."""
    total = 0
    for equation in jaxpr.eqns:
        total += sum(_bytes(out.aval) for out in equation.outvars)
        total += sum(_intermediate(inner) for inner in jaxprs_in_params(equation.params))
    return total


def _bytes(aval: Any) -> int:
    return int(np.prod(aval.shape)) * getattr(aval.dtype, "itemsize", 8)
