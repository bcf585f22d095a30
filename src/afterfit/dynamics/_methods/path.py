"""The exact path of linear regression under an L1 penalty, from one change of sign to the next."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._base import State
from afterfit.dynamics._methods._base import FlowState, FlowToFollow, Method
from afterfit.dynamics._problem import Problem, design_matrix

__all__ = ["Path"]

_LARGEST = 2000  # weights whose normal matrix is diagonalised at every event
_LOOKS = 96  # times between two events at which signs are looked at
_HALVINGS = 60


class _Stretch(eqx.Module):
    """The weights since the last event: a(τ) = a + Q φ(κ, τ) Qᵀv, moving (sign ±1) or resting at 0 (sign 0)."""

    weights: Float[Array, " n"]
    signs: Float[Array, " n"]
    kappa: Float[Array, " n"]
    Q: Float[Array, "n n"]
    velocity: Float[Array, " n"]
    began: Float[Array, ""]


class Path(Method):
    """Exact from one change of sign to the next, for `Linear` with squared loss under `L1`.

    It is driven by events, an event being a weight that reaches 0 or leaves it.

    The flow of c‖Xa − y‖² + β‖a‖₁ is a differential inclusion: with g = −2cXᵀ(Xa − y), a weight moves by
    g_i − β·sign(a_i), and rests at 0 as long as |g_i| ≤ β. While no sign changes the moving weights follow a linear
    equation: fast modes die out, and along the null space of X the weights drift on straight lines in slow time βt.
    Events are looked for at 96 log-spaced times and then bisected.
    """

    name = "path"
    turn = 10

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        if not problem.model.direct or problem.penalty.norm != "l1":
            return "it is for models.Linear under penalties.L1"
        if problem.task.loss.form != "squared":
            return "it is for squared losses"
        size = params["weights"].size
        return f"it diagonalises a matrix as large as the {size} weights" if size > _LARGEST else None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> str:
        return "linear regression under L1 is exact from one change of sign to the next"

    def start(self, problem: Problem, params: PyTree[Array]) -> FlowState:
        weights = params["weights"].ravel().astype(jnp.float64)  # events are told apart by the last digits of double
        pull = _Regression(problem).pull(weights)
        signs = jnp.where(weights != 0, jnp.sign(weights), _leaving(pull, problem.penalty.strength))
        return FlowState.begin(_stretch(problem, weights, signs, jnp.zeros(())))

    def advance(self, problem: Problem, state: State, target: Array, last: Int[Array, ""]) -> State:
        target = target.astype(jnp.float64)

        def unfinished(state: State) -> Bool[Array, ""]:
            return (state.memory.time < target) & (state.step < last) & ~state.memory.stuck

        def onwards(state: State) -> State:
            flow: FlowState = state.memory
            stretch, event, time = _next(problem, flow.place, flow.time, target)
            weights = _at(flow.place, time - flow.place.began)
            weights = jnp.where(event, stretch.weights, weights)
            place = jax.tree.map(lambda new, old: jnp.where(event, new, old), stretch, flow.place)
            flow = FlowState(
                time=time,
                place=place,
                rejected=flow.rejected,
                right_hand_sides=flow.right_hand_sides,
                linear_solves=flow.linear_solves + event,
                stuck=state.step + 1 >= self.max_steps,
            )
            before = state.params["weights"]
            params = {"weights": weights.reshape(before.shape).astype(before.dtype)}
            return State(params, flow, state.step + 1, state.key)

        return jax.lax.while_loop(unfinished, onwards, state)


class _Regression(eqx.Module):
    """G = 2cXᵀX and 2cXᵀy."""

    G: Float[Array, "n n"]
    target: Float[Array, " n"]

    def __init__(self, problem: Problem):
        X, y = (array.astype(jnp.float64) for array in (design_matrix(problem), tangent.targets(problem)))
        factor = jax.grad(lambda o: problem.task.loss(o, jnp.zeros_like(y), problem.data.n))(jnp.ones_like(y))[0]
        self.G, self.target = factor * X.T @ X, factor * X.T @ y

    def pull(self, weights: Float[Array, "*times n"]) -> Float[Array, "*times n"]:
        """g, what the loss pulls each weight with."""
        return self.target - weights @ self.G


def _leaving(pull: Float[Array, " n"], beta: float | Array) -> Float[Array, " n"]:
    """The sign with which a weight leaves 0; 0 if it stays."""
    return jnp.where(jnp.abs(pull) > beta, jnp.sign(pull), 0.0)


def _stretch(problem: Problem, weights: Float[Array, " n"], signs: Float[Array, " n"], began: Array) -> _Stretch:
    regression = _Regression(problem)
    moving = signs != 0
    kappa, Q = jnp.linalg.eigh(jnp.where(moving[:, None] & moving, regression.G, 0.0))
    velocity = moving * (regression.pull(weights) - problem.penalty.strength * signs)
    return _Stretch(weights, signs, jnp.maximum(kappa, 0), Q, velocity, jnp.asarray(began, jnp.float64))


def _at(stretch: _Stretch, tau: Float[Array, " *times"]) -> Float[Array, "*times n"]:
    """The weights a time τ after the stretch began."""
    tau = jnp.asarray(tau)[..., None]
    rate = stretch.kappa * tau
    still = rate < 1e-12
    travelled = jnp.where(still, tau, -jnp.expm1(-rate) / jnp.where(still, 1.0, stretch.kappa))
    moved = stretch.weights + (travelled * (stretch.velocity @ stretch.Q)) @ stretch.Q.T
    return jnp.where(stretch.signs != 0, moved, 0.0)  # at rest is at 0, not near it


def _next(
    problem: Problem, stretch: _Stretch, now: Float[Array, ""], target: Float[Array, ""]
) -> tuple[_Stretch, Bool[Array, ""], Float[Array, ""]]:
    """The stretch after the next event before `target`, whether there is one, and when (else `target`)."""
    regression, beta = _Regression(problem), problem.penalty.strength
    size = jnp.max(jnp.abs(stretch.weights)) + jnp.finfo(stretch.weights.dtype).tiny

    def wrong(time: Float[Array, " *times"]) -> Bool[Array, "*times n"]:
        """Weights whose sign no longer is the one assumed, by more than rounding."""
        weights = _at(stretch, time - stretch.began)
        crossed = weights * stretch.signs < -1e-14 * size
        freed = jnp.abs(regression.pull(weights)) > beta * (1 + 1e-12)
        return jnp.where(stretch.signs != 0, crossed, freed)

    # From well below the fastest mode to the target; the last time without and the first with a wrong sign.
    first = jnp.minimum(1e-3 / jnp.maximum(jnp.max(stretch.kappa), 1e-300), 1e-3 * (target - now))
    looks = now + jnp.geomspace(first, target - now, _LOOKS)
    looks = looks.at[-1].set(target)
    seen = jnp.any(wrong(looks), axis=-1)
    event, k = jnp.any(seen), jnp.argmax(seen)

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        right, bad = bracket
        middle = (right + bad) / 2
        is_wrong = jnp.any(wrong(middle))
        return jnp.where(is_wrong, right, middle), jnp.where(is_wrong, middle, bad)

    bracket = (jnp.where(k > 0, looks[k - 1], now), looks[k])
    _, time = jax.lax.fori_loop(0, _HALVINGS, halve, bracket)
    weights = _at(stretch, time - stretch.began)
    changed = wrong(time)
    weights = jnp.where(changed | (stretch.signs == 0), 0.0, weights)
    signs = jnp.where(changed, _leaving(regression.pull(weights), beta), stretch.signs)
    return _stretch(problem, weights, signs, time), event, jnp.where(event, time, target)
