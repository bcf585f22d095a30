"""Stabilised explicit steps, for problems with many data."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit.dynamics._methods._base import Chart, Stepping
from afterfit.dynamics._problem import Problem

__all__ = ["Stabilised"]


class Stabilised(Stepping):
    """Runge–Kutta–Chebyshev: gradients only, and steps that grow with the square of their number.

    The error is bounded for all parameters together: a step across the kinks of a ReLU net has an error of order
    h^1.4 whatever the method, and a tight local tolerance would buy nothing.
    """

    name = "stabilised"
    default_rtol = 1e-3

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        return None

    def solver(self, problem: Problem, chart: Chart) -> Any:
        from afterfit.dynamics._methods.chebyshev import RungeKuttaChebyshev

        return RungeKuttaChebyshev()

    def cost(self, solver_state: Any) -> tuple[Array, Array | int]:
        return solver_state.evaluations, 0

    def after_rejection(self, solver_state: Any, error: PyTree[Array]) -> Any:
        # The error of an unstable step points along the direction whose curvature was underestimated.
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(error)]))
        direction = jax.tree.map(lambda e, d: jnp.where(finite, e, d), error, solver_state.direction)
        return eqx.tree_at(
            lambda state: (state.direction, state.steady),
            solver_state,
            (direction, jnp.zeros_like(solver_state.steady)),
        )

    def longest(self, solver_state: Any) -> Float[Array, ""]:
        from afterfit.dynamics._methods.chebyshev import longest

        # Rounding grows with the square of the number of stages (Sommeijer et al. 1997, §2.2).
        eps = jnp.finfo(solver_state.radius.dtype).eps
        limit = jnp.maximum(jnp.floor(jnp.sqrt(self.rtol / (10 * eps))), 3)
        return jnp.where(solver_state.radius > 0, longest(limit, solver_state.radius), jnp.inf)
