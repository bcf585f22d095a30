"""Gradient flow, dθ/dt = −∇(loss + β·penalty), by whatever method suits the problem."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from afterfit._base.errors import require
from afterfit.dynamics._base import STOPS, Dynamics, State
from afterfit.dynamics._methods import FlowToFollow, Method
from afterfit.dynamics._problem import Problem
from afterfit.models._inputs import as_inputs

__all__ = ["Continuous", "GradientFlow"]

_EARLIEST = 1e-290  # 10⁻⁸ of which is still a number with all its digits
_FINEST = 1e-6  # the smallest error of a step that single precision, with its seven digits, can still measure


class Continuous(Dynamics):
    """A dynamics in continuous time, followed with an error of `rtol` and `atol` a step until time `until`.

    `until="settled"` ends the run once the parameters have come to rest: not before
    the penalty had ten times its time scale 1/β to act (without a penalty, before the loss is 10⁻⁶ of the initial one),
    and when the last doubling of time moved the parameters by less than 10⁻⁴ of their norm. `until="certain"` ends it
    there, or earlier, once the data are fitted and the model has generalised and both have lasted while time grew
    tenfold. It gives up at `horizon`.
    A run that needs more than `max_steps` steps stops there, keeps its curves, and says so. The first observation is
    at `first` (10⁻⁸ of the end when not given).
    """

    until: float | str
    rtol: float | None = None
    atol: float = 1e-9
    max_steps: int = 1_000_000
    first: float | None = None
    horizon: float | None = None
    method: str = "auto"

    def __check_init__(self):
        if self.method != "auto":
            Method.named(self.method)
        if isinstance(self.until, str):
            require(self.until in STOPS, f'until must be a time, "settled" or "certain", got {self.until!r}.')
        elif isinstance(self.until, float):
            require(self.until > 0, f"until must be a positive time, got {self.until}.")
            require(
                self.horizon is None,
                f'horizon is for until="settled" or "certain"; with a time, {self.until}, leave it out, got '
                f"{self.horizon}.",
            )
        for name in ("rtol", "atol", "horizon"):
            value = getattr(self, name)
            require(not isinstance(value, float) or value > 0, f"{name} must be positive, got {value}.")
        require(self.max_steps >= 1, f"max_steps must be 1 or more, got {self.max_steps}.")
        end = self.horizon if isinstance(self.until, str) else self.until
        if isinstance(self.first, float) and isinstance(end, float):
            require(
                0 < self.first < end,
                f"the first observation must lie between 0 and until={end}, got first={self.first}.",
            )
        for name, time in (("until", end), ("first", self.first)):
            require(
                not isinstance(time, float) or time >= _EARLIEST,
                f"times are told apart from {_EARLIEST} on: {name} must be at least that, got {time}.",
            )

    @property
    def end(self) -> float:
        end = self.horizon if isinstance(self.until, str) else self.until
        assert end is not None, "resolve() gives a settling run its horizon"
        return end

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        require(
            problem.task.precision == "double" or self.rtol is None or self.rtol >= _FINEST,
            f"an error of rtol={self.rtol} a step is less than single precision can tell: choose {_FINEST} or more, or "
            'precision="double" on the task.',
        )
        require(
            not as_inputs(problem.data.inputs).on_disk,
            f"{type(self).__name__} needs all inputs at once, which are in a memory-mapped file: train by steps of an "
            "optimiser, or give them in memory, np.array(X).",
        )

    @property
    def company(self) -> tuple[type[Method], ...]:
        """The methods from outside afterfit that may follow it."""
        others = (method for method in Method.known() if method.__module__.partition(".")[0] != "afterfit")
        return tuple(method for method in others if self.method in ("auto", method.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), vars(self), self.company)

    def targets(self, observations: int) -> np.ndarray:
        return np.geomspace(self.first or 1e-8 * self.end, self.end, observations)

    def position(self, state: State) -> Array:
        return state.memory.time

    def log10_time(self, state: State) -> Float[Array, ""]:
        return jnp.log10(state.memory.time)

    def trouble(self, state: State) -> Array:
        return state.memory.stuck & (state.memory.time < self.end)

    @property
    def stops(self) -> str | None:
        return self.until if isinstance(self.until, str) else None

    @property
    def afterword(self) -> str:
        return f"not {self.stops} by its horizon, t={self.end:.3g}." if self.stops else ""

    def work(self, state: State) -> dict[str, Array]:
        flow = state.memory
        return {
            "steps_accepted": state.step - flow.rejected,
            "steps_rejected": flow.rejected,
            "right_hand_sides": flow.right_hand_sides,
            "linear_solves": flow.linear_solves,
        }

    @property
    def knob(self) -> str:
        return (
            f"a larger dynamics.max_steps (now {self.max_steps}), a looser dynamics.rtol, "
            "or a smaller penalty or initialisation"
        )


def _unpickled(kind: type[Continuous], fields: dict[str, Any], company: tuple[type[Method], ...]) -> Continuous:
    """A flow as it was pickled, and the methods that may follow it known, which a helper may not have met."""
    for method in company:
        method.know()
    flow = object.__new__(kind)
    vars(flow).update(fields)
    return flow


class GradientFlow(Continuous):
    """Gradient flow: the limit of gradient descent as its step goes to 0, on the same clock.

    `method` is how it is followed. `"auto"` chooses from the problem, and the run's `method` says what and why;
    `af.dynamics.Method.in_turn()` are all there are, and docs/flows.md says what each is for.

    ```python
    GradientFlow(until=2e4)
    ```
    """

    follows_flow = True
    meaning: ClassVar[int] = 2  # in 1 no tolerance was one of the outputs

    def resolve(self, problem: Problem, params: PyTree[Array]) -> tuple[GradientFlow, str]:
        flow = FlowToFollow(problem, params, self.horizon if isinstance(self.until, str) else self.until)
        method, why = choose(flow) if self.method == "auto" else (Method.named(self.method), "asked for")
        rtol = method.tolerance(flow, self.atol) if self.rtol is None else self.rtol
        horizon = flow.horizon if flow.until is None else self.horizon
        return self.replace(method=method.name, rtol=rtol, horizon=horizon), f"{method.name}: {why}"

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        super().check(problem, params)
        if self.method != "auto":
            obstacle = Method.named(self.method).obstacle(problem, params)
            others = [method.name for method in Method.in_turn() if method.obstacle(problem, params) is None]
            require(
                obstacle is None,
                f"method {self.method!r} cannot follow this flow: {obstacle}. Here choose auto or one of: "
                f"{', '.join(others)}.",
            )

    @property
    def _method(self) -> Method:
        assert self.rtol is not None, "resolve() gives a flow its tolerance"
        return Method.named(self.method)(self.rtol, self.atol, self.max_steps)

    def start(self, problem: Problem, params: PyTree[Array], key: Key[Array, ""]) -> State:
        return State(params, self._method.start(problem, params), jnp.zeros((), jnp.int64), key)

    def advance(self, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
        return self._method.advance(problem, state, target, state.step + limit)


def choose(flow: FlowToFollow) -> tuple[type[Method], str]:
    """The method for this flow, and why."""
    possible = (method for method in Method.in_turn() if method.obstacle(flow.problem, flow.params) is None)
    return next((method, why) for method in possible if (why := method.preferred(flow)) is not None)
