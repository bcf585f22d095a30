"""Linearly implicit steps whose linear algebra is as large as the data, not as the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit import tangent
from afterfit.dynamics.methods._base import Chart, Stepping
from afterfit.penalties import L2
from afterfit.problem import Problem

__all__ = ["LARGEST", "Implicit"]

LARGEST = 2000  # numbers in the data up to which a factorisation a step is cheap


class Implicit(Stepping):
    """Rosenbrock–W steps with the Gauss–Newton matrix: for few data and many parameters.

    Once the data are fitted the flow is stiff: across the interpolating parameters it moves at rates of order 1, along
    them at β. The linearly implicit step damps the fast directions, so that steps grow to the slow scale 1/β. Its
    Jacobian is −(JᵀHJ + βI), which leaves out the curvature of the model (of order β once fitted) and is inverted by
    Woodbury's formula in the m numbers of the data.
    """

    name = "implicit"
    default_rtol = 1e-5

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        if not problem.penalty.smooth:
            return f"the penalty {type(problem.penalty).__name__} has kinks, and its steps need a smooth one"
        m = jax.eval_shape(lambda p: tangent.outputs(problem, p), params).size
        if m > LARGEST:
            return f"the data hold {m} numbers, and it factorises a matrix that large every step (at most {LARGEST})"
        return None

    def solver(self, problem: Problem, chart: Chart) -> Any:
        from afterfit.dynamics.methods.rosenbrock import RosenbrockW

        return RosenbrockW(lambda t, params, arguments, gh: gauss_newton_inverse(problem, params, gh))

    def cost(self, solver_state: PyTree[Any]) -> tuple[int, int]:
        return 4, 4


def gauss_newton_inverse(
    problem: Problem, params: PyTree[Array], gh: Float[Array, ""]
) -> Callable[[PyTree[Array]], PyTree[Array]]:
    """b ↦ (cI + gh·JᵀHJ)⁻¹b with c = 1 + gh·β for weight decay β, as (b − gh·JᵀH(cI + gh·KH)⁻¹Jb)/c."""
    c = 1 + gh * problem.penalty.strength if isinstance(problem.penalty, L2) else 1.0
    at = tangent.linearise(problem, params)
    shape, m = at.value.shape, at.value.size
    H = tangent.curvature(problem, at.value)
    K = tangent.kernel(problem, params)
    n, outputs, _ = H.shape
    KH = jnp.einsum("mia,iab->mib", K.reshape(m, n, outputs), H).reshape(m, m)
    factors = jax.scipy.linalg.lu_factor(c * jnp.eye(m, dtype=K.dtype) + gh * KH)

    def apply(b: PyTree[Array]) -> PyTree[Array]:
        z = jax.scipy.linalg.lu_solve(factors, at.push_forward(b).reshape(m))
        Hz = jnp.einsum("iab,ib->ia", H, z.reshape(n, outputs)).reshape(shape)
        return jax.tree.map(lambda b, g: (b - gh * g) / c, b, at.pull_back(Hz))

    return apply
