"""Measurements and bases, and how coherent they are: App. G.1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import share
from afterfit.papers.notsawo2025.isometry import SLACK

__all__ = [
    "coherence_rises",
    "has_fourier_coherence",
    "keeps_sparsity",
    "stays_incoherent",
]


def has_fourier_coherence(columns: Callable[[np.ndarray], np.ndarray]) -> Finding:
    """Whether μ₁(A, s) = s/√n for s < n, A made of the Fourier basis Φ of ℂⁿ."""
    apart, first = [], []
    for n in (4, 9, 16):
        A = columns(np.fft.fft(np.eye(n)) / np.sqrt(n))
        first.append(af.theory.sensing.mutual_coherence(A))
        apart += [abs(af.theory.sensing.one_coherence(A, s) - s / np.sqrt(n)) for s in range(1, n)]
    return Finding(
        f"n = 4, 9, 16: μ = {', '.join(f'{mu:.2g}' for mu in first)} (1/√n: 0.5, 0.33, 0.25); μ₁ is off by at most "
        f"{max(apart):.2g} for s < n",
        max(apart) <= SLACK,
    )


def keeps_sparsity(matrices: list[np.ndarray]) -> Finding:
    """Whether ã* = (ΦᵀΦ)^½a* has as many non-zeros as a*, for unit vectors a*."""
    counts = []
    for phi in matrices:
        values, vectors = np.linalg.eigh(phi.T @ phi)
        root = vectors * np.sqrt(values) @ vectors.T  # the block of (ΨᵀΨ)^½ that is not the identity
        counts.append(int(np.sum(np.abs(root) > 1e-6, axis=0).max()))
    kept = sum(count == 1 for count in counts)
    return Finding(
        f"of {len(matrices)} matrices Φ, 16x6, a share {share(kept, len(matrices))} keeps ‖ã*‖₀ = 1 where ‖a*‖₀ = 1; "
        f"it is up to {max(counts)}",
        kept == len(matrices),
    )


def coherence_rises(draws: dict[float, list[np.ndarray]], basis: np.ndarray) -> Finding:
    """Whether μ(Mᵀ, Φ) is below 1 before a measurement is from the basis, and rises to 1, on all draws."""
    mus = np.array([[af.theory.sensing.coherence(M.T, basis) for M in several] for several in draws.values()])
    rise = np.all(np.diff(mus, axis=0) >= -SLACK, axis=0) & (np.abs(mus[-1] - 1) <= SLACK) & (mus[0] < 1)
    return Finding(
        f"N={len(draws[0.0][0])}, means of {len(rise)} draws: "
        + ", ".join(f"{mu:.3g} (τ={tau:.3g})" for tau, mu in zip(draws, mus.mean(axis=1), strict=True))
        + f"; it rises so in a share {share(int(rise.sum()), len(rise))}",
        bool(np.all(rise)),
    )


def stays_incoherent(phi: np.ndarray, M: list[np.ndarray], powers: tuple[float, ...]) -> Finding:
    """Whether μ(Mᵀ, Φ) exceeds 2√ln(nN)/n^C₁ no more often than Thm G.4 allows with C₂ = 1, for such C₁."""
    N, n = M[0].shape
    allowed = 1 / (n * N)
    mu = np.array([af.theory.sensing.coherence(x.T, phi) for x in M])  # of every C₁: μ does not see the scale of M
    bounds = {C1: 2 * np.sqrt(np.log(n * N)) / n**C1 for C1 in powers}
    exceeded = {C1: share(int(np.sum(mu > bound)), len(M)) for C1, bound in bounds.items()}
    return Finding(
        f"n={n}, N={N}, C₂=1: the bound is exceeded by μ, {np.median(mu):.3g} in the median, in a share "
        + ", ".join(f"{often} (C₁={C1:g}, bound {bounds[C1]:.2g})" for C1, often in exceeded.items())
        + f" of {len(M)} draws, allowed {allowed:.2%}",
        max(bounds.values()) < 1 and all(often.low <= allowed for often in exceeded.values()),  # μ ≤ 1 whatever M
    )
