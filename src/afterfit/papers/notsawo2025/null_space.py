"""Null space constants of runs and of random draws, and the error bound that rests on them."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

import afterfit as af

__all__ = [
    "Robust",
    "Support",
    "draw_supports",
    "error_bound",
    "excess",
    "null_space_constant",
    "robust_constants",
]


class Robust(NamedTuple):
    """The constants of a robust null space property."""

    rho: float
    tau: float


class Support(NamedTuple):
    """A draw with a share τ of measurements from the basis: ρ_S of its support S.

    `recovers` says whether ℓ₁ minimisation finds every pattern of signs on S.
    """

    tau: float
    rho: float
    recovers: bool


def null_space_constant(data: af.tasks.Data) -> float:
    """ρ_S of the measurements and the support."""
    support = np.flatnonzero(data.truth).tolist()
    return af.theory.sensing.null_space_constant(data.inputs, support=support).lower


def robust_constants(data: af.tasks.Data) -> Robust:
    """A pair (ρ, τ) of the robust null space property: ρ midway between ρ_S and 1."""
    rho, support = (1 + null_space_constant(data)) / 2, np.flatnonzero(data.truth).tolist()
    return Robust(rho, af.theory.sensing.robust_null_space_constant(data.inputs, rho, support))


def error_bound(run: af.Run, constants: Robust) -> np.ndarray:
    """Thm C.38's bound on ‖a(t) − a*‖₁ at every time of a run."""
    weights, truth = run.curves["weights"].values, run.data.truth
    too_long = np.abs(weights).sum(axis=1) - np.abs(truth).sum()
    residual = np.linalg.norm((weights - truth) @ run.data.inputs.T, axis=1)
    return af.theory.sensing.recovery_bound(*constants, too_long, residual)


def excess(u: np.ndarray, v: np.ndarray, off: np.ndarray) -> np.ndarray:
    """‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁ of each row, S̄ given as `off`."""
    return np.abs(v).sum(axis=1) - np.abs(u).sum(axis=1) + 2 * np.abs(u[:, off]).sum(axis=1)


def draw_supports(task: af.tasks.Task, seeds: int) -> list[Support]:
    """Draws of a task at five τ."""
    return [
        _support_of(task.replace(coherence=tau).draw(np.random.default_rng(seed)), tau)
        for tau, seed in itertools.product((0.0, 0.25, 0.5, 0.75, 1.0), range(seeds))
    ]


def _support_of(data: af.tasks.Data, tau: float) -> Support:
    # A pattern that is found once is found with any magnitudes (Foucart & Rauhut 2013, Thm 4.30), but for ρ_S = 1.
    X, S = data.inputs, np.flatnonzero(data.truth)
    missed = 0.0
    for signs in itertools.product((1.0, -1.0), repeat=len(S) - 1):
        a = np.zeros(X.shape[1])
        a[S] = (1.0, *signs)
        missed = max(missed, float(np.max(np.abs(af.theory.min_l1(X, X @ a) - a))))
    return Support(tau, null_space_constant(data), missed <= 1e-6)
