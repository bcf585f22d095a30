"""What matrix completions end with, over the scale α of the start, the width k and the draw."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

import afterfit as af
from afterfit.papers._measure import relative_distance
from afterfit.papers._paths import initial

__all__ = ["Cell", "Grid", "kernel_movement"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """What one run ended with."""

    alpha: float
    k: int
    seed: int
    excess: float  # ‖M‖_* − ‖Y*‖_*
    nuclear: float  # ‖Y*‖_*
    filled: float  # the excess of Y* with zeros where it is not observed
    movement: float  # root mean square of M − M(0), unobserved entries
    size: float  # root mean square of Y*, unobserved entries
    error: float  # ‖M − Y*‖/‖Y*‖
    from_zeros: float  # the same for Y* with zeros where it is not observed, in place of Y*
    off_kernel: float  # what kernel regression does not explain of the movement, as a share of it

    @classmethod
    def of(cls, run: af.Run, unit: np.ndarray | None = None) -> Cell:
        """Of a run, the start of which is α times `unit`, if that is known."""
        k, hidden = run.spec["model"]["rank"], run.data.test_inputs.mask > 0
        U, V = (initial(run) if unit is None else run.spec["init"]["scale"] * unit).reshape(2, -1, k)
        M, Y = run.params["U"] @ run.params["V"].T, run.data.truth
        nuclear, zeros = float(np.linalg.norm(Y, "nuc")), np.where(hidden, 0, Y)
        return cls(
            alpha=run.spec["init"]["scale"],
            k=k,
            seed=run.spec["seed"],
            excess=float(np.linalg.norm(M, "nuc")) - nuclear,
            nuclear=nuclear,
            filled=float(np.linalg.norm(zeros, "nuc")) - nuclear,
            movement=float(np.sqrt(np.mean((M - U @ V.T)[hidden] ** 2))),
            size=float(np.sqrt(np.mean(Y[hidden] ** 2))),
            error=relative_distance(M, Y),
            from_zeros=float(np.linalg.norm(M - zeros) / np.linalg.norm(Y)),
            off_kernel=relative_distance(kernel_movement(U, V, Y, hidden), (M - U @ V.T)[hidden]),
        )

    @property
    def product(self) -> float:
        """α²k = σ√k."""
        return self.alpha**2 * self.k

    @property
    def sigma(self) -> float:
        """σ = α²√k, the size of UVᵀ at the start."""
        return self.alpha**2 * np.sqrt(self.k)

    @property
    def share(self) -> float:
        """The movement of unobserved entries in units of what Y* has there."""
        return self.movement / self.size


def kernel_movement(U: np.ndarray, V: np.ndarray, Y: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """How far regression with the tangent kernel at (U, V) moves hidden entries of UVᵀ when it fits the others to Y."""
    eye, seen = np.eye(len(Y)), ~np.ravel(hidden)
    K = np.kron(eye, V @ V.T) + np.kron(U @ U.T, eye)
    return K[~seen][:, seen] @ np.linalg.solve(K[seen][:, seen], np.ravel(Y - U @ V.T)[seen])


@dataclasses.dataclass(frozen=True)
class Grid:
    """All cells, in the order of α, k and seed."""

    cells: list[Cell]
    alphas: list[float]
    widths: list[int]
    seeds: list[int]

    @classmethod
    def of(cls, runs: Iterable[af.Run]) -> Grid:
        units: dict[tuple[int, int], np.ndarray] = {}  # starts of one width and seed differ by the factor α only

        def cell(run: af.Run) -> Cell:
            place = run.spec["model"]["rank"], run.spec["seed"]
            if place not in units:
                units[place] = initial(run) / run.spec["init"]["scale"]
            return Cell.of(run, units[place])

        cells = sorted(map(cell, runs), key=lambda cell: (cell.alpha, cell.k, cell.seed))
        alphas, widths, seeds = (sorted({getattr(c, name) for c in cells}) for name in ("alpha", "k", "seed"))
        return cls(cells, alphas, widths, seeds)

    def values(self, name: str) -> np.ndarray:
        """One quantity over (α, k, seed)."""
        shape = (len(self.alphas), len(self.widths), len(self.seeds))
        return np.array([getattr(cell, name) for cell in self.cells]).reshape(shape)

    def mean(self, name: str) -> np.ndarray:
        """One quantity over (α, k), its mean over seeds."""
        return self.values(name).mean(axis=-1)

    def products(self, k: int) -> np.ndarray:
        """α²k along α."""
        return np.array([alpha**2 * k for alpha in self.alphas])

    def along(self, k: int, name: str) -> list[np.ndarray]:
        """One quantity along α, for every seed."""
        return list(self.values(name)[:, self.widths.index(k)].T)
