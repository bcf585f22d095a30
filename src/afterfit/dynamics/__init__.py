"""Dynamics: what moves the parameters. A new discrete one is a subclass of `Discrete` with one method.

What a module here has in its `__all__` is public: a new dynamics is written into the module that it fits, and no list.
A way to follow a flow (`Method`) is a file of its own in `_methods/`.
"""

from afterfit.dynamics import _adaptive, _base, _descent, _flow, _optimiser, _riemannian, _stochastic
from afterfit.dynamics._adaptive import *
from afterfit.dynamics._base import *
from afterfit.dynamics._descent import *
from afterfit.dynamics._flow import *
from afterfit.dynamics._methods import Chart, FlowState, FlowToFollow, Method, Solver, Stepping
from afterfit.dynamics._optimiser import *
from afterfit.dynamics._problem import Problem
from afterfit.dynamics._riemannian import *
from afterfit.dynamics._stochastic import *

__all__ = ["Chart", "FlowState", "FlowToFollow", "Method", "Problem", "Solver", "Stepping"]
__all__ += _adaptive.__all__
__all__ += _base.__all__
__all__ += _descent.__all__
__all__ += _flow.__all__
__all__ += _optimiser.__all__
__all__ += _riemannian.__all__
__all__ += _stochastic.__all__


def __dir__() -> list[str]:
    return __all__
