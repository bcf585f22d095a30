"""Findings of our own, in the form of a paper: propositions with their assumptions, evidence and limits."""

from afterfit.papers import Paper

__all__ = ["PAPER"]

PAPER = Paper("afterfit2026", "The afterfit developers 2026, Findings of our own")
