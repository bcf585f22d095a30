"""Ways to foresee a run: each is a theorem's limit taken at its word, with the curves that it implies.

A new one is a subclass of `Route` in `ROUTES`. Most put two time scales together: outputs that move at the rates of the
loss, and, long after, a predictor that moves at the strength β of the penalty along the data's solutions.
"""

from afterfit.theory.routes._base import Curves, Route, Unanswered
from afterfit.theory.routes.diagonal import DecayingMargin, DecayingPotential
from afterfit.theory.routes.linear import ClosedForm, ConvexDescent
from afterfit.theory.routes.manifold import RiemannianLimit

__all__ = ["ROUTES", "Curves", "Route", "Unanswered"]

ROUTES: tuple[Route, ...] = (ClosedForm(), ConvexDescent(), DecayingPotential(), DecayingMargin(), RiemannianLimit())
