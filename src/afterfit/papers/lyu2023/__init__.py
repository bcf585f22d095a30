"""Lyu, Jin, Li, Du, Lee and Hu 2023: a dichotomy of early and late phase implicit biases."""

from afterfit.papers.lyu2023.bounds import Bounds
from afterfit.papers.lyu2023.fig1a import Fig1a
from afterfit.papers.lyu2023.fig1b import Fig1b
from afterfit.papers.lyu2023.fig2a import Fig2a
from afterfit.papers.lyu2023.fig2b import Fig2b
from afterfit.papers.lyu2023.fig2c import Fig2c
from afterfit.papers.lyu2023.fig3 import Fig3
from afterfit.papers.lyu2023.sharpness import Sharpness
from afterfit.papers.lyu2023.thm34 import Thm34
from afterfit.papers.lyu2023.thm35 import Thm35
from afterfit.papers.lyu2023.thm39 import Thm39
from afterfit.papers.lyu2023.thm310 import Thm310

__all__ = [
    "Bounds",
    "Fig1a",
    "Fig1b",
    "Fig2a",
    "Fig2b",
    "Fig2c",
    "Fig3",
    "Sharpness",
    "Thm34",
    "Thm35",
    "Thm39",
    "Thm310",
]
