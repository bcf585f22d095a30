"""Boursier, Pesme and Dragomir 2025: interpolation, then Riemannian norm minimisation."""

from afterfit.papers import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    "boursier2025",
    "Boursier et al. 2025, A theoretical framework for grokking: interpolation followed by Riemannian "
    "norm minimisation",
)
