"""The dual (mirror) flow of diagonal nets: as many variables as data, whatever the number of weights."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit import tangent
from afterfit.dynamics.methods._base import Chart
from afterfit.dynamics.methods.stabilised import Stabilised
from afterfit.models import DiagonalNet, DiagonalProduct
from afterfit.penalties import L2, NoPenalty
from afterfit.problem import Problem

__all__ = ["Dual"]

# Multiplications of X diag(κ) Xᵀ up to which an implicit step costs less than several explicit ones.
_CHEAP_KERNEL = 3e8
_SUBSTEPS = 8  # of the Runge–Kutta method that follows three or more factors within a step


class Dual(Stabilised):
    """Diagonal nets in n dual variables: ν' = r, r the derivative of the loss at each example.

    Every weight of a diagonal net moves by Xᵀr times powers of itself, so ν, the sum of r over time, determines them
    all, weight decay included. Implicit steps with the exact n x n Jacobian where X diag(κ) Xᵀ is cheap, Runge–Kutta–
    Chebyshev ones where the data are too many for that.
    """

    name = "dual"
    default_rtol = 1e-5

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        model = problem.model
        if type(model) not in (DiagonalNet, DiagonalProduct) or model.linear:  # a subclass may be another function
            return f"it is for DiagonalNet and DiagonalProduct of depth 2 or more, not {type(model).__name__}"
        if type(problem.penalty) not in (L2, NoPenalty):
            return f"it knows weight decay (L2) or no penalty, not {type(problem.penalty).__name__}"
        return None

    def chart(self, problem: Problem, params: PyTree[Array]) -> Chart:
        return _DualChart(params, jnp.zeros((), jnp.float64))

    def solver(self, problem: Problem, chart: Chart) -> Any:
        from afterfit.dynamics.methods.newton import SimplifiedNewton

        if not kernel_is_cheap(problem):
            return super().solver(problem, chart)

        def size(arguments: tuple, nu: Array, change: Array) -> Array:
            at = [chart.params(problem, arguments[1], y) for y in (nu, nu + change)]
            return self.error(at[0], at[1], jax.tree.map(jnp.subtract, at[1], at[0]))

        return SimplifiedNewton(
            corrector=lambda t, nu, arguments, gh: _DualNewton(problem, chart, arguments[1], t, nu, gh),
            extra=lambda t, nu, arguments: (),
            size=size,
        )

    # Each kind of solver state has its own cost; the rest is for the one that estimates a spectral radius.

    def cost(self, solver_state: Any) -> tuple[Array, Array | int]:
        if hasattr(solver_state, "iterations"):
            return solver_state.iterations, solver_state.iterations
        return super().cost(solver_state)

    def after_rejection(self, solver_state: Any, error: PyTree[Array]) -> Any:
        return super().after_rejection(solver_state, error) if hasattr(solver_state, "radius") else solver_state

    def longest(self, solver_state: Any) -> Float[Array, ""]:
        return super().longest(solver_state) if hasattr(solver_state, "radius") else jnp.asarray(jnp.inf)


class _DualNewton:
    """Newton iterations for ν = base + gh·ν', with ∂ν'/∂ν = −HK exactly: the weights move by −Jᵀdν."""

    def __init__(self, problem: Problem, chart: Chart, t0: Array, t: Array, nu: Array, gh: Array):
        self.problem, self.chart, self.t0, self.gh = problem, chart, t0, gh
        params = chart.params(problem, t0 + t, nu)
        H = tangent.curvature(problem, tangent.outputs(problem, params))[:, 0, 0]
        matrix = jnp.eye(nu.size, dtype=nu.dtype) + gh * H[:, None] * tangent.kernel(problem, params)
        self.factors = jax.scipy.linalg.lu_factor(matrix)

    def improve(self, t: Array, base: Array, nu: Array, extra: tuple) -> tuple[Array, tuple]:
        missing = base + self.gh * self.chart.field(self.problem, self.t0 + t, nu) - nu
        return jax.scipy.linalg.lu_solve(self.factors, missing), extra


def kernel_is_cheap(problem: Problem) -> bool:
    """Whether an n x n Jacobian may be computed every step."""
    n, d = problem.data.n, math.prod(problem.task.signature.inputs)
    return n * n * d <= _CHEAP_KERNEL


class _DualChart(Chart):
    """ν since the last step, and the parameters there; q = Xᵀν is how far each weight has been pushed since.

    Since the last step only: over the whole run, weights that stay finite would be the small difference of a push and a
    decay that both grow without end.
    """

    initial: PyTree[Array]
    since: Float[Array, ""]

    def start(self, problem: Problem, params: PyTree[Array]) -> Float[Array, " n"]:
        return jnp.zeros_like(tangent.outputs(problem, params))

    def field(self, problem: Problem, t: Array, y: Float[Array, " n"]) -> Float[Array, " n"]:
        model: Any = problem.model
        slowing = jnp.exp(-(model.depth - 2) * _decay(problem) * (t - self.since)).astype(y.dtype)
        return slowing * tangent.residual(problem, tangent.outputs(problem, self.params(problem, t, y)))

    def rebase(
        self, problem: Problem, t: Array, y: Float[Array, " n"], params: PyTree[Array], solver: Any
    ) -> tuple[_DualChart, Float[Array, " n"], Any]:
        # ν' is slowed by e^{−(D−2)λt}, counted from the last step: slopes that the solver remembers speed up again.
        model: Any = problem.model
        again = jnp.exp((model.depth - 2) * _decay(problem) * (t - self.since)).astype(y.dtype)
        solver = jax.tree.map(lambda leaf: again * leaf if leaf.shape == y.shape else leaf, solver)
        return _DualChart(params, t), jnp.zeros_like(y), solver

    def params(self, problem: Problem, t: Array, y: Float[Array, " n"]) -> PyTree[Array]:
        model: Any = problem.model
        pushed = _transposed(problem, self.initial, y)
        shrink = jnp.exp(-_decay(problem) * (t - self.since)).astype(y.dtype)
        if isinstance(model, DiagonalNet):
            # w₊' = −D·w₊^{D−1}·Xᵀr − λw₊, and the same with the other sign for w₋.
            return {
                "plus": shrink * _moved(self.initial["plus"], model.depth, model.depth * pushed),
                "minus": shrink * _moved(self.initial["minus"], model.depth, -model.depth * pushed),
            }
        if model.depth == 2:
            # (u + v)' = −(Xᵀr + λ)(u + v) and (u − v)' = (Xᵀr − λ)(u − v): u² − v² is conserved but for the decay.
            u, v = self.initial["factors"]
            both, apart = (u + v) * jnp.exp(-pushed), (u - v) * jnp.exp(pushed)
            return {"factors": [shrink * (both + apart) / 2, shrink * (both - apart) / 2]}
        moved = _moved_factors(jnp.stack(self.initial["factors"]), pushed)
        return {"factors": [shrink * factor for factor in moved]}


def _moved(w: Float[Array, " d"], D: int, push: Float[Array, " d"]) -> Float[Array, " d"]:
    """Where w' = −w^{D−1}·push' takes w: w·exp(−push), and for D > 2 w^{2−D} grows by (D−2)·push."""
    if D == 2:
        return w * jnp.exp(-push)
    # In magnitudes: the sign of w stays, and turns the push around where D is odd.
    inverse = jnp.abs(w) ** (2 - D) + (D - 2) * jnp.sign(w) ** D * push
    return jnp.sign(w) * inverse ** (-1 / (D - 2))


def _moved_factors(factors: Float[Array, "L d"], push: Float[Array, " d"]) -> Float[Array, "L d"]:
    """Where A_k' = −(∏_{j≠k} A_j)·push' takes three or more factors.

    All A_k² − A_j² are conserved, so each weight moves on a curve that `push` is the parameter of; for equal magnitudes
    it is that of `_moved`, for three factors one of elliptic functions. It is followed by Runge–Kutta steps, to 10⁻⁷ of
    what a step that halves a weight changes.
    """

    def slope(A: Float[Array, "L d"]) -> Float[Array, "L d"]:
        return -push / _SUBSTEPS * jnp.stack([jnp.prod(jnp.delete(A, k, axis=0), axis=0) for k in range(len(A))])

    def substep(_: Array, A: Float[Array, "L d"]) -> Float[Array, "L d"]:
        k1 = slope(A)
        k2 = slope(A + k1 / 2)
        k3 = slope(A + k2 / 2)
        return A + (k1 + 2 * k2 + 2 * k3 + slope(A + k3)) / 6

    return jax.lax.fori_loop(0, _SUBSTEPS, substep, factors)


def _decay(problem: Problem) -> float | Array:
    return problem.penalty.strength if isinstance(problem.penalty, L2) else 0.0


def _transposed(problem: Problem, params: PyTree[Array], nu: Float[Array, " n"]) -> Float[Array, " d"]:
    """Xᵀν, whatever kind of inputs the data are."""
    model: Any = problem.model
    weights = jax.eval_shape(model.weights, params)
    return jax.linear_transpose(lambda w: tangent.of_weights(problem, w), weights)(nu)[0]
