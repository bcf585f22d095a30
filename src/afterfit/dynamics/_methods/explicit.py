"""Adaptive explicit Runge–Kutta, for mild problems."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit.dynamics._methods._base import Chart, FlowToFollow, Solver, Stepping
from afterfit.dynamics._problem import Problem

__all__ = ["Explicit"]

_MILD = 1e3  # curvature x time up to which an explicit method is as quick as any


class Explicit(Stepping):
    """Tsitouras' 5(4) pair, from Diffrax, for mild problems, and for penalties with kinks and no prox.

    Its steps stay below a few times 1/ρ, ρ the largest curvature.
    """

    name = "explicit"
    turn = 30

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        return None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> str | None:
        if flow.kinks:
            return None  # it comes to a stop at them, and looser steps that do not look at each parameter do not
        penalty = flow.problem.penalty
        if not penalty.smooth:
            return (
                f"the penalty {type(penalty).__name__} has kinks, at which steps get short: "
                "GradientDescent and ProximalGradient are made for it"
            )
        return f"{flow.stiff}: mild" if flow.stiffness <= _MILD else None

    def solver(self, problem: Problem, chart: Chart) -> Solver:
        import diffrax

        return Solver(diffrax.Tsit5(), cost=lambda state: (6, 0))

    def error(self, before: PyTree[Array], after: PyTree[Array], change: PyTree[Array]) -> Float[Array, ""]:
        # Parameter by parameter, the root mean square of change/(atol + rtol·|parameter|): small ones count too.
        def scaled(b: Array, a: Array, c: Array) -> Array:
            return c / (self.atol + self.rtol * jnp.maximum(jnp.abs(b), jnp.abs(a)))

        shares = jax.tree.leaves(jax.tree.map(scaled, before, after, change))
        count = sum(share.size for share in shares)
        return jnp.sqrt(sum((jnp.sum(share**2) for share in shares), start=jnp.zeros(())) / count)
