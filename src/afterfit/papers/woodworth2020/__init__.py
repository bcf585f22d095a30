"""Woodworth et al. 2020: kernel and rich regimes."""

from afterfit.papers.woodworth2020.appC import AppC
from afterfit.papers.woodworth2020.thm1 import Thm1
from afterfit.papers.woodworth2020.thm9 import Thm9

__all__ = ["AppC", "Thm1", "Thm9"]
