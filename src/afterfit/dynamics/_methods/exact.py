"""Closed forms: linear regression with weight decay, and any model that is linear in its parameters."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._base import State
from afterfit.dynamics._methods._base import FlowState, FlowToFollow, Method
from afterfit.dynamics._problem import Problem

__all__ = ["Exact"]

_LARGEST = 4000  # numbers in the data whose kernel is diagonalised once


class _Modes(eqx.Module):
    """The start, and the directions in which outputs move on their own: K = Q diag(κ) Qᵀ."""

    initial: PyTree[Array]
    Q: Float[Array, "m m"]
    rates: Float[Array, " m"]  # of the loss alone: 2cκ
    initial_outputs: Float[Array, " m"]  # QᵀJθ₀
    missing: Float[Array, " m"]  # Qᵀ(outputs at θ = 0 minus targets)


class Exact(Method):
    """The closed form, for models linear in their parameters with squared loss and weight decay or no penalty.

    Boursier et al. 2025, (23)–(24), for outputs Jθ + b, c·‖Jθ + b − y‖² and weight decay λ.

    θ(t) = e^{−λt}θ₀ + Jᵀν(t), and ν solves a linear equation that the eigenvectors of K = JJᵀ take apart. (Their (23)
    has the rate σ² + λ, which is that of ½‖Xw − y‖²; in general it is 2cσ² + λ.)
    """

    name = "exact"
    turn = 0

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        if not problem.model.linear:
            return f"it is for models that are linear in their parameters, not {type(problem.model).__name__}"
        if problem.task.loss.form != "squared":
            return "it is for squared losses"
        if problem.penalty.decay is None:
            return f"it knows weight decay (L2) or no penalty, not {type(problem.penalty).__name__}"
        m = jax.eval_shape(lambda p: tangent.outputs(problem, p), params).size
        return f"the data hold {m} numbers, too many to diagonalise" if m > _LARGEST else None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> str:
        return "the model is linear in its parameters and the loss squared, so the flow has a closed form"

    def start(self, problem: Problem, params: PyTree[Array]) -> FlowState:
        K = tangent.kernel(problem, params)
        kappa, Q = jnp.linalg.eigh(K)
        at = tangent.linearise(problem, params)
        c2 = tangent.curvature(problem, at.value)[0, 0, 0]  # 2c, the same for every example of a squared loss
        moving = at.push_forward(params)
        modes = _Modes(
            initial=params,
            Q=Q,
            rates=c2 * jnp.maximum(kappa, 0),
            initial_outputs=c2 * Q.T @ moving.ravel(),
            missing=c2 * Q.T @ (at.value - moving - tangent.targets(problem)).ravel(),
        )
        return FlowState.begin(modes)

    def advance(self, problem: Problem, state: State, target: Array, last: Int[Array, ""]) -> State:
        modes: _Modes = state.memory.place
        decay = problem.penalty.decay
        assert decay is not None, "an obstacle to any other penalty"
        moves = (target > state.memory.time) & (state.step < last)
        t = jnp.where(moves, target, state.memory.time).astype(modes.rates.dtype)
        shrink = jnp.exp(-decay * t)
        nu = -modes.Q @ (
            shrink * _relaxed(modes.rates, t) * modes.initial_outputs + _relaxed(modes.rates + decay, t) * modes.missing
        )
        at = tangent.linearise(problem, modes.initial)
        pulled = at.pull_back(nu.reshape(at.value.shape))
        params = jax.tree.map(lambda start, pull: shrink * start + pull, modes.initial, pulled)
        flow = eqx.tree_at(
            lambda flow: (flow.time, flow.linear_solves),
            state.memory,
            (t.astype(jnp.float64), jnp.ones_like(state.memory.linear_solves)),
        )
        return State(params, flow, state.step + moves, state.key)


def _relaxed(rate: Float[Array, " m"], t: Float[Array, ""]) -> Float[Array, " m"]:
    """∫₀ᵗ e^{−rate·s} ds, which is t where the rate is 0."""
    still = rate * t < 1e-12
    return jnp.where(still, t, -jnp.expm1(-rate * t) / jnp.where(still, 1.0, rate))
