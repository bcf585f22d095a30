"""The least potential on {β : Xβ = y}: Newton's method on the dual program, along a path in the scale c."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from afterfit._base.errors import NotSeparableError, Unanswered
from afterfit.theory._potentials._links import Exponential, Link, log_2cosh, log_2sinh

__all__ = ["Coordinates", "Spectrum", "arrive", "follow", "orthonormal"]


def orthonormal(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Xβ = y as Vβ = size·v with orthonormal rows V and |v| = 1: then size is the norm of the least-L2 solution."""
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    kept = sigma > max(X.shape) * np.finfo(float).eps * sigma[0]
    least = (y @ U[:, kept]) / sigma[kept]
    if not np.linalg.norm(y - U[:, kept] @ (sigma[kept] * least)) <= 1e-9 * np.linalg.norm(y):
        raise NotSeparableError("no β has Xβ = y: the rows of X depend on each other, and y does not follow")
    size = float(np.linalg.norm(least))
    return Vt[kept], least / (size or 1.0), size


class _Dual(Protocol):
    """The dual program at log c: min over ν of Σ cφ*((Vᵀν)ᵢ) − ⟨v, ν⟩, whose gradient is Vβ − v. All of it at a
    `state`, which stands for s = Vᵀν."""

    @property
    def target(self) -> np.ndarray:
        """v."""
        ...

    def start(self, log_c: float) -> Any:
        """The state if φ were quadratic, as it is for c → ∞."""
        ...

    def solution(self, state: Any, log_c: float) -> np.ndarray:
        """β."""
        ...

    def fitted(self, state: Any, log_c: float) -> np.ndarray:
        """Vβ."""
        ...

    def curvature(self, state: Any, log_c: float) -> np.ndarray:
        """The Hessian, d(Vβ)/dν."""
        ...

    def moved(self, state: Any, change: np.ndarray, log_c: float) -> Any | None:
        """The state when ν has changed; None if s is no longer in its interval."""
        ...

    def share(self, log_c: float, log_next: float) -> float | None:
        """That of the link: ν changes by this many times H⁻¹v as c goes to its next value."""
        ...

    def infeasible(self, state: Any) -> float:
        """How far s is from being Vᵀν, relative to its size."""
        ...


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """The dual of a separable potential less ⟨tilt, β⟩. `above` is log cᵢ − log c ≥ 0; a state is the θᵢ of Vᵀν + tilt.

    A tilt is for the link whose θ is s itself.
    """

    link: Link
    rows: np.ndarray
    target: np.ndarray
    above: np.ndarray
    tilt: np.ndarray

    def start(self, log_c: float) -> np.ndarray:
        nu = np.linalg.solve(self.curvature(self.tilt, log_c), self.target - self.fitted(self.tilt, log_c))
        return self.link.moved(self.tilt, nu @ self.rows, log_c + self.above)

    def solution(self, state: np.ndarray, log_c: float) -> np.ndarray:
        return self.link.weights(state, log_c + self.above)

    def fitted(self, state: np.ndarray, log_c: float) -> np.ndarray:
        return self.rows @ self.solution(state, log_c)

    def curvature(self, state: np.ndarray, log_c: float) -> np.ndarray:
        return (self.rows * self.link.rates(state, log_c + self.above)) @ self.rows.T

    def moved(self, state: np.ndarray, change: np.ndarray, log_c: float) -> np.ndarray | None:
        theta = self.link.moved(state, change @ self.rows, log_c + self.above)
        return theta if np.all(np.isfinite(theta)) else None

    def share(self, log_c: float, log_next: float) -> float | None:
        return self.link.share(log_c, log_next)

    def infeasible(self, state: np.ndarray) -> float:
        s = self.link.dual(state)
        along = s - self.tilt
        size = max(np.linalg.norm(s), np.linalg.norm(along))
        return float(np.linalg.norm(along - self.rows.T @ (self.rows @ along)) / size)


