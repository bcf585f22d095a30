"""How far the norms of argmin Q_α are above the least: on given data, on random problems, and on the hardest."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
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


@dataclasses.dataclass(frozen=True, eq=False)
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

    @functools.cached_property
    def least(self) -> Least:
        return least_norms(self.X, self.y)

    @property
    def log_rich(self) -> float:
        """log α at the first threshold."""
        return af.theory.thresholds.log_alpha_thm2_l1(self.epsilon, self.least.l1, self.X.shape[1])

    @property
    def kernel(self) -> float:
        """α at the second threshold."""
        return af.theory.thresholds.alpha_thm2_l2(self.epsilon, self.least.l2)

    def minimiser(self, alpha: float) -> np.ndarray:
        return af.theory.Q(alpha).minimise(self.X, self.y)

    def l1_share(self, log_alpha: float) -> float:
        """The L1 excess of argmin Q_α over ε; at 10⁻³⁰⁰ where α is smaller."""
        return excess_l1(self.minimiser(float(np.exp(max(log_alpha, -690)))), self.least.l1) / self.epsilon

    def l2_share(self, alpha: float) -> float:
        """The squared L2 excess of argmin Q_α over ε."""
        return excess_l2(self.minimiser(alpha), self.least.l2) / self.epsilon

    def flow(self, alpha: float) -> np.ndarray:
        """Where gradient flow on ‖X(w₊² − w₋²) − y‖² ends from w₊ = w₋ = α1, by SciPy's LSODA on w₊ and w₋."""
        from scipy.integrate import solve_ivp

        H = self.X.T @ self.X

        def gradient(w: np.ndarray) -> np.ndarray:
            """That of ‖Xβ − y‖² in β."""
            return 2 * self.X.T @ (self.X @ _weights(w) - self.y)

        def velocity(_: float, w: np.ndarray) -> np.ndarray:
            return -2 * np.tile(gradient(w), 2) * np.repeat([1, -1], H.shape[0]) * w

        def jacobian(_: float, w: np.ndarray) -> np.ndarray:
            signed = np.repeat([1, -1], H.shape[0])
            return -2 * np.diag(signed * np.tile(gradient(w), 2)) - 8 * np.outer(signed * w, signed * w) * np.tile(
                H, (2, 2)
            )

        def fits(_: float, w: np.ndarray) -> float:
            return float(np.linalg.norm(self.X @ _weights(w) - self.y) / np.linalg.norm(self.y)) - 1e-7

        fits.terminal = True  # type: ignore[attr-defined]
        start = np.full(2 * H.shape[0], alpha)
        found: Any = solve_ivp(
            velocity, (0, 1e9), start, method="LSODA", rtol=1e-9, atol=1e-200, jac=jacobian, events=fits
        )
        return _weights(found.y[:, -1])

    def __str__(self) -> str:
        n, d = self.X.shape
        return f"n={n}, d={d}, ε={self.epsilon:.2g}, ‖β*‖₁={self.least.l1:.3g}"


def _weights(w: np.ndarray) -> np.ndarray:
    """w₊² − w₋²."""
    plus, minus = np.split(w, 2)
    return plus**2 - minus**2


def hardest(log: float, potential: Callable[[float], Any] | None = None) -> tuple[float, float]:
    """The largest L1 excess of argmin Q_α, log(1/α) = `log`, over the problems β₁ + (1 − δ)β₂ = 1; and its δ.

    Another potential may be given. For Q_α it is β₂ = α²e^{(1−δ)ν} beside β₁ = α²e^ν, so β₂/β₁ = e^{−δν}: worst where
    δ is about 1/ν.
    """
    from scipy.optimize import minimize_scalar

    at = (potential or af.theory.Q)(float(np.exp(-log)))

    def excess(log_delta: float) -> float:
        X = np.array([[1.0, -np.expm1(log_delta)]])
        return np.abs(at.minimise(X, np.ones(1))).sum() - 1

    found: Any = minimize_scalar(
        lambda x: -excess(x), bounds=(-np.log(20 * log), -0.1), method="bounded", options={"xatol": 1e-4}
    )
    return float(-found.fun), float(np.exp(found.x))
