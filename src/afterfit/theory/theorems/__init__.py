"""Whether a theorem speaks to a run: its assumptions on the run's own instance, what it predicts, and what happened.

One module a paper. A new theorem is a subclass of `Theorem` in its paper's module, and in `THEOREMS`.
"""

from afterfit.theory.theorems._base import Case, Check, Outcome, Theorem
from afterfit.theory.theorems.boursier2025 import TwoTimeScales
from afterfit.theory.theorems.lyu2023 import Classification, LabelNoise, MarginBounds, Regression
from afterfit.theory.theorems.notsawo2025 import MatrixRecovery, SparseRecovery, TwoPhases, WithoutUnderstanding
from afterfit.theory.theorems.woodworth2020 import ImplicitBias

__all__ = ["THEOREMS", "Case", "Check", "Outcome", "Theorem"]

THEOREMS: tuple[Theorem, ...] = (
    Classification(),
    Regression(),
    MarginBounds(),
    ImplicitBias(),
    TwoTimeScales(),
    TwoPhases(),
    SparseRecovery(),
    MatrixRecovery(),
    WithoutUnderstanding(),
    LabelNoise(),
)
