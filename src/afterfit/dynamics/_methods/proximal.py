"""Implicit steps through the proximal map of a penalty with kinks."""

from __future__ import annotations

import jax
from jaxtyping import Array, PyTree

from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._methods._base import Chart, FlowToFollow, Solver, Stepping
from afterfit.dynamics._problem import Problem

__all__ = ["Proximal"]

_LARGEST = 2000  # numbers in the data up to which a factorisation an iteration is cheap
_JACOBIAN = 2**26  # numbers of a Jacobian that are held: half a gigabyte


class Proximal(Stepping):
    """Backward Euler steps through the proximal map, extrapolated, for penalties with kinks.

    The flow θ' ∈ −∇loss − β∂h is a differential inclusion: what a penalty has set to 0 (entries, groups, singular
    values) rests there as long as the loss pulls it by less than the penalty holds it. θ₁ = prox(θ₀ − h∇loss(θ₁)), with
    the prox of h·β·penalty, is its backward Euler step whatever changes on the way, and damps the fast directions, so
    that steps grow to the slow scale 1/β. Kinks of the model itself (ReLU) it follows in short steps only.
    """

    name = "proximal"
    turn = 25
    default_rtol = 1e-4

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        penalty = type(problem.penalty).__name__.lstrip("_")
        if problem.penalty.smooth:
            return f"it is for penalties with kinks, and {penalty} has none"
        if not problem.penalty.proximal:
            return f"the penalty {penalty} has no proximal map"
        m = jax.eval_shape(lambda p: tangent.outputs(problem, p), params).size
        if m > _LARGEST:
            return f"the data hold {m} numbers, and it factorises a matrix that large several times a step"
        numbers = m * sum(leaf.size for leaf in jax.tree.leaves(params))
        if numbers > _JACOBIAN:
            return f"the Jacobian of the model on the data has {numbers} entries, more than it can hold"
        return None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> str | None:
        if flow.kinks:  # across those of the model its steps are short
            return None
        return f"the penalty {type(flow.problem.penalty).__name__} has kinks, and a proximal map to step across them"

    def solver(self, problem: Problem, chart: Chart) -> Solver:
        from afterfit.dynamics._solvers.proximal import proximal_solver

        return proximal_solver(size=lambda params, change: self.error(params, params, change))
