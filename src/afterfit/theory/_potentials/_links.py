"""The function φ of one coordinate of a potential, by the inverse of its derivative."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

__all__ = ["Exponential", "Link", "Power", "log_2cosh", "log_2sinh"]


class Link(Protocol):
    """φ by the inverse of its derivative: z = φ′⁻¹(s).

    Along the dual program s is known by a coordinate θ that keeps its relative precision wherever s does not, and
    changes of s are counted in units of how finely it must be told where c is small.
    """

    def log_mean(self, log_z: np.ndarray) -> np.ndarray:
        """log(φ(z)/z), z > 0."""
        ...

    def derivative(self, log_z: np.ndarray) -> np.ndarray:
        """s = φ′(z), z > 0."""
        ...

    def dual(self, theta: np.ndarray) -> np.ndarray:
        """s."""
        ...

    def weights(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        """β = c·φ′⁻¹(s)."""
        ...

    def rates(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        """dβ/ds, a unit of s."""
        ...

    def moved(self, theta: np.ndarray, change: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        """θ when s has changed by that many units; not finite if s has left its interval."""
        ...

    def share(self, log_c: float, log_next: float) -> float | None:
        """With β held, s changes by this many times β/(dβ/ds) as c goes to its next value; None: too far at once."""
        ...


@dataclasses.dataclass(frozen=True)
class Exponential:
    """q: s = arcsinh(z/2), z = 2sinh(s); θ = s, in units of 1."""

    def log_mean(self, log_z: np.ndarray) -> np.ndarray:
        z = np.exp(np.clip(log_z, -20, 300))
        # q(z)/z = arcsinh(z/2) − (√(4 + z²) − 2)/z, of which the last is z/(2 + √(4 + z²)): at most half the first.
        middle = np.log(np.arcsinh(z / 2) - z / (2 + np.sqrt(4 + z**2)))
        large = np.log(np.maximum(log_z, 2) - 1)
        return np.select([log_z < -20, log_z > 300], [log_z - np.log(4), large], middle)

    def derivative(self, log_z: np.ndarray) -> np.ndarray:
        return np.where(log_z > 300, log_z, np.arcsinh(np.exp(np.minimum(log_z, 300)) / 2))

    def dual(self, theta: np.ndarray) -> np.ndarray:
        return theta

    def weights(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        return np.sign(theta) * np.exp(log_c + log_2sinh(np.abs(theta)))

    def rates(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        return np.exp(log_c + log_2cosh(theta))

    def moved(self, theta: np.ndarray, change: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        return theta + change

    def share(self, log_c: float, log_next: float) -> float | None:
        # β = 2c·sinh(s): where s is large, it is linear in log c.
        return log_c - log_next


@dataclasses.dataclass(frozen=True)
class Power:
    """z = (1 − s)^{−p} − (1 + s)^{−p}, p = `power` > 1: q_D for p = D/(D−2).

    θ = artanh(s), so that 1 − s = e^{−θ}/cosh(θ) and 1 + s = e^θ/cosh(θ): then z = 2sinh(pθ)·cosh(θ)^p, and s may be
    10⁻³⁰⁰ away from 0 or from 1. The unit of s is c^{1/p} where c < 1: for fixed β it is the size of 1 − s.
    """

    power: float

    def log_mean(self, log_z: np.ndarray) -> np.ndarray:
        # φ(z)/z = s − φ*(s)/z, of which the last is at most half the first. The numerator of
        # φ*(s) = ((1 − s)^{1−p} + (1 + s)^{1−p} − 2)/(p − 1) is 2cosh(kθ)·cosh(θ)^k − 2, k = p − 1.
        k, seen = self.power - 1, np.maximum(log_z, -20)
        theta = self._theta(seen)
        near = np.minimum(theta, 1 / k)
        small = 2 * np.expm1(k * _log_cosh(near)) * np.cosh(k * near) + 4 * np.sinh(k * near / 2) ** 2
        large = np.exp(k * _log_cosh(theta) + log_2cosh(k * theta) - seen) - 2 * np.exp(-seen)
        conjugate = np.where(theta < 1 / k, small * np.exp(-seen), large) / k
        return np.where(log_z < -20, log_z - np.log(4 * self.power), np.log(np.tanh(theta) - conjugate))

    def derivative(self, log_z: np.ndarray) -> np.ndarray:
        return np.tanh(self._theta(log_z))

    def dual(self, theta: np.ndarray) -> np.ndarray:
        return np.tanh(theta)

    def weights(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        p, size = self.power, np.abs(theta)
        return np.sign(theta) * np.exp(log_c + p * _log_cosh(size) + log_2sinh(p * size))

    def rates(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        p, unit = self.power, np.minimum(log_c / self.power, 0)
        return p * np.exp(log_c + unit + (p + 1) * _log_cosh(theta) + log_2cosh((p + 1) * theta))

    def moved(self, theta: np.ndarray, change: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        # artanh(s + δ) = artanh(s) + artanh(δ/(1 − s² − sδ)), where 1 − s² = 1/cosh²(θ) is known to the last digit.
        room = np.exp(-2 * _log_cosh(theta) - np.minimum(log_c / self.power, 0))
        left = room - np.tanh(theta) * change
        return np.where(left > 0, theta + np.arctanh(change / left), np.nan)

    def share(self, log_c: float, log_next: float) -> float | None:
        # With β held, 1 − s is proportional to c^{1/p}: s is linear in that. Less than 10⁻⁸ of it would be rounding.
        left = (log_next - log_c) / self.power
        return -self.power * np.expm1(left) if left > -18 else None

    def _theta(self, log_z: np.ndarray) -> np.ndarray:
        """artanh(s) for a given log z: Newton's method on log z as a convex function of log θ."""
        p, seen = self.power, np.maximum(log_z, -20)  # below that z = 2pθ
        small, large = seen - np.log(2 * p), seen / (2 * p) + np.log(2) / 2
        log_theta = np.where(small < 0, small, np.log(np.maximum(large, 0.1)))
        for _ in range(60):
            theta = np.exp(log_theta)
            excess = log_2sinh(p * theta) + p * _log_cosh(theta) - seen
            change = excess / (p * theta / np.tanh(p * theta) + p * theta * np.tanh(theta))
            log_theta = log_theta - change
            if np.all(np.abs(change) <= 1e-15):
                break
        return np.exp(np.where(log_z < -20, log_z - np.log(2 * p), log_theta))


def _log_cosh(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    return np.where(size < 1, np.log1p(2 * np.sinh(np.minimum(size, 1) / 2) ** 2), log_2cosh(x) - np.log(2))


def log_2cosh(x: np.ndarray) -> np.ndarray:
    """log(2cosh(x))."""
    return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x)))


def log_2sinh(x: np.ndarray) -> np.ndarray:
    """log(2sinh(x)), x ≥ 0; −∞ at 0."""
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-2 * x))
