"""Notsawo et al. 2025: grokking beyond the Euclidean norm."""

from afterfit.papers import Paper

__all__ = ["PAPER"]

PAPER = Paper("notsawo2025", "Notsawo et al. 2025, Grokking beyond the Euclidean norm of model parameters")
