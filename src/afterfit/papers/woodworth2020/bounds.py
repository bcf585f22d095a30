"""What Thm 9 asks of the start of a matrix factorisation, and the bounds it gives."""

from __future__ import annotations

import dataclasses

import numpy as np

import afterfit as af
from afterfit.papers._paths import initial

__all__ = ["Start", "start_of"]


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

    @property
    def order(self) -> float:
        """1/(α√k) + α."""
        return 1 / (self.alpha * np.sqrt(self.k)) + self.alpha

    def lifted(self) -> Start:
        """The same with λ and Λ of the measurements ½[0 X; Xᵀ 0], whose squares are half those of X."""
        return dataclasses.replace(self, least=self.least / 2, largest=self.largest / 2)


def start_of(run: af.Run) -> Start:
    """The start of a run, with μ = α²k as in (90)."""
    data, alpha, k = run.data, run.spec["init"]["scale"], run.spec["model"]["rank"]
    seen = np.ravel(data.inputs.mask) > 0
    d, W = len(data.truth), initial(run).reshape(-1, k)
    X = np.eye(d * d)[seen]  # one row an observed entry
    eigenvalues = np.linalg.eigvalsh(X @ X.T)
    mu, target = alpha**2 * k, X @ np.ravel(data.truth)
    return Start(
        d=d,
        k=k,
        alpha=alpha,
        mu=mu,
        gamma=float(np.linalg.norm(W @ W.T - mu * np.eye(2 * d), 2)),
        misfit=float(np.linalg.norm(X @ np.ravel(W[:d] @ W[d:].T) - target)),
        target=float(np.linalg.norm(target)),
        least=float(eigenvalues[0]),
        largest=float(eigenvalues[-1]),
    )
