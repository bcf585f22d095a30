"""Boursier, Pesme and Dragomir 2025: interpolation, then Riemannian norm minimisation."""

from afterfit.papers.boursier2025.fig2 import Fig2
from afterfit.papers.boursier2025.linear import Linear

__all__ = ["Fig2", "Linear"]
