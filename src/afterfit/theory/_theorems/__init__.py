"""Whether a theorem speaks to a run: its assumptions on the run's own instance, what it predicts, and what happened.

One module a paper, found by itself. A new theorem is a subclass of `Theorem` with a `name`.
"""

from afterfit._base.rules import discover
from afterfit.theory._theorems._base import Case, Check, Outcome, Theorem, timed

__all__ = ["Case", "Check", "Outcome", "Theorem", "timed"]

discover(__name__)
