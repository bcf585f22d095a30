"""What null space properties say of errors, and what is found with them: Defs C.34 to C.48."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import share
from afterfit.papers.notsawo2025.draws import Pairs
from afterfit.papers.notsawo2025.null_space import Line, Robust, excess

__all__ = [
    "Pursuit",
    "bounds_basis_pursuit",
    "decides",
    "finds_all",
    "has_property",
    "rank_bound",
    "robust_bound",
    "stable_bound",
]


class Pursuit(NamedTuple):
    """A truth, what basis pursuit finds, and the null space constant of order 1."""

    truth: np.ndarray
    found: np.ndarray
    rho: float


def has_property(
    run: af.Run, robust: Robust, pairs: Pairs, worst: np.ndarray, less: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Finding:
    """Whether ‖u_S‖₁ is `less` than ρ‖u_{S̄}‖₁ + τ‖Xu‖₂ for random u, the worst one, and 0."""
    X, on = run.data.inputs, run.data.truth != 0
    u = np.vstack([pairs.u, pairs.alike - pairs.u, worst, np.zeros(len(worst))])
    left = np.abs(u[:, on]).sum(axis=1)
    right = robust.rho * np.abs(u[:, ~on]).sum(axis=1) + robust.tau * np.linalg.norm(u @ X.T, axis=1)
    held = less(left, right)
    return Finding(
        f"X of the run, ρ={robust.rho:.3f}, τ={robust.tau:.3g}: so for {int(held.sum())} of {len(u)} u, of them 0 and "
        f"the worst, where ‖u_S‖₁ is {left[-2] / right[-2]:.6f} of the other side",
        bool(np.all(held)),
    )


def stable_bound(run: af.Run, rho: float, pairs: Pairs, factor: float = 1.0) -> Finding:
    """Whether Thm C.36's bound, with so much of ρ, holds on pairs, and is attained by u = −w_S, v = w_{S̄}."""
    u, v, off = pairs.u, pairs.alike, np.flatnonzero(run.data.truth == 0)
    shares = np.abs(v - u).sum(axis=1) / af.theory.sensing.recovery_bound(factor * rho, 0.0, excess(u, v, off), 0.0)
    tight = [found for w in pairs.lines if (found := _share_on_line(w, factor)) is not None]
    return Finding(
        f"X of the run, ρ_S={rho:.3f}: at most {shares.max():.3f} of the bound on {len(u)} pairs. Only if: "
        f"u = −w_S and v = w_{{S̄}} attain it, {min(tight):.6f} to {max(tight):.6f} of it on {len(tight)} kernels",
        bool(np.all(shares >= 0) and shares.max() <= 1 and np.ptp([*tight, 1.0]) <= 1e-5),
    )


def _share_on_line(w: np.ndarray, factor: float) -> float | None:
    """‖v − u‖₁ beside its bound for u = −w_S, v = w_{S̄} and a kernel spanned by w, which needs its ρ; S = {1}.

    None where ρ is not well below 1.
    """
    rho = af.theory.sensing.null_space_constant(np.linalg.svd(w[None, :])[2][1:], support=[0]).lower
    if rho >= 0.99:
        return None
    bound = af.theory.sensing.recovery_bound(factor * rho, 0.0, np.abs(w[1:]).sum() - abs(w[0]), 0.0)
    return float(np.abs(w).sum() / bound)


def bounds_basis_pursuit(pursuits: list[Pursuit], nearly_sparse: list[np.ndarray]) -> Finding:
    """Whether basis pursuit errs by at most 2(1 + ρ)/(1 − ρ)·σ₁ of these vectors."""
    held, said = [], ""
    for pursuit, a in zip(pursuits, nearly_sparse, strict=True):
        defect, error = float(np.sort(np.abs(a))[:-1].sum()), float(np.abs(pursuit.found - pursuit.truth).sum())
        bound = float(af.theory.sensing.recovery_bound(pursuit.rho, 0.0, 2 * defect, 0.0))
        held.append(error <= bound + 1e-6)
        said = said or f"{error:.3g}, of at most {bound:.3g}"  # the first
    return Finding(
        f"so on {sum(held)} of {len(held)} problems (share {share(sum(held), len(held))}); for ker A = span(1, 1, 1) "
        f"and a* = (1, 1, 0) the error is {said}",
        all(held),
    )


