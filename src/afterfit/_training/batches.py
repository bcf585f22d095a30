"""Runs that go on together: one compiled program for many runs that differ in numbers only.

A run is a lane. Lanes of one structure (the same shapes and the same functions) are stacked and moved by `vmap`; a
lane that ends early waits while the others go on.

Which instructions a compiler chooses depends on how many lanes there are, and with them the last bits of a result. So
a batch keeps its width and every lane its place, whichever of them are wanted: the same batch gives the same bits.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from afterfit._base.curves import dataset
from afterfit._base.errors import require
from afterfit._diagnose.words import at, difference, power_of_ten
from afterfit._training.checkpoints import Checkpoints
from afterfit._training.experiment import Experiment
from afterfit._training.own import watching
from afterfit._training.past import Past
from afterfit._training.run import Run
from afterfit.dynamics import Dynamics, State
from afterfit.dynamics._problem import Problem

__all__ = ["Batch", "Lane", "numbers_as_arrays"]

_SECONDS_A_LOOK = 0.1  # between two reports of progress
_CERTAIN = 10.0  # times as long as it took: so long has what was reached to last
_SECONDS_A_CALL = 0.25  # how long compiled code may run before Python looks up: for Ctrl-C and progress


class Lane:
    """One run while it goes on: where it starts and is observed, what was seen of it, and how it ended."""

    def __init__(self, experiment: Experiment, problem: Problem, params: PyTree[Array]):
        self._id = experiment.id_if_any  # as it was asked for
        dynamics, self.method = experiment.dynamics.resolve(problem, params)
        self.experiment = dataclasses.replace(experiment, dynamics=dynamics)
        self.dynamics, self.params = dynamics, params
        self.problem = watching(experiment.observe, problem, params)
        self.traced = numbers_as_arrays(dynamics, params)
        if numbers := dynamics.uncompiled:  # how many steps are made, say, does not change what a step is
            arrays = [jnp.asarray(number) for number in numbers.values()]
            self.traced = eqx.tree_at(lambda d: [getattr(d, name) for name in numbers], self.traced, arrays)
        self.key = jax.random.key(experiment.seed)
        self.past = Past.of(experiment.init.past)  # of a run that goes on from another
        self.past.check_curves(lambda: jax.eval_shape(self.problem.observe, params))
        self._origin = self.past.step if dynamics.in_steps else 0  # its own first position
        self.targets, self._kept = self._places()
        self.checkpoints: list[tuple[float, int, PyTree[np.ndarray]]] = []  # log₁₀ time, step, parameters
        self.observations: list[tuple[float, int, dict[str, np.ndarray]]] = []  # log₁₀ time, step, quantities
        self.status, self.message = "", ""  # the status of a run that goes on is empty
        self._note = ""  # what is to be said of how it began
        self.position, self.seconds = 0.0, 0.0
        self.state: State | None = None  # at the last observation: what the run's parameters will be
        self._reference: State | None = None  # where it was at half of its time, or before
        self._began = -math.inf  # log₁₀ of what its own clock says at the start
        self._writing = threading.Lock()  # it may be interrupted from another thread than the one that moves it

    def _places(self) -> tuple[np.ndarray, set[int]]:
        """The positions to observe after the start, and the numbers of the observations whose parameters are kept."""
        dynamics, wanted = self.dynamics, self.experiment.checkpoints
        targets = dynamics.targets(self.experiment.observations)
        if isinstance(wanted, int):
            kept = np.round(np.linspace(0 if wanted > 1 else len(targets), len(targets), wanted))
            return targets + self._origin, set(kept.astype(int).tolist())
        since = np.array(wanted) - self.past.time
        since[np.abs(since) <= 1e-9 * self.past.time] = 0.0  # what is less is rounding
        require(
            since[0] >= 0, f"the run begins at t={self.past.time:.4g}: a checkpoint at t={wanted[0]:.4g} is before."
        )
        positions = dynamics.positions(since[since > 0], self.past.remembered)
        require(
            not np.any(positions > dynamics.end * (1 + 1e-9)),  # what is beyond by less is rounding
            f"the run ends before t={wanted[-1]:.4g}, for which a checkpoint is asked: train it longer.",
        )
        at_start = since[0] == 0 or bool(np.any(positions == 0))  # also where it is less than a step away
        positions = np.minimum(positions[positions > 0], targets[-1])
        targets = np.union1d(targets, positions)
        kept = {int(place) + 1 for place in np.searchsorted(targets, positions)} | ({0} if at_start else set())
        return targets + self._origin, kept

    @property
    def structure(self) -> Hashable:
        """What has to be the same in lanes that go together: everything but the values of arrays."""
        leaves, tree = jax.tree.flatten((self.traced, self.problem, self.params))
        return tree, tuple((x.shape, x.dtype) if eqx.is_array(x) else x for x in leaves)

    @property
    def next_target(self) -> Any:
        return self.targets[len(self.observations) - 1]  # the first observation is the start

    @property
    def progress(self) -> float:
        """The share of its work that is done."""
        if self.status:
            return 1.0
        position = max(0.0, self.position - self._origin)
        return self.dynamics.progress(position, (len(self.observations) - 1) / len(self.targets))

    def resumed(self, state: State) -> State:
        """The state at the start, of a run that goes on from another as that one left it."""
        past = self.past.remembered
        if past is None:
            return state
        state, self._note = self.dynamics.resumed(state, self.past.step, past)
        return state

    def see(self, state: State, seen: dict[str, np.ndarray]) -> None:
        """Take note of an observation, and end here if there is reason to."""
        own, trouble = float(seen.pop("log10_time")), bool(seen.pop("trouble"))
        with self._writing:
            if self.status:  # interrupted
                return
            if not self.observations:
                self._began = own
            log10_time = self.past.continued(own, self._began)
            step = int(state.step) + self.past.step - self._origin
            if self.observations and not self.observations[-1][0] < log10_time < math.inf:
                # The clock of a run that diverges may stand still or be lost with it: this is just later than before.
                log10_time = math.nextafter(self.observations[-1][0], math.inf)
            if len(self.observations) in self._kept:
                self.checkpoints.append((log10_time, step, state.params))
            self.observations.append((log10_time, step, seen))
            self.state = state
        if len(self.observations) == 1:
            self._reference = state
        elif not np.isfinite(seen["train_loss"]):
            self._end(
                "diverged",
                f"the loss is no longer a finite number at {self._when} (step {step}): try {self.dynamics.knob}.",
            )
        elif trouble:
            self._end(*self.dynamics.complaint(state))
        else:
            if self.dynamics.stops:
                self._stop(state, difference(own, self._began))
            if len(self.observations) > len(self.targets):
                self._end("finished", self.dynamics.afterword)

    def _stop(self, state: State, time: float) -> None:
        """End the run if it is at rest, or if its verdict is certain, where that was asked for."""
        dynamics, reference = self.dynamics, self._reference
        assert reference is not None
        position, before = (float(dynamics.position(at)) - self._origin for at in (state, reference))
        if position >= 2 * before:
            first, last = (float(self.observations[k][2]["train_loss"]) for k in (0, -1))
            left = last / (self.past.initial_loss or first or 1.0)
            if dynamics.settled(self.problem, reference, state, time, left):
                self._end("finished", f"settled at {self._when}: the parameters are at rest.")
            self._reference = state
        if dynamics.stops == "certain":
            since = self._good_since()
            if since is not None and self.time >= _CERTAIN * since:
                self._end("finished", f"certain at {self._when}: fitted and generalised since t={since:.3g}.")

    def _good_since(self) -> float | None:
        """Since when the run has been fitted and has generalised, by its verdict; None if it has not."""
        run = self.run()
        verdict, _ = run.verdict_or_reason()
        if verdict is None or verdict.kind not in ("grokking", "generalised with the fit"):
            return None
        assert verdict.t_fit is not None
        assert verdict.t_gen is not None
        return max(verdict.t_fit, verdict.t_gen, float(run.curves["time"].values[1]))  # not at once, from t = 0

    def interrupt(self) -> bool:
        """End the run early, with what was observed; False if it has ended already, and stays as it is."""
        return self._end("interrupted", f"interrupted at {self._when}; what was observed until then is kept.")

    def _end(self, status: str, message: str) -> bool:
        with self._writing:
            if self.status:
                return False
            self.status, self.message = status, f"{message} {self._note}".strip()
            return True

    @property
    def time(self) -> float:
        """The training time of the last observation."""
        return power_of_ten(self.observations[-1][0])

    @property
    def _when(self) -> str:
        return at(self.observations[-1][0])  # in words: it may be too large for a float

    def run(self) -> Run:
        """What it leaves behind."""
        assert self.state is not None
        log10_time, step, quantities = zip(*self.observations, strict=True)
        columns = {name: np.stack([row[name] for row in quantities]) for name in quantities[0]}
        task = self.experiment.task
        curves = dataset(columns, [power_of_ten(t) for t in log10_time], log10_time, step, self.dynamics.clock)
        return Run(
            spec=self.experiment.to_dict(),
            curves=self.past.followed_by(curves),
            params=self.state.params,
            memory=[_storable(leaf) for leaf in jax.tree.leaves(self.state.memory)] if self.dynamics.in_steps else [],
            memory_kind=self.dynamics.memory_kind,
            checkpoints=Checkpoints.held([*self.checkpoints, *self._end_of_many()]),
            metric=task.metric,
            criteria=task.criteria,
            status=self.status,
            message=self.message,
            method=self.method,
            work=self._work(self.state),
            seconds=self.seconds,
            id=self._id,
            origin=self.experiment,
        )

    def _end_of_many(self) -> list[tuple[float, int, PyTree[np.ndarray]]]:
        """The last checkpoint of a run that was asked for a number of them and ended before its time."""
        wanted, last = self.experiment.checkpoints, len(self.observations) - 1
        if not isinstance(wanted, int) or not wanted or last in self._kept:
            return []
        assert self.state is not None
        return [(*self.observations[-1][:2], self.state.params)]

    def _work(self, state: State) -> dict[str, int]:
        """What it has cost, without the past, as the seconds are."""
        alone = dataclasses.replace(state, step=state.step - self._origin)
        return {name: int(value) for name, value in self.dynamics.work(alone).items()}


class Batch:
    """Lanes of one structure, moved as one compiled program.

    `shared`: all lanes have the same data, of which there is then one copy, so that their matrix-vector products are
    one matrix-matrix product.
    """

    def __init__(self, lanes: Sequence[Lane], shared: bool = False):
        self.lanes = list(lanes)
        self._alone = len(self.lanes) == 1 and not shared
        problems = [lane.problem for lane in self.lanes]
        nouns = (
            self._stack([lane.traced for lane in self.lanes]),
            self._stack([eqx.tree_at(lambda p: p.data, problem, None) for problem in problems]),
            problems[0].data if shared else self._stack([problem.data for problem in problems]),
        )
        self._arrays, others = eqx.partition(nouns, eqx.is_array)
        self._frame = _Frame("alone" if self._alone else "shared" if shared else "own", others)

    def _stack(self, trees: Sequence[PyTree]) -> PyTree:
        """Trees of arrays as one tree whose arrays have the lanes as their first axis."""
        if self._alone:
            return trees[0]
        return jax.tree.map(lambda *x: _stacked(x) if eqx.is_array(x[0]) else x[0], *trees)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(self._frame, self._arrays, *arguments)

    def run(self, ended: Callable[[Lane], None], show: Callable[[], None]) -> None:
        """Go on until all lanes have ended; `ended` is called with each as it does, `show` now and then.

        Compiled code cannot be interrupted, so it is called for about a quarter of a second at a time: how many steps
        that is, is measured on the way and does not change the result.
        """
        began = time.monotonic()
        params, keys = (self._stack([getattr(lane, name) for lane in self.lanes]) for name in ("params", "key"))
        states = self._resumed(self._call(_start, params, keys))
        self._observe(states, self._going)  # first of all, so that there is something to keep
        states = self._call(_advance, states, self._goals(self.lanes[0]._origin), np.asarray(0))  # compiles only
        self._share_time(time.monotonic() - began)
        limit, shown = 1000, began
        while going := self._going:
            due = self._due(going)
            goals = self._goals(due[0].next_target if self._lockstep else None)
            while True:
                began, before = time.monotonic(), np.asarray(states.step)
                states = jax.block_until_ready(self._call(_advance, states, goals, np.asarray(limit)))
                step, seconds = np.asarray(states.step), time.monotonic() - began
                self._share_time(seconds)
                if time.monotonic() - shown >= _SECONDS_A_LOOK:
                    shown = time.monotonic()
                    for lane in going:
                        lane.position = float(step.max()) if self._lockstep else 0.0
                    show()
                made = int(np.max(step - before))
                if made < limit:  # all stopped by themselves: at their targets, or in trouble
                    break
                limit = int(np.clip(_SECONDS_A_CALL * made / seconds, 1, 1e9))
            self._observe(states, due)
            for lane in due:
                if lane.status:
                    ended(lane)
        show()

    def _resumed(self, states: State) -> State:
        """The states at the start, those of lanes that go on from other runs as these left them."""
        if all(lane.past.run is None for lane in self.lanes):
            return states
        if self._alone:
            return self.lanes[0].resumed(states)
        each = [jax.tree.map(lambda x, k=k: x[k], states) for k in range(len(self.lanes))]
        return self._stack([lane.resumed(state) for lane, state in zip(self.lanes, each, strict=True)])

    @property
    def _going(self) -> list[Lane]:
        return [lane for lane in self.lanes if not lane.status]

    @property
    def _lockstep(self) -> bool:
        """Whether lanes make their steps together, each observed when its turn comes; else each goes its own pace."""
        return self.lanes[0].dynamics.in_steps

    def _due(self, going: list[Lane]) -> list[Lane]:
        """The lanes that are observed next."""
        if not self._lockstep:
            return going
        first = min(lane.next_target for lane in going)
        return [lane for lane in going if lane.next_target == first]

    def _goals(self, common: Any = None) -> np.ndarray:
        """Where each lane is to go: the `common` place, or its own next one; a lane that has ended stays."""
        goals = [0 if lane.status else lane.next_target if common is None else common for lane in self.lanes]
        return np.asarray(goals[0] if self._alone else goals, self.lanes[0].targets.dtype)

    def _observe(self, states: State, due: list[Lane]) -> None:
        held = jax.device_get((states.params, states.memory, states.step, self._call(_observe, states)))
        chosen = set(map(id, due))
        for k, lane in enumerate(self.lanes):
            if id(lane) in chosen:
                # Copied: a view would keep the batch's buffers alive, many times the size of what is in it.
                mine = jax.tree.map(lambda x, k=k: np.array(x if self._alone else x[k]), held)
                params, memory, step, seen = mine
                lane.see(State(params, memory, step, lane.key), seen)

    def _share_time(self, seconds: float) -> None:
        going = self._going
        for lane in going:
            lane.seconds += seconds / len(going)


# ------------------------------------------------------------------------------------------- compiled functions


@dataclasses.dataclass(frozen=True)
class _Frame:
    """What the compiled functions of a batch are made for: `how` lanes go, and all of their nouns but the arrays.

    Compared and hashed once a batch, not at every call.
    """

    how: str
    others: Any

    @functools.cached_property
    def _key(self) -> Hashable:
        leaves, tree = jax.tree.flatten(self.others)
        return self.how, tree, tuple(leaves)

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Frame) and self._key == other._key)

    def by_lane(self, function: Callable[..., Any], arrays: PyTree[Array], *arguments: Any) -> Any:
        """function(dynamics, problem, *arguments) of every lane."""

        def of_one(dynamics: Any, problem: Any, data: Any, *arguments: Any) -> Any:
            whole = eqx.tree_at(lambda p: p.data, problem, data, is_leaf=lambda x: x is None)
            return function(dynamics, whole, *arguments)

        dynamics, problem, data = eqx.combine(arrays, self.others)
        if self.how == "alone":
            return of_one(dynamics, problem, data, *arguments)
        each = eqx.if_array(0)
        in_axes = (each, each, None if self.how == "shared" else each, *(each for _ in arguments))
        return eqx.filter_vmap(of_one, in_axes=in_axes)(dynamics, problem, data, *arguments)


@functools.partial(jax.jit, static_argnums=0)
def _start(frame: _Frame, arrays: PyTree[Array], params: PyTree[Array], keys: Key[Array, ...]) -> State:
    return frame.by_lane(lambda d, p, *at: d.start(p, *at), arrays, params, keys)


@functools.partial(jax.jit, static_argnums=0)
def _advance(frame: _Frame, arrays: PyTree[Array], states: State, goals: Array, limit: Int[Array, ""]) -> State:
    return frame.by_lane(lambda d, p, s, goal: d.advance(p, s, goal, limit), arrays, states, goals)


@functools.partial(jax.jit, static_argnums=0)
def _observe(frame: _Frame, arrays: PyTree[Array], states: State) -> dict[str, Array]:
    def seen(dynamics: Dynamics, problem: Problem, state: State) -> dict[str, Array]:
        told = {"log10_time": dynamics.log10_time(state), "trouble": dynamics.trouble(state)}
        return {**problem.observe(state.params), **told}

    return frame.by_lane(seen, arrays, states)


def _stacked(arrays: Sequence[Array]) -> Array:
    """Arrays as one; by NumPy, which compiles nothing for it, but for random keys, which only JAX knows."""
    if jax.dtypes.issubdtype(arrays[0].dtype, jax.dtypes.prng_key):
        return jnp.stack(arrays)
    return jnp.asarray(np.stack(arrays))


def _storable(array: np.ndarray) -> np.ndarray:
    """An array as NumPy's files hold it: what only JAX has a type for, such as bfloat16, in single precision."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def numbers_as_arrays(spec: Any, params: PyTree[Array]) -> Any:
    """A noun with its numbers as arrays, so that changing a number does not compile anything again."""
    dtype = jax.tree.leaves(params)[0].dtype
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if type(leaf) is float else leaf, spec)
