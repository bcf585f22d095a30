"""How well a classifier of large margin must generalise (Lyu et al. 2023, App. E).

Bounds are on the share of inputs that are misclassified, and hold with probability 1 − δ over the training set. Above 1
they say nothing. F_p is the set of linear functions ⟨w, x⟩ with ‖w‖_p ≤ 1.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from afterfit._base.errors import require

__all__ = ["l1_margin_bound", "l2_margin_bound", "margin_bound", "rademacher_l1_bound", "rademacher_l2_bound"]


def __dir__() -> list[str]:
    return __all__


def l1_margin_bound(n: int, d: int, k: int, delta: float) -> float:
    """Thm E.4, (38): the error of the classifier of largest L1 margin on n examples from {±1}^d, k-sparse ±1 teacher.

    4k·√(2·log(2d)/n) + 3·√(log(2/δ)/2n): of order k²·log d examples are enough.

    ```python
    l1_margin_bound(n=10_000, d=100, k=3, delta=0.1)  # 0.43
    ```
    """
    _check_sizes(n, d, k)
    return 4 * k * float(np.sqrt(2 * np.log(2 * d) / n)) + _confidence(n, delta)


def l2_margin_bound(n: int, d: int, k: int, delta: float) -> float:
    """Thm E.5, (40): the same for the classifier of largest L2 margin, 4·√(kd/n) + 3·√(log(2/δ)/2n): of order kd."""
    _check_sizes(n, d, k)
    return 4 * float(np.sqrt(k * d / n)) + _confidence(n, delta)


def margin_bound(margins: Float[np.ndarray, " n"], q: float, complexity: float, delta: float) -> float:
    """Thm E.2, (35): the error of any f of a family, with margins yᵢf(xᵢ) on n examples and a q chosen beforehand.

    The share of margins of at most q, plus 2/q times the family's empirical Rademacher complexity on these examples
    (or a bound of it), plus 3·√(log(2/δ)/2n).
    """
    require(q > 0, f"the margin q that is asked for must be positive, got {q}.")
    require(complexity >= 0, f"a Rademacher complexity is 0 or more, got {complexity}.")
    return float(np.mean(margins <= q)) + 2 / q * complexity + _confidence(len(margins), delta)


def rademacher_l1_bound(X: Float[np.ndarray, "n d"]) -> float:
    """Thm E.3, (36): the empirical Rademacher complexity of F₁ on the rows of X: √(2·log(2d)·Σ‖xᵢ‖_∞²)/n at most."""
    n, d = X.shape
    return float(np.sqrt(2 * np.log(2 * d) * np.sum(np.max(np.abs(X), axis=1) ** 2))) / n


def rademacher_l2_bound(X: Float[np.ndarray, "n d"]) -> float:
    """Thm E.3, (37): the same for F₂: √(Σ‖xᵢ‖₂²)/n."""
    return float(np.linalg.norm(X)) / len(X)


def _confidence(n: int, delta: float) -> float:
    require(0 < delta < 1, f"δ is a probability between 0 and 1, got {delta}.")
    return 3 * float(np.sqrt(np.log(2 / delta) / (2 * n)))


def _check_sizes(n: int, d: int, k: int) -> None:
    require(n >= 1, f"the bound needs at least one example, got n={n}.")
    require(1 <= k <= d, f"the sparsity k is between 1 and d={d}, got {k}.")
    require(k % 2 == 1, f"the sparsity k must be odd, or ⟨w*, x⟩ can be 0 on {{±1}}^d: got {k}.")
