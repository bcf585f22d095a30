"""Dynamics: what moves the parameters. A new discrete one is a subclass of `Discrete` with one method."""

from afterfit.dynamics._adaptive import Adam, AdamW
from afterfit.dynamics._base import Discrete, Dynamics, State
from afterfit.dynamics._descent import (
    GradientDescent,
    LossScaledDescent,
    ProjectedSubgradient,
    ProximalGradient,
)
from afterfit.dynamics._flow import Continuous, GradientFlow
from afterfit.dynamics._riemannian import RiemannianFlow
from afterfit.dynamics._stochastic import SGD, LabelNoiseSGD

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Continuous",
    "Discrete",
    "Dynamics",
    "GradientDescent",
    "GradientFlow",
    "LabelNoiseSGD",
    "LossScaledDescent",
    "ProjectedSubgradient",
    "ProximalGradient",
    "RiemannianFlow",
    "State",
]


def __dir__() -> list[str]:
    return __all__
