"""Notsawo et al. 2025: grokking beyond the Euclidean norm."""

from afterfit.papers.notsawo2025.fig3 import Fig3
from afterfit.papers.notsawo2025.fig4 import Fig4
from afterfit.papers.notsawo2025.fig27 import Fig27
from afterfit.papers.notsawo2025.thm21 import Thm21
from afterfit.papers.notsawo2025.tools import Tools

__all__ = ["Fig3", "Fig4", "Fig27", "Thm21", "Tools"]