def robust_bound(run: af.Run, robust: Robust, pairs: Pairs, worst: np.ndarray) -> Finding:
    """Whether Thm C.38's bound holds on pairs, and on u = −w_S, v = w_{S̄} for the worst w, which attains it."""
    X, off = run.data.inputs, np.flatnonzero(run.data.truth == 0)
    tail = np.where(run.data.truth == 0, worst, 0.0)
    u, v = np.vstack([pairs.u, tail - worst]), np.vstack([pairs.near, tail])
    residual = np.linalg.norm((v - u) @ X.T, axis=1)
    shares = np.abs(v - u).sum(axis=1) / af.theory.sensing.recovery_bound(*robust, excess(u, v, off), residual)
    return Finding(
        f"X of the run, ρ={robust.rho:.3f}, τ={robust.tau:.3g}: at most {shares[:-1].max():.3f} of the bound on "
        f"{len(u) - 1} pairs; {shares[-1]:.6f} of it on u = −w_S, v = w_{{S̄}} for the w that needs this τ",
        bool(np.isfinite(robust.tau) and np.all(shares >= 0) and shares.max() <= 1 + 1e-5 and shares[-1] >= 0.999),
    )


def decides(draws: list[tuple[float, bool]], what: str) -> Finding:
    """Whether what is recovered is all with ρ < 1 and nothing else; of draws with their ρ."""
    below, above = ([found for rho, found in draws if (rho < 1) == side] for side in (True, False))
    return Finding(
        f"{what} found on {sum(below)} of the {len(below)} draws with ρ < 1 (share {share(sum(below), len(below))}), "
        f"and on {sum(above)} of the {len(above)} with ρ ≥ 1 (share {share(sum(above), len(above))})",
        all(below) and not any(above) and bool(below) and bool(above),
    )


def finds_all(line: Line, finds: Callable[[np.ndarray], bool]) -> bool:
    """Whether matrices of rank 1 are found: the leading part of W, which is the hardest, and a random one."""
    rng = np.random.default_rng(11)
    return finds(line.leading) and finds(np.outer(rng.standard_normal(3), rng.standard_normal(4)))


def rank_bound(lines: list[Line], factor: float = 1.0) -> Finding:
    """Whether Thm C.47's bound, with so much of ρ, holds on pairs, and is attained by A = −W₁, B = W − W₁."""
    rng, shares, tight = np.random.default_rng(12), [], []

    def beside(A: np.ndarray, B: np.ndarray, rho: float) -> float:
        sigma = np.linalg.svd(A, compute_uv=False)
        longer = np.linalg.norm(B, "nuc") - sigma.sum() + 2 * sigma[1:].sum()
        return float(np.linalg.norm(B - A, "nuc") / af.theory.sensing.recovery_bound(rho, 0.0, longer, 0.0))

    sound = [line for line in lines if line.rho < 0.99]
    for line in sound:
        for size in (0.1, 1.0):
            A = np.outer(rng.standard_normal(3), rng.standard_normal(4)) + size * rng.standard_normal((3, 4))
            shares.append(beside(A, A + rng.standard_normal() * line.W, factor * line.rho))
        tight.append(beside(-line.leading, line.W - line.leading, factor * line.rho))
    return Finding(
        f"{len(sound)} maps of 3 x 4 matrices with kernels that are lines and ρ < 1: at most {max(shares):.3f} of the "
        f"bound on {len(shares)} pairs. Only if: A = −W₁ and B = W − W₁ attain it, {min(tight):.6f} to "
        f"{max(tight):.6f} of it",
        min(shares) >= 0 and max(shares) <= 1 and np.ptp([*tight, 1.0]) <= 1e-6,
    )
