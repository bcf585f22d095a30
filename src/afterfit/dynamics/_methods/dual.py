"""The dual (mirror) flow of diagonal nets: as many variables as data, whatever the number of weights."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._methods._base import Chart, FlowToFollow, Solver, Stepping
from afterfit.dynamics._problem import Problem

__all__ = ["Dual"]

# Multiplications of X diag(κ) Xᵀ up to which an implicit step costs less than several explicit ones.
_CHEAP_KERNEL = 3e8


class Dual(Stepping):
    """As many variables as data, whatever the number of weights, for diagonal nets with weight decay or no penalty.

    In n dual variables it is ν' = r, r the derivative of the loss at each example.

    Every weight of a diagonal net moves by Xᵀr times powers of itself, so ν, the sum of r over time, determines them
    all, weight decay included. Implicit steps with the exact n x n Jacobian where X diag(κ) Xᵀ is cheap, Runge–Kutta–
    Chebyshev ones where the data are too many for that.
    """

    name = "dual"
    turn = 20
    default_rtol = 1e-5

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        model = problem.model
        # Any push does: not one of the inputs' shape, which a task posed without its arrays may not know.
        if model.linear or jax.eval_shape(lambda params: model.pushed(params, jnp.zeros(())), params) is None:
            return f"it is for DiagonalNet and DiagonalProduct of depth 2 or more, not {type(model).__name__}"
        if problem.penalty.decay is None:
            return f"it knows weight decay (L2) or no penalty, not {type(problem.penalty).__name__}"
        return None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> str:
        steps = "implicit" if _kernel_is_cheap(flow.problem) else "Runge–Kutta–Chebyshev"
        dual = f"{flow.problem.data.n} dual variables ({steps} steps)"
        return f"all {flow.numbers} parameters of a diagonal net move with {dual}"

    def chart(self, problem: Problem, params: PyTree[Array]) -> Chart:
        return _DualChart(params, jnp.zeros((), jnp.float64))

    def solver(self, problem: Problem, chart: Chart) -> Solver:
        from afterfit.dynamics._solvers.chebyshev import chebyshev_solver
        from afterfit.dynamics._solvers.newton import newton_solver

        if not _kernel_is_cheap(problem):
            return chebyshev_solver(self.rtol)

        def size(arguments: tuple, nu: Array, change: Array) -> Array:
            at = [chart.params(problem, arguments[1], y) for y in (nu, nu + change)]
            return self.error(at[0], at[1], jax.tree.map(jnp.subtract, at[1], at[0]))

        return newton_solver(
            corrector=lambda t, nu, arguments, gh: _DualNewton(problem, chart, arguments[1], t, nu, gh),
            extra=lambda t, nu, arguments: (),
            size=size,
        )


class _DualNewton:
    """Newton iterations for ν = base + gh·ν', with ∂ν'/∂ν = −HK exactly: the weights move by −Jᵀdν."""

    def __init__(self, problem: Problem, chart: Chart, t0: Array, t: Array, nu: Array, gh: Array):
        self.problem, self.chart, self.t0, self.gh = problem, chart, t0, gh
        params = chart.params(problem, t0 + t, nu)
        H = tangent.curvature(problem, tangent.outputs(problem, params))[:, 0, 0]
        matrix = jnp.eye(nu.size, dtype=nu.dtype) + gh * H[:, None] * tangent.kernel(problem, params)
        self.factors = jax.scipy.linalg.lu_factor(matrix)

    def improve(self, t: Array, base: Array, nu: Array, extra: tuple) -> tuple[Array, tuple, int]:
        missing = base + self.gh * self.chart.field(self.problem, self.t0 + t, nu) - nu
        return jax.scipy.linalg.lu_solve(self.factors, missing), extra, 0


def _kernel_is_cheap(problem: Problem) -> bool:
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
        slowing = jnp.exp(-(_degree(problem) - 2) * _decay(problem) * (t - self.since)).astype(y.dtype)
        return slowing * tangent.residual(problem, tangent.outputs(problem, self.params(problem, t, y)))

    def rebase(
        self, problem: Problem, t: Array, y: Float[Array, " n"], params: PyTree[Array], solver: Any
    ) -> tuple[_DualChart, Float[Array, " n"], Any]:
        # ν' is slowed by e^{−(D−2)λt}, counted from the last step: slopes that the solver remembers speed up again.
        again = jnp.exp((_degree(problem) - 2) * _decay(problem) * (t - self.since)).astype(y.dtype)
        solver = jax.tree.map(lambda leaf: again * leaf if leaf.shape == y.shape else leaf, solver)
        return _DualChart(params, t), jnp.zeros_like(y), solver

    def params(self, problem: Problem, t: Array, y: Float[Array, " n"]) -> PyTree[Array]:
        pushed = problem.model.pushed(self.initial, _transposed(problem, self.initial, y))
        shrink = jnp.exp(-_decay(problem) * (t - self.since)).astype(y.dtype)
        return jax.tree.map(lambda moved: shrink * moved, pushed)


def _decay(problem: Problem) -> float | Array:
    decay = problem.penalty.decay
    assert decay is not None, "an obstacle to any other penalty"
    return decay


def _degree(problem: Problem) -> int:
    degree = problem.model.degree
    assert degree is not None, "a model that says where a push takes it is homogeneous"
    return degree


def _transposed(problem: Problem, params: PyTree[Array], nu: Float[Array, " n"]) -> Float[Array, " d"]:
    """Xᵀν, whatever kind of inputs the data are."""
    model: Any = problem.model
    weights = jax.eval_shape(model.weights, params)
    return jax.linear_transpose(lambda w: tangent.of_weights(problem, w), weights)(nu)[0]
