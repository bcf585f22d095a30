"""Local coherences of matrices: Defs G.6 to G.10."""

from __future__ import annotations

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers.notsawo2025.draws import Factors
from afterfit.papers.notsawo2025.isometry import SLACK

__all__ = [
    "has_local_coherence",
    "is_enough",
]


def has_local_coherence(factors: list[Factors]) -> Finding:
    """Whether 1 ≤ μ(U) ≤ n/r in the canonical and in the given bases, Σμᵢ = n, and (124) holds."""
    sensing = af.theory.sensing
    singular = np.array([np.linalg.svd(U @ V.T, compute_uv=False)[:3] for U, V, _, _ in factors])
    of_U = [mu for U, _, P, _ in factors for mu in (sensing.subspace_coherence(U), sensing.subspace_coherence(U, P))]
    of_V = [mu for _, V, _, Q in factors for mu in (sensing.subspace_coherence(V), sensing.subspace_coherence(V, Q))]
    turned = max(_turned_apart(pair) for pair in factors)
    scores = [sensing.local_coherences(*pair) for of_draw in factors for pair in (of_draw[::2], of_draw[1::2])]
    sums = max(abs(values.sum() - len(values)) for values in scores)
    return Finding(
        f"{len(factors)} matrices 12x8 of rank 3 with singular values 1/√3 (to {np.ptp(singular):.1g}): μ(U) from "
        f"{min(of_U):.3g} to {max(of_U):.3g} of 4, μ(V) from {min(of_V):.3g} to {max(of_V):.3g} of 2.67; (124) to "
        f"{turned:.1g}; Σμᵢ = n₁ and Σνⱼ = n₂ to {sums:.1g}",
        min(*of_U, *of_V) >= 1 - SLACK
        and max(of_U) <= 4 + SLACK
        and max(of_V) <= 8 / 3 + SLACK
        and max(turned, sums) <= SLACK
        and bool(np.max(np.abs(singular - 3**-0.5)) <= SLACK),
    )


def _turned_apart(factors: Factors) -> float:
    """How far the local coherences of A in the bases P and Q are from those of PᵀAQ, (124)."""
    U, V, P, Q = factors
    rows, columns = af.theory.sensing.leverage_scores(P.T @ (U @ V.T) @ Q, 3)
    return max(
        np.max(np.abs(af.theory.sensing.local_coherences(U, P) - rows)),
        np.max(np.abs(af.theory.sensing.local_coherences(V, Q) - columns)),
    )


def is_enough(factors: list[Factors], root: float) -> Finding:
    """Whether the smallest μ₁ is at most μ₀ times this."""
    both = [af.theory.sensing.completion_coherences(U @ V.T, 3) for U, V, _, _ in factors]
    shares = [mu_1 / (mu_0 * root) for mu_0, mu_1 in both]
    return Finding(
        f"{len(factors)} matrices 12x8 of rank 3: the smallest μ₁ is {min(shares):.3f} to {max(shares):.3f} of "
        f"{root:.3g}μ₀",
        max(shares) <= 1 + SLACK,
    )
