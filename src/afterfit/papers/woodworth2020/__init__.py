"""Woodworth et al. 2020: kernel and rich regimes."""

from afterfit.papers.woodworth2020.appC import AppC
from afterfit.papers.woodworth2020.fig2 import Fig2
from afterfit.papers.woodworth2020.fig5 import Fig5
from afterfit.papers.woodworth2020.shape import Shape
from afterfit.papers.woodworth2020.thm1 import Thm1
from afterfit.papers.woodworth2020.thm2 import Thm2
from afterfit.papers.woodworth2020.thm4 import Thm4
from afterfit.papers.woodworth2020.thm9 import Thm9

__all__ = ["AppC", "Fig2", "Fig5", "Shape", "Thm1", "Thm2", "Thm4", "Thm9"]
