"""Optimisers: what makes steps of gradients, of all examples or of mini-batches, at a step size that may change."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from afterfit._base.errors import require
from afterfit._base.spec import later
from afterfit.dynamics._base import Discrete, Remembered, State, refilled
from afterfit.dynamics._optax import as_recipe, codes_of, made, said_of
from afterfit.dynamics._problem import Problem

__all__ = ["Optimiser"]


class Epoch(NamedTuple):
    """Where in the data mini-batches are: how many were had in this epoch, and the order of the examples in it."""

    batches: Int[Array, ""]
    order: Int[Array, " n"]


class Clock(NamedTuple):
    """Where a schedule is: steps made, and the sum of its factors."""

    steps: Int[Array, ""]
    total: Float[Array, ""]


class Memory(NamedTuple):
    """What an optimiser remembers: its own memory, and of mini-batches and of a schedule where they are."""

    own: Any
    epoch: Epoch | None
    clock: Clock | None


@jax.custom_batching.sequential_vmap
def _order_of_epoch(batches: Int[Array, ""], key: Key[Array, ""], order: Int[Array, " n"]) -> Int[Array, " n"]:
    """The order of the examples: a new one at the begin of an epoch, else as it was.

    Lane by lane: of all lanes together both would be computed at every step, and the new one costs as much as a step.
    """
    return jax.lax.cond(batches == 0, lambda: jax.random.permutation(key, order), lambda: order)


def _parts(past: Remembered) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """The arrays that an optimiser remembered, as `Memory` has them: its settings say which of them there are."""
    epoch, clock = (2 * (past.dynamics.get(name) is not None) for name in ("batch", "schedule"))
    own = len(past.arrays) - epoch - clock
    return past.arrays[:own], past.arrays[own : own + epoch], past.arrays[own + epoch :]


class Optimiser(Discrete):
    """Steps made of gradients. A new one is a subclass with `update`, and `begin` if it has a memory.

    `batch` is how many examples a step sees, all of them where it is None. Every epoch goes through the data once in a
    new random order, and examples left over at its end are skipped (PyTorch's `drop_last=True`). The gradient of a
    batch is an unbiased estimate of the loss's, whether the task's loss is a sum or a mean; a penalty's is added to it.

    `schedule` is what `lr` is multiplied by at each step 0, 1, …: a schedule of Optax's, or any function of the step;
    in TOML a table with its name and arguments. Training time is the sum of the step sizes, here as elsewhere.

    ```python
    schedule = optax.warmup_cosine_decay_schedule(0.01, 1.0, 100, 10_000)
    af.dynamics.AdamW(1e-3, 10_000, batch=128, schedule=schedule)

    schedule = {"kind": "cosine_decay_schedule", "init_value": 1.0, "decay_steps": 10_000}  # the same in TOML
    af.dynamics.GradientDescent(0.1, 10_000, momentum=0.9, schedule=schedule)
    ```
    """

    told: ClassVar[tuple[str, ...]] = ("schedule",)

    batch: int | None = later(None)
    schedule: Any = later(None)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "schedule", as_recipe(self.schedule, "dynamics.schedule"))

    def __check_init__(self):
        require(self.batch is None or self.batch >= 1, f"batch must be 1 or more, got {self.batch}.")
        if self.schedule is not None:
            schedule = made(self.schedule, "dynamics.schedule")
            require(callable(schedule), f"schedule must be a function of the step, as Optax makes, got {schedule!r}.")

    @abc.abstractmethod
    def update(self, gradient: PyTree[Array], memory: Any, params: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """What to add to the parameters, `lr` included, and the new memory."""

    def begin(self, params: PyTree[Array]) -> Any:
        """The memory of `update` at the start."""
        return ()

    def remember(self, problem: Problem, params: PyTree[Array]) -> Memory:
        none, zero = None, jnp.zeros((), jnp.int64)
        return Memory(
            own=self.begin(params),
            epoch=none if self.batch is None else Epoch(zero, jnp.arange(problem.data.n)),
            clock=none if self.schedule is None else Clock(zero, jnp.zeros((), jnp.float64)),
        )

    def step(
        self, problem: Problem, params: PyTree[Array], memory: Memory, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Memory]:
        gradient, epoch = self._gradient(problem, params, memory.epoch, key)
        update, own = self.update(gradient, memory.own, params)
        clock = memory.clock
        if clock is not None:
            factor = self._factor(clock.steps)
            update = jax.tree.map(lambda u: factor.astype(u.dtype) * u, update)
            clock = Clock(clock.steps + 1, clock.total + factor)
        return jax.tree.map(lambda p, u: (p + u).astype(p.dtype), params, update), Memory(own, epoch, clock)

    def _gradient(
        self, problem: Problem, params: PyTree[Array], epoch: Epoch | None, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Epoch | None]:
        """The gradient, of the next mini-batch where there are such."""
        if epoch is None or self.batch is None:
            return problem.gradient(params), None
        batches, order = epoch
        order = _order_of_epoch(batches, key, order)
        examples = jax.lax.dynamic_slice(order, (batches * self.batch,), (self.batch,))
        batches = (batches + 1) % (problem.data.n // self.batch)
        return problem.batch_gradient(params, examples), Epoch(batches, order)

    def _factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """What the schedule says at a step."""
        return jnp.asarray(made(self.schedule, "dynamics.schedule")(step), jnp.float64)

    def log10_time(self, state: State) -> Float[Array, ""]:
        if state.memory.clock is None:
            return super().log10_time(state)
        return jnp.log10(state.memory.clock.total * self.lr)

    def recalled(self, memory: Memory, past: Remembered) -> tuple[Memory, str]:
        """Its own memory, the place in an epoch and that in a schedule, each where it fits."""
        if past.dynamics.get("kind") != self.kind:
            return memory, ""
        own, epoch, clock = _parts(past)
        mine = refilled(memory.own, own) if past.kind == self.memory_kind else None
        batches = refilled(memory.epoch, epoch) if past.dynamics.get("batch") == self.batch else None
        lost = mine is None and bool(own) and bool(jax.tree.leaves(memory.own))
        went_on = Memory(
            own=memory.own if mine is None else mine,
            epoch=batches or memory.epoch,
            clock=refilled(memory.clock, clock) or memory.clock,
        )
        return went_on, "what the optimiser remembered does not fit this one, which began without." if lost else ""

    def _first(self, past: Remembered | None) -> int:
        """The step at which its schedule is when a run begins, or goes on."""
        if past is None or past.dynamics.get("kind") != self.kind:
            return 0
        _, _, clock = _parts(past)
        return int(clock[0]) if clock else 0

    def positions(self, times: np.ndarray, past: Remembered | None = None) -> np.ndarray:
        if self.schedule is None:
            return super().positions(times)
        # From a step on, the sum of the factors of all steps before it and its own.
        steps = self._first(past) + jnp.arange(self.steps)
        reached = np.cumsum(jax.vmap(self._factor)(steps)) * self.lr
        return 1 + np.searchsorted(reached, times * (1 - 1e-9))

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        require(
            self.batch is None or self.batch <= problem.data.n,
            f"batch must be at most the number of examples, {problem.data.n}, got {self.batch}.",
        )

    def check_past(self, past: Remembered | None) -> None:
        if self.schedule is None:
            return
        begin = self._first(past)
        first, last = (float(self._factor(jnp.asarray(begin + k))) for k in (0, self.steps - 1))
        advice = f"The schedule goes on at step {begin}: give a longer one." if begin else "Begin a warm-up above 0."
        require(
            0 < first < math.inf and 0 <= last < math.inf,
            "a schedule multiplies lr by a finite factor, positive at the first step (else it moves nothing) and "
            f"0 or more at the last: got {first} and {last}. {advice}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Its settings; a schedule that was given as a function is told by a digest of its code."""
        said = super().to_dict()
        return said if self.schedule is None else {**said, "schedule": said_of(self.schedule)}

    def codes(self) -> Iterator[str]:
        yield from super().codes()
        yield from codes_of(self.schedule, "the schedule")
