"""Ways to follow a gradient flow. A new one is a `Method` with a `name`, in a module here (found by itself) or anywhere
else.
"""

from afterfit.dynamics.methods._base import Case, Flow, Method
from afterfit.rules import discover

__all__ = ["Case", "Flow", "Method"]

discover(__name__, but=("chebyshev", "newton"))  # solvers: they load Diffrax, which only some methods need
