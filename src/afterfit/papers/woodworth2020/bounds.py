"""What Thm 9 asks of the start of a matrix factorisation, and the bounds it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

import afterfit as af
from afterfit.papers._paths import initial

__all__ = ["Start", "lifted", "measurements", "start_of", "tangent_at"]


@dataclasses.dataclass(frozen=True)
class Start:
    """A start W(0), with the numbers of the theorem: `least` and `largest` are its λ and Λ."""

    d: int
    k: int
    alpha: float
    mu: float
    gamma: float
    misfit: float  # ‖y(0) − y*‖
    target: float  # ‖y*‖
    least: float
    largest: float
    linear: float = np.nan  # √(rᵀ(𝒳𝒳ᵀ)⁻¹r/2μ), r = y(0) − y*: the way of the linearised model where W(0)W(0)ᵀ = μI

    @property
    def close(self) -> bool:
        """W(0)W(0)ᵀ is near enough to μI."""
        return self.mu > 4 * self.largest * self.gamma / self.least

    @property
    def allowed(self) -> float:
        """The largest ‖y(0) − y*‖ of the theorem."""
        ratio = (1 + self.gamma / self.mu) / (1 + self.least / (4 * self.largest))
        return self.mu * self.least / np.sqrt(self.largest) * (1 - np.sqrt(ratio))

    @property
    def fits(self) -> bool:
        return self.misfit <= self.allowed

    @property
    def way(self) -> float:
        """The bound on ‖W(T) − W(0)‖."""
        return np.sqrt(self.largest + self.least / 4) * self.misfit / (self.least * np.sqrt(self.mu))

    @property
    def apart(self) -> float:
        """The bound on ‖W(T) − W_TK(T)‖."""
        curved = self.largest * np.sqrt(1 + self.least / (4 * self.largest)) * self.misfit**2
        straight = 2 * np.sqrt(self.largest) * np.sqrt(1 + self.gamma / self.mu) * self.misfit
        return curved / (self.least**2 * self.mu**1.5) + straight / (self.least * np.sqrt(self.mu))

    def lifted(self) -> Start:
        """The same with λ and Λ of the measurements ½[0 X; Xᵀ 0], whose squares are half those of X."""
        return dataclasses.replace(self, least=self.least / 2, largest=self.largest / 2)


def measurements(run: af.Run) -> np.ndarray:
    """Xₙ, one matrix a measurement."""
    inputs = run.data.inputs
    return af.theory.single_entries(inputs.mask) if hasattr(inputs, "mask") else np.asarray(inputs)


def lifted(X: np.ndarray) -> np.ndarray:
    """½[0 Xₙ; Xₙᵀ 0]."""
    n, d, _ = X.shape
    bar = np.zeros((n, 2 * d, 2 * d))
    bar[:, :d, d:], bar[:, d:, :d] = X / 2, np.swapaxes(X, 1, 2) / 2
    return bar


def start_of(run: af.Run, W0: np.ndarray | None = None) -> Start:
    """The start of a run, with μ = α²k as in (90); `W0` is W(0), where it is known."""
    X, alpha, k = measurements(run), run.spec["init"]["scale"], run.spec["model"]["rank"]
    d, W = len(run.data.truth), (initial(run) if W0 is None else W0).reshape(-1, k)
    rows = X.reshape(len(X), -1)
    eigenvalues = np.linalg.eigvalsh(rows @ rows.T)
    mu, target = alpha**2 * k, rows @ np.ravel(run.data.truth)
    residual = rows @ np.ravel(W[:d] @ W[d:].T) - target
    return Start(
        d=d,
        k=k,
        alpha=alpha,
        mu=mu,
        gamma=float(np.linalg.norm(W @ W.T - mu * np.eye(2 * d), 2)),
        misfit=float(np.linalg.norm(residual)),
        target=float(np.linalg.norm(target)),
        least=float(eigenvalues[0]),
        largest=float(eigenvalues[-1]),
        linear=float(np.sqrt(residual @ np.linalg.solve(rows @ rows.T, residual) / (2 * mu))),
    )


def tangent_at(run: af.Run, W0: np.ndarray, times: Sequence[float] | np.ndarray) -> np.ndarray:
    """W_TK at each of `times` from the start W(0) of a run, one row a time.

    For f = y(0) + J(W − W(0)) the flow of ‖f − y*‖² is W(0) − Jᵀ(JJᵀ)⁻¹(1 − exp(−2JJᵀt))(y(0) − y*).
    """
    X, (U, V) = measurements(run), W0.reshape(2, len(run.data.truth), -1)
    J = np.concatenate([X @ V, np.swapaxes(X, 1, 2) @ U], axis=1).reshape(len(X), -1)
    rates, axes = np.linalg.eigh(J @ J.T)
    residual = axes.T @ np.tensordot(X, U @ V.T - run.data.truth, axes=2)
    fitted = -np.expm1(-2 * np.outer(times, rates)) / rates * residual
    return W0 - fitted @ axes.T @ J
