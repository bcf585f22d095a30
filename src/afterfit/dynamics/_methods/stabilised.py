"""Stabilised explicit steps, for problems with many data."""

from __future__ import annotations

from jaxtyping import Array, PyTree

from afterfit.dynamics._methods._base import Chart, FlowToFollow, Solver, Stepping
from afterfit.dynamics._methods.implicit import Implicit
from afterfit.dynamics._problem import Problem

__all__ = ["Stabilised"]


class Stabilised(Stepping):
    """Runge–Kutta–Chebyshev steps, of gradients only, for stiff problems with many data, and for models with kinks.

    How far a step reaches grows with the square of the gradients that it takes.

    The error is bounded for all parameters together: a step across the kinks of a ReLU net has an error of order
    h^1.4 whatever the method, and a tight local tolerance would buy nothing.
    """

    name = "stabilised"
    turn = 100  # for whatever nobody else is made for
    default_rtol = 1e-3

    @classmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        return None

    @classmethod
    def preferred(cls, flow: FlowToFollow) -> str:
        sure = "has" if flow.problem.model.smooth is False else "may have"
        kinks = f"the model {sure} kinks, at which the steps of others get short" if flow.kinks else None
        reasons = (flow.stiff, Implicit.obstacle(flow.problem, flow.params), kinks)
        return ", and ".join(reason for reason in reasons if reason)

    @classmethod
    def tolerance(cls, flow: FlowToFollow, atol: float) -> float:
        return cls.default_rtol  # across kinks less buys nothing; what it leaves of large starts is in docs/flows.md

    def solver(self, problem: Problem, chart: Chart) -> Solver:
        from afterfit.dynamics._solvers.chebyshev import chebyshev_solver

        return chebyshev_solver(self.rtol)
