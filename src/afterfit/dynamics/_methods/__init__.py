"""Ways to follow a gradient flow. A new one is a `Method` with a `name`, in a module here (found by itself) or anywhere
else.
"""

from afterfit._base.rules import discover
from afterfit.dynamics._methods._base import Case, Flow, Method

__all__ = ["Case", "Flow", "Method"]

discover(__name__, but=("chebyshev", "newton"))  # solvers: they load Diffrax, which only some methods need
