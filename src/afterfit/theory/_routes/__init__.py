"""Ways to foresee a run: each is a theorem's limit taken at its word, with the curves that it implies.

Most put two time scales together: outputs that move at the rates of the loss, and, long after, a predictor that moves
at the strength β of the penalty along the data's solutions. A new route is a subclass of `Route` with a `name`, in a
module here (found by itself) or anywhere else.
"""

from afterfit._base.rules import discover
from afterfit.theory._routes._base import Curves, Route

__all__ = ["Curves", "Route"]

discover(__name__)
