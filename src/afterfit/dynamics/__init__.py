"""Dynamics: what moves the parameters. A new discrete one is a subclass of `Discrete` with one method."""

from afterfit.dynamics._base import Discrete, Dynamics, State
from afterfit.dynamics.adaptive import Adam, AdamW
from afterfit.dynamics.descent import (
    GradientDescent,
    LossScaledDescent,
    ProjectedSubgradient,
    ProximalGradient,
)
from afterfit.dynamics.flow import Continuous, GradientFlow
from afterfit.dynamics.riemannian import RiemannianFlow
from afterfit.dynamics.stochastic import SGD, LabelNoiseSGD

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
