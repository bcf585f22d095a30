"""Woodworth et al. 2020: kernel and rich regimes."""

from afterfit.papers.woodworth2020.appC import AppC
from afterfit.papers.woodworth2020.thm1 import Thm1

__all__ = ["AppC", "Thm1"]
