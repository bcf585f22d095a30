"""Implicit steps without a matrix, by conjugate gradients."""

from __future__ import annotations

import jax
import jax.flatten_util
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit.dynamics._methods._base import FlowToFollow
from afterfit.dynamics._methods.implicit import GaussNewton, Implicit
from afterfit.dynamics._problem import Problem

__all__ = ["Krylov", "MatrixFree"]

_SOLVED = 0.1  # share of what Newton iterations may leave that conjugate gradients may
_LONGEST = 2000  # conjugate gradients of one solve: a step whose stages ask for more fails, and gets shorter


class Krylov(Implicit):
    """The steps of `implicit` by conjugate gradients, with products of the Jacobian alone; to be asked for by name.

    As many products as the tangent kernel is ill-conditioned: it beats `stabilised` where that is mild and time long.
    """

    name = "krylov"
    turn = 50
    default_rtol = 1e-3

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        if not problem.penalty.smooth:
            return f"the penalty {type(problem.penalty).__name__} has kinks, and its steps need a smooth one"
        return None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> None:
        # It takes from a fifth to a hundred times the gradients of `stabilised` (docs/flows.md), and nothing at first
        # tells which: conjugate gradients for a long step there are as few where it loses as where it wins.
        return None

    def corrector(self, problem: Problem, params: PyTree[Array], gh: Float[Array, ""]) -> MatrixFree:
        return MatrixFree(problem, params, gh, self.allowed(params, params))


class MatrixFree(GaussNewton):
    """The same Newton iterations: (cI + gh·JᵀHJ)dθ = R₁ − gh·JᵀR₂ by conjugate gradients, of products with J and Jᵀ.

    The matrix is symmetric, and positive where the loss is convex in the outputs. The residual is at most a share of
    what is `allowed` a step, and so is what dθ is off by, since no eigenvalue is below c ≥ 1.
    """

    def __init__(self, problem: Problem, params: PyTree[Array], gh: Float[Array, ""], allowed: Float[Array, ""]):
        self.allowed = allowed
        super().__init__(problem, params, gh)

    def prepare(self, params: PyTree[Array]) -> None:
        pass

    def solve(
        self, R1: PyTree[Array], R2: Float[Array, "n ..."]
    ) -> tuple[PyTree[Array], Float[Array, "n ..."], int | Array]:
        import lineax as lx

        from afterfit.dynamics._solvers.newton import CONVERGED

        right, tree = jax.flatten_util.ravel_pytree(self._less(R1, R2))

        def product(v: Float[Array, " p"]) -> Float[Array, " p"]:
            return jax.flatten_util.ravel_pytree(self._less(tree(self.c * v), -self._pulls(tree(v))))[0]

        found = lx.linear_solve(
            lx.FunctionLinearOperator(product, jax.eval_shape(lambda: right), lx.positive_semidefinite_tag),
            right,
            lx.CG(
                rtol=0.0,
                atol=_SOLVED * CONVERGED * self.allowed,  # pyright: ignore[reportArgumentType]
                norm=jnp.linalg.norm,
                stabilise_every=None,
                max_steps=_LONGEST,
            ),
            throw=False,
        )
        change = tree(found.value)
        return change, R2 + self._pulls(change), found.stats["num_steps"]

    def _pulls(self, change: PyTree[Array]) -> Float[Array, "n ..."]:
        """HJ dθ."""
        z = self.at.push_forward(change)
        return jnp.einsum("iab,ib->ia", self.H, z.reshape(self.H.shape[:2])).reshape(z.shape)

    def _less(self, R: PyTree[Array], pulls: Float[Array, "n ..."]) -> PyTree[Array]:
        """R − gh·Jᵀρ."""
        return jax.tree.map(lambda R, p: R - self.gh * p, R, self.at.pull_back(pulls))
