"""How far the norms of argmin Q_α are above the least: on given data, on random problems, and on the hardest."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

import afterfit as af

__all__ = ["Least", "Tried", "excess_l1", "excess_l2", "hardest", "least_norms"]


class Least(NamedTuple):
    """‖β*‖₁ of the least L1 norm and ‖β*‖₂ of the least L2 norm."""

    l1: float
    l2: float


def least_norms(X: np.ndarray, y: np.ndarray) -> Least:
    return Least(float(np.abs(af.theory.min_l1(X, y)).sum()), float(np.linalg.norm(af.theory.min_l2(X, y))))


def excess_l1(beta: np.ndarray, least: float) -> float:
    return float(np.abs(beta).sum() / least - 1)


def excess_l2(beta: np.ndarray, least: float) -> float:
    """Of the squared norm."""
    return float(np.sum(beta**2) / least**2 - 1)


@dataclasses.dataclass(frozen=True)
class Tried:
    """A random problem and an accuracy to ask of it."""

    X: np.ndarray
    y: np.ndarray
    epsilon: float

    @classmethod
    def draw(cls, seed: int) -> Tried:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 6))
        d = n + int(rng.integers(2, 25))
        X = rng.standard_normal((n, d))
        if seed % 2:  # columns that are nearly equal make the least L1 norm hard to reach
            X = rng.standard_normal((n, 1)) * (1 - 10 ** rng.uniform(-3, -0.5, d)) + 1e-2 * X
        y = X @ rng.standard_normal(d)
        y *= 10 ** rng.uniform(0, 3) / least_norms(X, y).l1  # so that exp(−d/(ε‖β*‖₁)) is a number
        epsilon = 10 ** rng.uniform(np.log10(0.02), np.log10(5))
        return cls(X, y, float(min(epsilon, 0.9 * d)))

    def rich_share(self) -> float:
        """The L1 excess over ε at the first threshold; at 10⁻³⁰⁰ where that is smaller."""
        least = least_norms(self.X, self.y).l1
        log_alpha = af.theory.thresholds.log_alpha_thm2_l1(self.epsilon, least, self.X.shape[1])
        beta = af.theory.Q(float(np.exp(max(log_alpha, -690)))).minimise(self.X, self.y)
        return excess_l1(beta, least) / self.epsilon

    def kernel_share(self) -> float:
        """The squared L2 excess over ε at the second threshold."""
        least = least_norms(self.X, self.y).l2
        beta = af.theory.Q(af.theory.thresholds.alpha_thm2_l2(self.epsilon, least)).minimise(self.X, self.y)
        return excess_l2(beta, least) / self.epsilon

    def __str__(self) -> str:
        n, d = self.X.shape
        return f"n={n}, d={d}, ε={self.epsilon:.2g}, ‖β*‖₁={least_norms(self.X, self.y).l1:.3g}"


def hardest(log: float) -> tuple[float, float]:
    """The largest L1 excess of argmin Q_α, log(1/α) = `log`, over the problems β₁ + (1 − δ)β₂ = 1; and its δ.

    There β₂ = α²e^{(1−δ)ν} beside β₁ = α²e^ν, so β₂/β₁ = e^{−δν}: worst where δ is about 1/ν.
    """
    from scipy.optimize import minimize_scalar

    def excess(log_delta: float) -> float:
        X = np.array([[1.0, -np.expm1(log_delta)]])
        return np.abs(af.theory.Q(float(np.exp(-log))).minimise(X, np.ones(1))).sum() - 1

    found: Any = minimize_scalar(
        lambda x: -excess(x), bounds=(-np.log(20 * log), -0.1), method="bounded", options={"xatol": 1e-4}
    )
    return float(-found.fun), float(np.exp(found.x))
