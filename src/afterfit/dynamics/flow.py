"""Gradient flow, dθ/dt = −∇(loss + β·penalty), by an adaptive explicit Runge–Kutta method of Diffrax."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from afterfit.dynamics._base import Dynamics, State
from afterfit.problem import Problem
from afterfit.spec import require

__all__ = ["GradientFlow"]


class _Flow(eqx.Module):
    """What the integrator remembers between steps."""

    time: Float[Array, ""]
    dt: Float[Array, ""]
    solver: PyTree[Any]
    controller: PyTree[Any]
    rejected: Int[Array, ""]
    stuck: Bool[Array, ""]


class GradientFlow(Dynamics):
    """Gradient flow until time `until`, with relative and absolute error `rtol` and `atol` a step.

    The method is Tsitouras' 5(4) pair, explicit and adaptive. A run that needs more than `max_steps` steps stops
    there, keeps its curves, and says so. The first observation is at `first` (10⁻⁸·until when not given).

    ```python
    GradientFlow(until=2e4)
    ```
    """

    until: float
    rtol: float = 1e-6
    atol: float = 1e-9
    max_steps: int = 1_000_000
    first: float | None = None

    def __check_init__(self):
        require(0 < self.until < np.inf, f"until must be a positive time, got {self.until}.")
        require(self.rtol > 0 and self.atol > 0, f"rtol and atol must be positive, got {self.rtol}, {self.atol}.")
        require(self.max_steps >= 1, f"max_steps must be 1 or more, got {self.max_steps}.")
        require(
            self.first is None or 0 < self.first < self.until,
            f"the first observation must lie between 0 and until={self.until}, got first={self.first}.",
        )

    @property
    def end(self) -> float:
        return self.until

    def targets(self, observations: int) -> np.ndarray:
        return np.geomspace(self.first or 1e-8 * self.until, self.until, observations)

    def _method(self) -> tuple[Any, Any]:
        import diffrax  # on first use: half a second that discrete runs need not pay

        return diffrax.Tsit5(), diffrax.PIDController(rtol=self.rtol, atol=self.atol)

    def _terms(self) -> Any:
        import diffrax

        return diffrax.ODETerm(lambda t, params, problem: jax.tree.map(jnp.negative, problem.gradient(params)))

    def start(self, problem: Problem, params: PyTree[Array], key: Key[Array, ""]) -> State:
        solver, controller = self._method()
        dtype = jax.tree.leaves(params)[0].dtype
        terms, zero, end = self._terms(), jnp.zeros((), dtype), jnp.asarray(self.until, dtype)
        first, controller_state = controller.init(
            terms, zero, end, params, None, problem, solver.func, solver.error_order(terms)
        )
        flow = _Flow(
            time=zero,
            dt=first - zero,
            solver=solver.init(terms, zero, first, params, problem),
            controller=controller_state,
            rejected=jnp.zeros((), jnp.int64),
            stuck=jnp.zeros((), bool),
        )
        return State(params, flow, jnp.zeros((), jnp.int64), key)

    def advance(self, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
        solver, controller = self._method()
        terms = self._terms()
        last = state.step + limit
        target = target.astype(state.memory.time.dtype)

        def unfinished(state: State) -> Bool[Array, ""]:
            flow = state.memory
            return (flow.time < target) & (state.step < last) & ~flow.stuck

        def step(state: State) -> State:
            flow: _Flow = state.memory
            t0 = flow.time
            t1 = jnp.minimum(t0 + flow.dt, target)  # land on the observation instead of interpolating to it
            clipped = t1 == target
            params, error, _, solver_state, _ = solver.step(
                terms, t0, t1, state.params, problem, flow.solver, made_jump=False
            )
            keep, next_t0, next_t1, _, controller_state, _ = controller.adapt_step_size(
                t0, t1, state.params, params, problem, error, solver.error_order(terms), flow.controller
            )
            # A step cut short to land on an observation says little about how long the next one may be.
            dt = jnp.where(keep & clipped, jnp.maximum(flow.dt, next_t1 - next_t0), next_t1 - next_t0)

            def chosen(new: PyTree, old: PyTree) -> PyTree:
                return jax.tree.map(lambda n, o: jnp.where(keep, n, o), new, old)

            flow = _Flow(
                time=jnp.where(keep, t1, t0),
                dt=dt,
                solver=chosen(solver_state, flow.solver),
                controller=controller_state,
                rejected=flow.rejected + ~keep,
                stuck=(t0 + dt == t0) | ~jnp.isfinite(dt) | (state.step + 1 >= self.max_steps),
            )
            return State(chosen(params, state.params), flow, state.step + 1, state.key)

        return jax.lax.while_loop(unfinished, step, state)

    def position(self, state: State) -> Array:
        return state.memory.time

    def log10_time(self, state: State) -> Float[Array, ""]:
        return jnp.log10(state.memory.time)

    def trouble(self, state: State) -> Array:
        return state.memory.stuck & (state.memory.time < self.until)

    def work(self, state: State) -> dict[str, Array]:
        rejected = state.memory.rejected
        return {
            "steps_accepted": state.step - rejected,
            "steps_rejected": rejected,
            "right_hand_sides": 6 * state.step + 1,
        }

    @property
    def knob(self) -> str:
        return (
            f"a larger dynamics.max_steps (now {self.max_steps}), a looser dynamics.rtol, "
            "or a smaller penalty or initialisation"
        )
