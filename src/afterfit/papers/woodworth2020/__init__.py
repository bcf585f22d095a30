"""Woodworth et al. 2020: kernel and rich regimes."""

from afterfit.papers import Paper

__all__ = ["PAPER"]

PAPER = Paper("woodworth2020", "Woodworth et al. 2020, Kernel and rich regimes in overparametrized models")