_Eigen = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """The dual of Q of a spectrum: M = 2c·sinh(A), A = Σ νₙVₙ. A state is ν with A's eigenvalues and eigenvectors."""

    matrices: np.ndarray
    target: np.ndarray

    def start(self, log_c: float) -> _Eigen:
        return self._at(self.target * np.exp(-log_c) / 2)  # M = 2cA, and the matrices are orthonormal

    def solution(self, state: _Eigen, log_c: float) -> np.ndarray:
        _, eigenvalues, E = state
        return (E * Exponential().weights(eigenvalues, np.asarray(log_c))) @ E.T

    def fitted(self, state: _Eigen, log_c: float) -> np.ndarray:
        return np.tensordot(self.matrices, self.solution(state, log_c), axes=2)

    def curvature(self, state: _Eigen, log_c: float) -> np.ndarray:
        # In the eigenbasis, d(2c·sinh(A))ᵢⱼ is dAᵢⱼ times the divided difference of 2c·sinh at two eigenvalues a, b:
        # 2c(sinh(a) − sinh(b))/(a − b) = 2c·cosh((a + b)/2)·sinh((a − b)/2)/((a − b)/2).
        _, eigenvalues, E = state
        mean = np.add.outer(eigenvalues, eigenvalues) / 2
        half = np.abs(np.subtract.outer(eigenvalues, eigenvalues)) / 2
        some = half > 1e-8  # below that sinh(x)/x is 1
        log_sinhc = np.where(some, log_2sinh(half) - np.log(2 * np.where(some, half, 1)), 0)
        rates = np.exp(log_c + log_2cosh(mean) + log_sinhc)
        rotated = (E.T @ self.matrices @ E).reshape(len(self.matrices), -1)
        return (rotated * rates.ravel()) @ rotated.T

    def moved(self, state: _Eigen, change: np.ndarray, log_c: float) -> _Eigen | None:
        return self._at(state[0] + change)

    def share(self, log_c: float, log_next: float) -> float | None:
        return Exponential().share(log_c, log_next)

    def infeasible(self, state: _Eigen) -> float:
        return 0.0  # A is made of ν

    def _at(self, nu: np.ndarray) -> _Eigen:
        eigenvalues, E = np.linalg.eigh(np.tensordot(nu, self.matrices, axes=1))
        return nu, eigenvalues, E


_NO_LONGER_SEEN = 230.0  # above c = 10¹⁰⁰ the minimiser is that of the L2 norm to 10⁻²⁰⁰


def follow(dual: _Dual, log_c: float) -> np.ndarray:
    """The minimiser at log c."""
    return dual.solution(*arrive(dual, log_c))


def arrive(dual: _Dual, log_c: float, known: tuple[Any, float] | None = None) -> tuple[Any, float]:
    """The state of the minimiser at log c, and that log c, or `_NO_LONGER_SEEN` if it is above.

    For c ≥ 1, with a least-L2 solution of norm 1, the potential is nearly quadratic and Newton's method starts from
    the quadratic one. For smaller c the solution is followed down from c = 1, along steps of log c that grow
    while Newton's method is quick. It becomes a vertex of the L1 program, and is followed with fewer steps.
    A state that is `known` at a larger log c is where to follow it from instead.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # steps too far are refused
        at, step = min(max(log_c, 0.0), _NO_LONGER_SEEN), 1.0
        if known is not None and log_c <= known[1] <= at:
            state, at = known
        else:
            state = _newton(dual, dual.start(at), at, 1e-8)
        while state is not None and at > log_c:
            following = max(at - step, log_c)
            share = dual.share(at, following)
            ahead = None if share is None else dual.moved(state, share * _solve(dual, state, at, dual.target), at)
            ahead = None if ahead is None else _newton(dual, ahead, following, 1e-8)
            if ahead is not None:
                state, at, step = ahead, following, 2 * step
            elif step > 1e-6:
                step /= 4
            else:
                state = None
        state = None if state is None else _newton(dual, state, at, 0.0)
        if state is None:
            raise Unanswered(f"the minimiser was not found: Newton's method stopped at log c = {at:.4g}")
        residual = float(np.linalg.norm(dual.target - dual.fitted(state, at)))
        if not max(residual, dual.infeasible(state)) <= 1e-7:
            raise Unanswered(
                f"the minimiser was not found: it has ‖Xβ − y‖ of {residual:.1g} and a gradient "
                f"{dual.infeasible(state):.1g} away from the rows of X, relative to their sizes"
            )
        return state, at


def _newton(dual: _Dual, state: Any, log_c: float, tolerance: float) -> Any | None:
    """The state with Vβ = v to `tolerance`, or to rounding; None if that takes too long."""
    left = np.inf
    for _ in range(30):
        residual = dual.target - dual.fitted(state, log_c)
        before, left = left, float(np.linalg.norm(residual))
        if left <= tolerance or (before <= 1e-9 and left > before / 2):  # no nearer: that is rounding
            return state
        if not np.isfinite(left):  # the state was foretold too far away
            return None
        step = _solve(dual, state, log_c, residual)
        slope = residual @ step
        for halvings in range(20):
            ahead = dual.moved(state, step / 2**halvings, log_c)
            # The dual is convex: no further than where it goes up half as steeply as it goes down here.
            if ahead is not None and (dual.target - dual.fitted(ahead, log_c)) @ step >= -slope / 2:
                state = ahead
                break
        else:
            return state if left <= 1e-9 else None
    return None


def _solve(dual: _Dual, state: Any, log_c: float, right: np.ndarray) -> np.ndarray:
    """H⁻¹·right; a sparse β leaves H singular to rounding, and ν undecided where nothing depends on it."""
    H = dual.curvature(state, log_c)
    return np.linalg.solve(H + 1e-15 * np.trace(H) * np.eye(len(H)), right)
