"""Gradient flow, dθ/dt = −∇(loss + β·penalty), by whatever method suits the problem."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from afterfit._base.errors import require
from afterfit.dynamics._base import STOPS, Dynamics, Remembered, State
from afterfit.dynamics._methods import FlowState, FlowToFollow, Method
from afterfit.dynamics._problem import Problem, norm
from afterfit.models._inputs import as_inputs

__all__ = ["Continuous", "GradientFlow", "LossScaledFlow"]

_EARLIEST = 1e-290  # 10⁻⁸ of which is still a number with all its digits
_FINEST = 1e-6  # the smallest error of a step that single precision, with its seven digits, can still measure
_BEYOND = 1e-3  # share of log(1 + t) that steps in logarithmic time aim beyond an observation, to arrive there at once
_OF_GRADIENTS = ("stabilised", "explicit")  # methods that ask a problem for its gradient and nothing else
_LOG10 = float(np.log(10.0))


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


class LossScaledFlow(Continuous):
    """Gradient flow with time kept in logarithms: `LossScaledDescent` as its step goes to 0.

    Once a classifier fits its data, its loss L falls without end and t leaves the range of floating-point numbers. The
    flow is followed in another time, s with dt = ds/L, in which it is θ' = −∇log L: the same path, at a pace that does
    not die out. `until` and `first` are log₁₀(1 + t), which is log₁₀ t but for the beginning: `until=1e3` is
    t = 10^1000. The curves carry log₁₀ t. Observations are log-spaced in that number, and come at it or a little later.

    The curvature of log L grows like log t: `method` is `"stabilised"`, whose cost is like its square root, or
    `"explicit"`. Without penalty only, as `LossScaledDescent`.

    ```python
    LossScaledFlow(until=1e3)
    ```
    """

    def __check_init__(self):
        require(
            not isinstance(self.until, str),
            f"LossScaledFlow has no rest to come to: until is a number, log₁₀(1 + t), got {self.until!r}.",
        )

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        super().check(problem, params)
        require(problem.penalty.weakest == 0, "LossScaledFlow goes down the loss alone: leave the penalty out.")
        require(
            self.method in ("auto", *_OF_GRADIENTS),
            f"LossScaledFlow is followed by one of: {', '.join(_OF_GRADIENTS)}, not by {self.method!r}, which needs "
            "more of a problem than the gradient of log L.",
        )

    def resolve(self, problem: Problem, params: PyTree[Array]) -> tuple[LossScaledFlow, str]:
        method, why = (_OF_GRADIENTS[0], "the curvature of log L grows") if self.method == "auto" else (self.method, "")
        rtol = Method.named(method).default_rtol if self.rtol is None else self.rtol
        return self.replace(method=method, rtol=rtol), f"{method}: {why or 'asked for'}"

    @property
    def _method(self) -> Method:
        assert self.rtol is not None, "resolve() gives a flow its tolerance"
        return Method.named(self.method)(self.rtol, self.atol, self.max_steps)

    def start(self, problem: Problem, params: PyTree[Array], key: Key[Array, ""]) -> State:
        flow = self._method.start(_LogLoss.of(problem), params)
        memory = _LogClock(flow, jnp.asarray(-jnp.inf, jnp.float64), *_log_loss_and_fall(problem, params))
        return State(params, memory, jnp.zeros((), jnp.int64), key)

    def advance(self, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
        scaled, method, last = _LogLoss.of(problem), self._method, state.step + limit
        goal = target.astype(jnp.float64) * _LOG10  # log(1 + t)

        def unfinished(state: State) -> Bool[Array, ""]:
            early = jnp.logaddexp(0.0, state.memory.log_time) < goal
            return early & (state.step < last) & ~state.memory.flow.stuck

        def step(state: State) -> State:
            clock: _LogClock = state.memory
            there = jnp.maximum(
                clock.flow.time + clock.wait((1 + _BEYOND) * goal), jnp.nextafter(clock.flow.time, jnp.inf)
            )
            moved = method.advance(
                scaled, State(state.params, clock.flow, state.step, state.key), there, state.step + 1
            )
            log_loss, fall = _log_loss_and_fall(problem, moved.params)
            # Small errors of the parameters may be large ones of their margins: what the flow lowers, a step has to.
            keep = (moved.memory.time == clock.flow.time) | (log_loss <= clock.log_loss)
            params, clock = jax.tree.map(
                lambda new, old: jnp.where(keep, new, old),
                (moved.params, clock.moved(moved.memory, log_loss, fall)),
                (state.params, clock.refused(moved.memory)),
            )
            return State(params, clock, moved.step, state.key)

        return jax.lax.while_loop(unfinished, step, state)

    def position(self, state: State) -> Array:
        return jnp.logaddexp(0.0, state.memory.log_time) / _LOG10

    def positions(self, times: np.ndarray, past: Remembered | None = None) -> np.ndarray:
        return np.log1p(times) / _LOG10

    def log10_time(self, state: State) -> Float[Array, ""]:
        return state.memory.log_time / _LOG10

    def trouble(self, state: State) -> Array:
        return state.memory.flow.stuck & (self.position(state) < self.end)

    def complaint(self, state: State) -> tuple[str, str]:
        return "step limit", (
            f"the integrator stopped at log₁₀ t={float(self.log10_time(state)):.4g} of {self.end:.4g} after "
            f"{int(state.step)} steps: try {self.knob}."
        )

    def work(self, state: State) -> dict[str, Array]:
        return super().work(eqx.tree_at(lambda s: s.memory, state, state.memory.flow))

    @property
    def knob(self) -> str:
        return f"a larger dynamics.max_steps (now {self.max_steps}), or a looser dynamics.rtol"


class _LogLoss(Problem):
    """A problem that goes down log L in place of L."""

    @classmethod
    def of(cls, problem: Problem) -> _LogLoss:
        return cls(problem.task, problem.model, problem.penalty, problem.data)

    def gradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return jax.grad(self.log_loss)(params)


def _log_loss_and_fall(problem: Problem, params: PyTree[Array]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log L and −d(log L)/ds = ‖∇log L‖²."""
    log_loss, gradient = jax.value_and_grad(problem.log_loss)(params)
    return log_loss.astype(jnp.float64), norm(gradient).astype(jnp.float64) ** 2


