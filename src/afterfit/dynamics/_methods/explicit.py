"""Adaptive explicit Runge–Kutta, for mild problems."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit.dynamics._methods._base import Chart, Stepping
from afterfit.dynamics._problem import Problem

__all__ = ["Explicit"]


class Explicit(Stepping):
    """Tsitouras' 5(4) pair, from Diffrax. Its steps stay below a few times 1/ρ, ρ the largest curvature."""

    name = "explicit"

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        return None

    def solver(self, problem: Problem, chart: Chart) -> Any:
        import diffrax

        return diffrax.Tsit5()

    def cost(self, solver_state: PyTree[Any]) -> tuple[int, int]:
        return 6, 0

    def error(self, before: PyTree[Array], after: PyTree[Array], change: PyTree[Array]) -> Float[Array, ""]:
        # Parameter by parameter, the root mean square of change/(atol + rtol·|parameter|): small ones count too.
        def scaled(b: Array, a: Array, c: Array) -> Array:
            return c / (self.atol + self.rtol * jnp.maximum(jnp.abs(b), jnp.abs(a)))

        shares = jax.tree.leaves(jax.tree.map(scaled, before, after, change))
        count = sum(share.size for share in shares)
        return jnp.sqrt(sum((jnp.sum(share**2) for share in shares), start=jnp.zeros(())) / count)
