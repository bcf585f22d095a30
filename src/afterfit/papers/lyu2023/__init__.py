"""Lyu, Jin, Li, Du, Lee and Hu 2023: a dichotomy of early and late phase implicit biases."""

from afterfit.papers import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    "lyu2023",
    "Lyu et al. 2023, Dichotomy of early and late phase implicit biases can provably induce grokking",
)
