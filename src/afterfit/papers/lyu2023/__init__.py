"""Lyu, Jin, Li, Du, Lee and Hu 2023: a dichotomy of early and late phase implicit biases."""

from afterfit.papers.lyu2023.fig1a import Fig1a
from afterfit.papers.lyu2023.fig1b import Fig1b
from afterfit.papers.lyu2023.fig2a import Fig2a
from afterfit.papers.lyu2023.fig3 import Fig3

__all__ = ["Fig1a", "Fig1b", "Fig2a", "Fig3"]
