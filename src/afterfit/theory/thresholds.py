"""How small or large α must be for Q_α to stand for the L1 or the L2 norm (Woodworth et al. 2020, Thm 2, App. E).

Thresholds that can be below 10⁻³⁰⁸ are returned as log α. ε is the relative accuracy asked for.
"""

from __future__ import annotations

import numpy as np

from afterfit._base.errors import require

__all__ = ["alpha_lemma7", "alpha_thm2_l2", "log_alpha_lemma5", "log_alpha_lemma6", "log_alpha_thm2_l1"]


def __dir__() -> list[str]:
    return __all__


def log_alpha_thm2_l1(epsilon: float, l1: float, d: int) -> float:
    """Thm 2: with log α at most this, ‖argmin Q_α‖₁ ≤ (1 + ε)·l1, l1 = ‖β*‖₁ the least L1 norm and 0 < ε < d.

    α ≤ min{(2(1 + ε)l1)^{−(2+ε)/2ε}, exp(−d/(ε·l1))}.
    """
    _check(epsilon, l1)
    require(epsilon < d, f"Thm 2 is about 0 < ε < d, got ε={epsilon} and d={d}.")
    return float(min(-(2 + epsilon) / (2 * epsilon) * np.log(2 * (1 + epsilon) * l1), -d / (epsilon * l1)))


def alpha_thm2_l2(epsilon: float, l2: float) -> float:
    """Thm 2: with α at least this, ‖argmin Q_α‖₂² ≤ (1 + ε)·l2², l2 = ‖β*‖₂ the least L2 norm.

    α ≥ √(2(1 + ε)(1 + 2/ε)l2).
    """
    _check(epsilon, l2)
    return float(np.sqrt(2 * (1 + epsilon) * (1 + 2 / epsilon) * l2))


def log_alpha_lemma5(epsilon: float, l1: float, d: int) -> float:
    """Lemma 5, log α₁: at most this, Q_α(β)/log(1/α²) is within a factor 1 ± ε of l1 = ‖β‖₁, for any β of d entries.

    α₁ = min{1, √l1, (2·l1)^{−1/2ε}, exp(−d/(2ε·l1))}.
    """
    _check(epsilon, l1)
    return float(min(0.0, np.log(l1) / 2, -np.log(2 * l1) / (2 * epsilon), -d / (2 * epsilon * l1)))


def log_alpha_lemma6(epsilon: float, d: int) -> float:
    """Lemma 6: at or above this log α, Q_α/‖·‖₁ is at least 1 + ε times as large at e₁ as at 1/√d.

    α ≥ d^{−1/4−1/8ε}, for d ≥ max{e, 12^{4ε}}.
    """
    require(epsilon > 0, f"ε must be positive, got {epsilon}.")
    least = max(np.e, np.power(12.0, 4 * epsilon))
    require(bool(d >= least), f"Lemma 6 is about d ≥ max(e, 12^(4ε)) = {least:.4g}, got d={d}.")
    return float(-(1 / 4 + 1 / (8 * epsilon)) * np.log(d))


def alpha_lemma7(epsilon: float, l2: float) -> float:
    """Lemma 7, α₂: at least this, 4α²Q_α(β) is within a factor 1 ± ε of l2² = ‖β‖₂²: √l2·(1 + ε^{−1/4})."""
    _check(epsilon, l2)
    return float(np.sqrt(l2) * (1 + epsilon ** (-1 / 4)))


def _check(epsilon: float, norm: float) -> None:
    require(epsilon > 0, f"ε must be positive, got {epsilon}.")
    require(norm > 0, f"the norm must be positive, got {norm}: for y = 0 every minimiser is 0.")
