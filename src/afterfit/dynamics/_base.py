"""What moves the parameters: discrete steps or continuous time, observed on one clock."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from afterfit._base.curves import TRAINING_TIME
from afterfit._base.errors import nearest, require
from afterfit._base.spec import Spec, later
from afterfit.dynamics._problem import Problem, norm

__all__ = ["Discrete", "Dynamics", "State"]

STOPS = ("settled", "certain")  # what may end a run before its end
_MOVED = 1e-4  # share of their norm by which parameters at rest may still move while time doubles


class State(eqx.Module):
    """Where a run is: parameters, what the dynamics remembers, and how many steps it has made."""

    params: PyTree[Array]
    memory: PyTree[Array]
    step: Int[Array, ""]
    key: Key[Array, ""]


class Remembered(NamedTuple):
    """What the dynamics of a run remembered at its end: the arrays, their `kind`, and the dynamics as plain data."""

    arrays: list[np.ndarray]
    kind: str
    dynamics: Mapping[str, Any]


class Dynamics(Spec):
    """A rule that moves parameters. Training time is the sum of the step sizes, for descent and flow alike.

    What is known of it beside its steps is for the class that writes them to say:

    - `follows_flow`: whether gradient flow describes it, at steps that are small enough.
    - `fits_at_once`: whether its first step fits the data.
    - `label_noise`: whether noise on the labels, new in every step, moves it among the solutions.
    """

    formula: ClassVar[tuple[str, ...]] = ("start", "advance", "remember", "step", "begin", "update")
    capabilities: ClassVar[tuple[str, ...]] = ("follows_flow", "fits_at_once", "label_noise")

    follows_flow: ClassVar[bool] = False
    fits_at_once: ClassVar[bool] = False
    label_noise: ClassVar[bool] = False
    clock: ClassVar[str] = TRAINING_TIME  # what the time of its curves is
    whole_numbers: ClassVar[tuple[str, ...]] = ()  # settings that do not change what a step is, and are not compiled in
    in_steps: ClassVar[bool] = False  # whether it makes steps that are counted, or goes through time at its own pace

    @property
    @abc.abstractmethod
    def end(self) -> float:
        """Where the run ends, in the unit of `position`: steps or time."""

    @property
    def uncompiled(self) -> dict[str, int]:
        """The whole numbers in which runs may differ that go together as one program, where they are given."""
        given = {name: getattr(self, name) for name in self.whole_numbers}
        return {name: number for name, number in given.items() if number is not None}

    @property
    def step_size(self) -> float | None:
        """The step of a discrete dynamics, None for a flow."""
        return None

    @abc.abstractmethod
    def targets(self, observations: int) -> np.ndarray:
        """Log-spaced positions at which to observe, the end included, the start not."""

    @abc.abstractmethod
    def start(self, problem: Problem, params: PyTree[Array], key: Key[Array, ""]) -> State:
        """The state at the initial parameters."""

    @abc.abstractmethod
    def advance(self, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
        """Move on to `target`, or by `limit` steps if that is sooner. Compiled as one loop."""

    @abc.abstractmethod
    def position(self, state: State) -> Array:
        """How far the state has come, in the unit of `end`."""

    @abc.abstractmethod
    def log10_time(self, state: State) -> Float[Array, ""]:
        """log₁₀ of the training time; −inf at the start."""

    def progress(self, position: float, observed: float) -> float:
        """The share of the work done, from the position and the share of observations made.

        The cost of continuous time is spread over its logarithm, so observations measure it best.
        """
        return observed

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        """Refuse a problem this dynamics cannot run, before any work."""
        return

    def resolve(self, problem: Problem, params: PyTree[Array]) -> tuple[Dynamics, str]:
        """This dynamics with everything decided that depends on the problem, and in words what was decided and why."""
        return self, ""

    def positions(self, times: np.ndarray, past: Remembered | None = None) -> np.ndarray:
        """Where given training times are reached, in the unit of `end`, of a run that goes on from `past`."""
        return times

    def check_past(self, past: Remembered | None) -> None:
        """Refuse to go on from there, or to begin, before any work."""
        return

    @property
    def memory_kind(self) -> str:
        """What tells its memory from that of another dynamics: a run goes on with a memory of its own kind."""
        return self.kind

    def resumed(self, state: State, step: int, past: Remembered) -> tuple[State, str]:
        """The state at the start of a run that goes on from another, which had made `step` steps.

        And in words what of the past it could not go on with, if that is worth saying. A flow has all it needs in its
        parameters.
        """
        return state, ""

    @property
    def stops(self) -> str | None:
        """What ends a run before its end: `"settled"`, `"certain"`, or nothing."""
        return None

    @property
    def decay(self) -> float:
        """Weight decay that is no penalty, as a rate in training time."""
        return 0.0

    def settled(self, problem: Problem, before: State, now: State, time: float, left: float) -> bool:
        """Whether the parameters have come to rest at `time`, having been at `before` at half of it.

        Not before the penalty had ten times its time scale to act; without one, before what is `left` of the initial
        loss is 10⁻⁶.
        """
        slow = problem.penalty.weakest or self.decay
        acted = time * slow >= 10 if slow > 0 else left <= 1e-6
        return acted and self.at_rest(before, now)

    def at_rest(self, before: State, now: State) -> bool:
        """Whether the parameters have hardly moved between two states."""
        moved = norm(jax.tree.map(jnp.subtract, now.params, before.params))
        return float(moved) <= _MOVED * float(norm(now.params))

    @property
    def afterword(self) -> str:
        """What to say of a run that went all the way to its end; mostly nothing."""
        return ""

    def trouble(self, state: State) -> Array:
        """Whether the dynamics itself has given up (a step size of zero, a step limit)."""
        return jnp.zeros((), bool)

    def complaint(self, state: State) -> tuple[str, str]:
        """The status and the message of a run that is in trouble."""
        return "step limit", (
            f"the integrator stopped at t={10 ** float(self.log10_time(state)):.3g} of {self.end:.3g} "
            f"after {int(state.step)} steps: try {self.knob}."
        )

    def work(self, state: State) -> dict[str, Array]:
        """What the run has cost so far."""
        return {"steps": state.step}

    @property
    def knob(self) -> str:
        """What to turn when a run diverges."""
        return "the step size"


class Discrete(Dynamics):
    """A dynamics made of steps. A new one is a subclass with `step`, and `remember` if it has a memory.

    `lr` is the step size (η, α or γ in the papers) and `steps` how many are made; training time is lr·steps. With
    `until="settled"` or `until="certain"` a run ends before that, as a flow's does: once its parameters have come to
    rest, or once its verdict is certain.
    """

    in_steps = True
    whole_numbers = ("steps",)

    lr: float
    steps: int
    until: str | None = later(None)

    def __check_init__(self):
        require(self.lr > 0, f"the step size lr must be positive, got {self.lr}.")
        require(self.steps >= 1, f"steps must be 1 or more, got {self.steps}.")
        if self.until is not None:
            require(self.until in STOPS, f"unknown until {self.until!r}: {nearest(self.until, STOPS)}")

    @abc.abstractmethod
    def step(
        self, problem: Problem, params: PyTree[Array], memory: Any, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Any]:
        """One step: new parameters and new memory. `key` is a fresh random key for this step."""

    def remember(self, problem: Problem, params: PyTree[Array]) -> Any:
        """The memory at the start."""
        return ()

    @property
    def end(self) -> float:
        return self.steps

    @property
    def step_size(self) -> float:
        return self.lr

    @property
    def stops(self) -> str | None:
        return self.until

    @property
    def afterword(self) -> str:
        return f"not {self.until} after {self.steps} steps." if self.until else ""

    def positions(self, times: np.ndarray, past: Remembered | None = None) -> np.ndarray:
        return np.ceil(times / self.lr - 1e-6).astype(np.int64)  # a millionth of a step is rounding

    def resumed(self, state: State, step: int, past: Remembered) -> tuple[State, str]:
        memory, said = self.recalled(state.memory, past)
        return State(state.params, memory, jnp.asarray(step, state.step.dtype), state.key), said

    def recalled(self, memory: Any, past: Remembered) -> tuple[Any, str]:
        """The memory of the past in place of that at the start, where it is of this kind; and what to say of it."""
        taken = refilled(memory, past.arrays) if past.kind == self.memory_kind else None
        return (memory if taken is None else taken), ""

    def targets(self, observations: int) -> np.ndarray:
        return np.unique(np.round(np.geomspace(1, self.steps, observations)).astype(np.int64))

    def start(self, problem: Problem, params: PyTree[Array], key: Key[Array, ""]) -> State:
        return State(params, self.remember(problem, params), jnp.zeros((), jnp.int64), key)

    def advance(self, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
        last = jnp.maximum(state.step, jnp.minimum(target, state.step + limit))

        def body(k: Int[Array, ""], carry: tuple[PyTree[Array], Any]) -> tuple[PyTree[Array], Any]:
            return self.step(problem, *carry, jax.random.fold_in(state.key, k))

        params, memory = jax.lax.fori_loop(state.step, last, body, (state.params, state.memory))
        return State(params, memory, last, state.key)

    def position(self, state: State) -> Array:
        return state.step

    def progress(self, position: float, observed: float) -> float:
        return position / self.steps

    def log10_time(self, state: State) -> Float[Array, ""]:
        return jnp.log10(state.step.astype(float) * self.lr)

    @property
    def knob(self) -> str:
        return f"a smaller step size: dynamics.lr={0.1 * self.lr:.2g}"


def refilled(tree: PyTree[Array], arrays: Sequence[np.ndarray]) -> PyTree[Array] | None:
    """A tree with other arrays in it, of the types that were there; None if their shapes do not fit."""
    leaves, structure = jax.tree.flatten(tree)
    if list(map(np.shape, arrays)) != list(map(jnp.shape, leaves)):
        return None
    return jax.tree.unflatten(structure, [jnp.asarray(new, old.dtype) for new, old in zip(arrays, leaves, strict=True)])