class _LogClock(eqx.Module):
    """A flow in s, log t beside it, log L there and how fast it falls in s; all in double precision."""

    flow: FlowState
    log_time: Float[Array, ""]
    log_loss: Float[Array, ""]
    fall: Float[Array, ""]

    def wait(self, goal: Float[Array, ""]) -> Float[Array, ""]:
        """How long it is in s until log(1 + t) is `goal`, if log L goes on falling as it does."""
        end = goal + jnp.log(-jnp.expm1(-goal))  # log t then
        log_left = end + jnp.log(-jnp.expm1(jnp.minimum(self.log_time - end, 0.0)))
        # 1/L grows like e^{fall·s}, so that t − t₀ = (e^{fall·s} − 1)/(fall·L).
        log_even = log_left + self.log_loss  # log s, if L stayed as it is
        growing = jnp.logaddexp(0.0, log_even + jnp.log(self.fall)) / self.fall
        wait = jnp.where(log_even + jnp.log(self.fall) < -30, jnp.exp(log_even), growing)
        return jnp.where(jnp.isnan(wait), jnp.inf, wait)

    def refused(self, flow: FlowState) -> _LogClock:
        """The clock before a step that is not taken: the next is half as long."""
        half = 0.5 * (flow.time - self.flow.time)
        again = eqx.tree_at(
            lambda f: (f.place.dt, f.rejected, f.right_hand_sides, f.stuck),
            self.flow,
            (
                half,
                flow.rejected + 1,
                flow.right_hand_sides + 1,
                flow.stuck | (self.flow.time + half == self.flow.time),
            ),
        )
        return _LogClock(again, self.log_time, self.log_loss, self.fall)

    def moved(self, flow: FlowState, log_loss: Float[Array, ""], fall: Float[Array, ""]) -> _LogClock:
        """The clock after a step, over which log L is taken for a straight line: t grows by ∫ds/L."""
        rise = self.log_loss - log_loss
        size = jnp.maximum(jnp.abs(rise), 1e-9)
        log_mean = jnp.maximum(rise, 0.0) + jnp.log(-jnp.expm1(-size) / size)  # of e^{rise·x} over x from 0 to 1
        log_passed = jnp.log(flow.time - self.flow.time) - self.log_loss + log_mean
        flow = eqx.tree_at(lambda f: f.right_hand_sides, flow, flow.right_hand_sides + 1)
        return _LogClock(flow, jnp.logaddexp(self.log_time, log_passed), log_loss, fall)
