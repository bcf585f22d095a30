"""Ways to follow a gradient flow. A new one is a `Method` with a `name`, in a module here (found by itself) or anywhere
else.
"""

from afterfit._base.rules import discover
from afterfit.dynamics._methods._base import Chart, FlowState, FlowToFollow, Method, Solver, Stepping

__all__ = ["Chart", "FlowState", "FlowToFollow", "Method", "Solver", "Stepping"]

discover(__name__)
