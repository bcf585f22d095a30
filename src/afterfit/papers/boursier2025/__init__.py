"""Boursier, Pesme and Dragomir 2025: interpolation, then Riemannian norm minimisation."""

from afterfit.papers.boursier2025.fig2 import Fig2
from afterfit.papers.boursier2025.linear import Linear
from afterfit.papers.boursier2025.prop1 import Prop1
from afterfit.papers.boursier2025.prop2 import Prop2
from afterfit.papers.boursier2025.prop4 import Prop4
from afterfit.papers.boursier2025.prop5 import Prop5

__all__ = ["Fig2", "Linear", "Prop1", "Prop2", "Prop4", "Prop5"]
