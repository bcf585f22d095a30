"""Implicit steps whose linear algebra is as large as the data, not as the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._methods._base import Chart, FlowToFollow, Solver, Stepping
from afterfit.dynamics._problem import Problem

if TYPE_CHECKING:
    from afterfit.dynamics._solvers.newton import Corrector

__all__ = ["GaussNewton", "Implicit"]

_LARGEST = 2000  # numbers in the data up to which a factorisation a step is cheap


class Implicit(Stepping):
    """Implicit Runge–Kutta steps with the Gauss–Newton matrix, for stiff problems with few data and many parameters.

    Once the data are fitted the flow is stiff: across the interpolating parameters it moves at rates of order 1, along
    them at β. An implicit step damps the fast directions, so that steps grow to the slow scale 1/β. The matrix of its
    Newton iterations leaves out the curvature of the model, of order β once the data are fitted, and is inverted by
    Woodbury's formula in the m numbers of the data.
    """

    name = "implicit"
    turn = 40
    default_rtol = 1e-4

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        if not problem.penalty.smooth:
            return f"the penalty {type(problem.penalty).__name__} has kinks, and its steps need a smooth one"
        m = jax.eval_shape(lambda p: tangent.outputs(problem, p), params).size
        if m > _LARGEST:
            return f"the data hold {m} numbers, and it factorises a matrix that large every step (at most {_LARGEST})"
        return None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> str | None:
        if flow.kinks:
            return None  # its error control finds every one: 7,500 steps where `stabilised` takes 56 (docs/flows.md)
        return f"{flow.stiff}, and {flow.problem.data.n} examples are few beside {flow.numbers} parameters"

    def solver(self, problem: Problem, chart: Chart) -> Solver:
        from afterfit.dynamics._solvers.newton import newton_solver

        return newton_solver(
            corrector=lambda t, params, arguments, gh: self.corrector(problem, params, gh),
            extra=lambda t, params, arguments: tangent.residual(problem, tangent.outputs(problem, params)),
            size=lambda arguments, params, change: self.error(params, params, change),
        )

    def corrector(self, problem: Problem, params: PyTree[Array], gh: Float[Array, ""]) -> Corrector:
        """Newton iterations with the matrix at `params`."""
        return GaussNewton(problem, params, gh)


class GaussNewton:
    """Newton iterations for θ = base − gh·(J(θ)ᵀρ + β∇h(θ)) and ρ = r(outputs(θ)), J and H fixed at the step's start.

    ρ, the pull of each example, is an unknown of its own. Once fitted it is of order β, while a θ that is off the
    interpolating parameters by a little has an r that is large against that; in J(θ)ᵀr it would push θ along them, too.
    (One linear solve a stage, as in a Rosenbrock–W method, suffers from the same: its steps are β^(1/4) as long.)

    Eliminating dρ = R₂ + H·J dθ leaves (cI + gh·JᵀHJ)dθ = R₁ − gh·JᵀR₂, R the residuals of the two equations and
    c = 1 + gh·β for weight decay; with z = J dθ, Woodbury's formula is (cI + gh·KH)z = JR₁ − gh·KR₂.
    """

    def __init__(self, problem: Problem, params: PyTree[Array], gh: Float[Array, ""]):
        self.problem, self.gh = problem, gh
        decay = problem.penalty.decay
        # No penalty is told by Python's own 0: a traced one would have other last bits.
        self.c = 1.0 if decay is None or (isinstance(decay, float) and decay == 0) else 1 + gh * decay
        self.at = tangent.linearise(problem, params)
        self.H = tangent.curvature(problem, self.at.value)
        self.prepare(params)

    def prepare(self, params: PyTree[Array]) -> None:
        """Factorise cI + gh·KH."""
        gh = self.gh
        self.K = tangent.kernel(self.problem, params)
        m, (n, outputs, _) = self.at.value.size, self.H.shape
        KH = jnp.einsum("mia,iab->mib", self.K.reshape(m, n, outputs), self.H).reshape(m, m)
        self.factors = jax.scipy.linalg.lu_factor(self.c * jnp.eye(m, dtype=self.K.dtype) + gh * KH)

    def improve(
        self, t: Array, base: PyTree[Array], params: PyTree[Array], rho: Float[Array, "n ..."]
    ) -> tuple[PyTree[Array], Float[Array, "n ..."], int | Array]:
        here = tangent.linearise(self.problem, params)
        pull = jax.tree.map(jnp.add, here.pull_back(rho), self.problem.penalty.weighted_subgradient(params))
        R1 = jax.tree.map(lambda b, f, p: b - self.gh * f - p, base, pull, params)
        R2 = tangent.residual(self.problem, here.value) - rho
        change, pulls, products = self.solve(R1, R2)
        return change, rho + pulls, products

    def solve(
        self, R1: PyTree[Array], R2: Float[Array, "n ..."]
    ) -> tuple[PyTree[Array], Float[Array, "n ..."], int | Array]:
        """dθ and dρ, and the products with the matrix that they took."""
        right = self.at.push_forward(R1).ravel() - self.gh * self.K @ R2.ravel()
        z = jax.scipy.linalg.lu_solve(self.factors, right).reshape(self.H.shape[:2])
        d_rho = R2 + jnp.einsum("iab,ib->ia", self.H, z).reshape(R2.shape)
        pulled = self.at.pull_back(d_rho)
        return jax.tree.map(lambda R, p: (R - self.gh * p) / self.c, R1, pulled), d_rho, 0
