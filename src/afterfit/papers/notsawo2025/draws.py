"""The random matrices and vectors on which the tools of App. G are tried."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import afterfit as af

__all__ = [
    "Factors",
    "Matrices",
    "Measurements",
    "Pairs",
    "draw_factors",
    "draw_in_basis",
    "draw_matrices",
    "draw_measurements",
    "draw_pairs",
]


class Matrices(NamedTuple):
    """Gaussian matrices of several kinds."""

    tall: list[np.ndarray]  # 60x8, columns of about norm 1
    wide: list[np.ndarray]  # up to 12 columns, more than rows
    square: list[np.ndarray]  # 5x8
    normed: list[np.ndarray]  # the same with columns of norm 1
    maps: list[np.ndarray]  # of 2x4 matrices, to 30 numbers


def draw_matrices(count: int) -> Matrices:
    """As many of each kind, and a quarter as many maps."""
    rng = np.random.default_rng(0)
    tall = [rng.standard_normal((60, 8)) / np.sqrt(60) for _ in range(count)]
    wide = [_wide(rng) for _ in range(count)]
    square = [rng.standard_normal((5, 8)) for _ in range(count)]
    maps = [rng.standard_normal((30, 2, 4)) / np.sqrt(30) for _ in range(count // 4)]
    return Matrices(tall, wide, square, [A / np.linalg.norm(A, axis=0) for A in square], maps)


def _wide(rng: np.random.Generator) -> np.ndarray:
    n = int(rng.integers(3, 13))
    return rng.standard_normal((int(rng.integers(2, n)), n))


class Measurements(NamedTuple):
    """Measurements M of App. G.1.2, up to their scale, and matrices Φ."""

    phi: np.ndarray  # 30 columns of an orthonormal basis of ℝ⁴⁰
    M: list[np.ndarray]  # 10x40, Gaussian
    independent: list[np.ndarray]  # Φ, 16x6: Gaussian
    orthogonal: list[np.ndarray]  # Φ with orthogonal columns of any length


def draw_measurements(count: int) -> Measurements:
    """As many M, and a tenth as many Φ of each kind."""
    rng = np.random.default_rng(2)
    phi = np.linalg.qr(rng.standard_normal((40, 30)))[0]
    M = [rng.standard_normal((10, 40)) for _ in range(count)]
    independent = [rng.standard_normal((16, 6)) for _ in range(count // 10)]
    orthogonal = [np.linalg.qr(A)[0] * rng.uniform(0.5, 2, 6) for A in independent]
    return Measurements(phi, M, independent, orthogonal)


class Pairs(NamedTuple):
    """Vectors u and v, one a row, between which the null space properties bound the distance."""

    u: np.ndarray
    alike: np.ndarray  # v with Xv = Xu
    near: np.ndarray  # any v
    lines: np.ndarray  # one vector each, which spans the kernel of another matrix


def draw_pairs(X: np.ndarray, count: int) -> Pairs:
    """A hundred times as many pairs as lines."""
    rng, n = np.random.default_rng(3), X.shape[1]
    kernel = np.linalg.svd(X)[2][len(X) :]
    u = rng.standard_normal((100 * count, n)) * rng.uniform(0, 1, n) ** 4
    alike = u + rng.standard_normal((len(u), len(kernel))) @ kernel
    lines = rng.standard_normal((count, 9)) * np.array([1.0, *8 * [3.0]])
    near = u + rng.standard_normal(u.shape) * rng.uniform(0, 1, (len(u), 1)) ** 8
    return Pairs(u, alike, near, lines)


class Factors(NamedTuple):
    """A matrix A = UVᵀ of the random orthogonal model, and two bases P and Q."""

    U: np.ndarray
    V: np.ndarray
    P: np.ndarray
    Q: np.ndarray

    @property
    def askew(self) -> Factors:
        """The same with bases of unit vectors that are not orthogonal: each of P and Q turned towards the first."""
        P, Q = (basis + 0.5 * basis[:, :1] for basis in (self.P, self.Q))
        return self._replace(P=P / np.linalg.norm(P, axis=0), Q=Q / np.linalg.norm(Q, axis=0))


def draw_factors(count: int) -> list[Factors]:
    """As many matrices, 12x8 of rank 3."""
    rng, task = np.random.default_rng(4), af.tasks.MatrixCompletion(12, 8, 3, truth="orthogonal")
    return [Factors(*task.draw_factors(rng), *(_rotation(rng, k) for k in (12, 8))) for _ in range(count)]


def _rotation(rng: np.random.Generator, k: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((k, k)))[0]


def draw_in_basis(run: af.Run, tau: float, seed: int) -> np.ndarray:
    """X = MΦ of a draw with a share τ of measurements from the basis: M in the coordinates where Φ is I."""
    return run.experiment.task.replace(coherence=float(tau)).draw(np.random.default_rng(seed)).inputs
