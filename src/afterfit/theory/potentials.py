"""What gradient flow minimises without being asked to: the potentials of Woodworth et al. 2020.

Each is a convex function of the weights β, summed over coordinates, c·φ(βᵢ/c), whose scale c is that of the start:

- `Q`: c = α²w₀², φ = q (Thm 1), the flow of w₊² − w₋²;
- `QDepth`: c = α^D, φ = q_D (Thm 3), the flow of w₊^D − w₋^D;
- `R`: c = α², φ = r (8)–(9), the distance of the parameters from their start, which is *not* what the flow minimises;
- `SpectralQ`: Q of the singular values of a matrix (Thm 4), the flow of wide UVᵀ with commuting measurements.

`minimise(X, y)` is the β with Xβ = y of least potential. The scale may be anything from 10⁻³⁰⁰ to 10³⁰⁰, so c is
known by its logarithm only, and every formula here is good at both ends.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from afterfit.spec import require

__all__ = ["Q", "QDepth", "R", "SpectralQ"]

Vector = Float[np.ndarray, " d"]


class _Potential(abc.ABC):
    """Σᵢ cᵢ φ(βᵢ/cᵢ), φ even and convex, φ(0) = 0, given by its derivative's inverse: see `_Link`."""

    @abc.abstractmethod
    def _link(self) -> _Link: ...

    @abc.abstractmethod
    def _log_scale(self, d: int) -> Vector:
        """log cᵢ."""

    def value(self, beta: ArrayLike) -> float:
        """The potential of a vector of weights."""
        size = np.abs(np.asarray(beta, dtype=float))
        size, log_scale = size[size > 0], self._log_scale(size.size)[size > 0]
        # c·φ(z) = |β|·φ(z)/z, z = |β|/c: neither c nor z needs to be a floating-point number.
        return float(np.sum(np.exp(np.log(size) + self._link().log_mean(np.log(size) - log_scale))))

    def gradient(self, beta: ArrayLike) -> Vector:
        """φ′(βᵢ/cᵢ), one number a coordinate."""
        weights = np.asarray(beta, dtype=float)
        gradient, some = np.zeros_like(weights), weights != 0
        log_z = np.log(np.abs(weights[some])) - self._log_scale(weights.size)[some]
        gradient[some] = np.sign(weights[some]) * self._link().derivative(log_z)
        return gradient

    def minimise(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Vector:
        """The β with Xβ = y of least potential, by Newton's method on the dual program in n variables.

        Where two solutions share the least L1 norm, such as for two equal columns of X, a potential chooses between
        them. With `QDepth` and `R` at scales c^{(D−2)/D} below 10⁻¹⁶, the choice is lost in the rounding of X.
        """
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        require(
            X.ndim == 2 and y.shape == X.shape[:1],
            f"X must be n x d and y of length n, got shapes {X.shape} and {y.shape}.",
        )
        rows, target, size = _orthonormal(X, y)
        if size == 0:
            return np.zeros(X.shape[1])
        log_scale = self._log_scale(X.shape[1])
        log_c = float(np.min(log_scale)) - np.log(size)
        return size * _follow(_Coordinates(self._link(), rows, target, log_scale - np.min(log_scale)), log_c)


@dataclasses.dataclass(frozen=True, eq=False)  # a shape is an array, and two arrays have no single ==
class Q(_Potential):
    """Q_{α,w₀}(β) = Σ α²w₀ᵢ² q(βᵢ/α²w₀ᵢ²), q(z) = 2 − √(4 + z²) + z·arcsinh(z/2); w₀ = `shape` (Thm 1).

    From a weighted L2 norm, Σ βᵢ²/(4α²w₀ᵢ²), as α → ∞, to the L1 norm times log(1/α²) as α → 0.

    ```python
    Q(alpha=0.1).minimise(X, y)  # where gradient flow on w₊² − w₋² ends, from w₊ = w₋ = 0.1
    ```
    """

    alpha: float
    shape: ArrayLike = 1.0

    def __post_init__(self):
        _check_scale("alpha", self.alpha)
        shape = np.asarray(self.shape, dtype=float)
        require(
            bool(np.all(np.isfinite(shape) & (shape != 0))),
            "the shape w₀ must be finite without zero entries: a weight that starts at 0 never moves.",
        )

    def _link(self) -> _Link:
        return _Exponential()

    def _log_scale(self, d: int) -> Vector:
        shape = np.asarray(self.shape, dtype=float)
        require(shape.size in (1, d), f"the shape w₀ has {shape.size} entries, but there are {d} weights.")
        return np.broadcast_to(2 * np.log(self.alpha) + 2 * np.log(np.abs(shape)), d)


@dataclasses.dataclass(frozen=True)
class QDepth(_Potential):
    """Q^D_α(β) = α^D Σ q_D(βᵢ/α^D), q_D the integral of h_D⁻¹, D = `depth` ≥ 3 (Thm 3).

    h_D(s) = (1 − s)^{−D/(D−2)} − (1 + s)^{−D/(D−2)} on (−1, 1).
    """

    alpha: float
    depth: int

    def __post_init__(self):
        _check_scale("alpha", self.alpha)
        require(self.depth >= 3, f"QDepth is for depth 3 or more, got {self.depth}: for depth 2 use Q(alpha).")

    def _link(self) -> _Link:
        return _Power(self.depth / (self.depth - 2))

    def _log_scale(self, d: int) -> Vector:
        return np.full(d, self.depth * np.log(self.alpha))


@dataclasses.dataclass(frozen=True)
class R(_Potential):
    """R_α(β) = min ‖w − α1‖² over w₊² − w₋² = β (9), which is α² Σ r(βᵢ/α²).

    With s the multiplier of w₊² − w₋² = z, the nearest point to (1, 1) is w₊ = 1/(1 − s), w₋ = 1/(1 + s). So
    z = (1 − s)⁻² − (1 + s)⁻² = h₄(s), and since s = r′(z), r is q₄: R_α is Q^D at depth 4 from the scale √α.
    """

    alpha: float

    def __post_init__(self):
        _check_scale("alpha", self.alpha)

    def _link(self) -> _Link:
        return _Power(2.0)

    def _log_scale(self, d: int) -> Vector:
        return np.full(d, 2 * np.log(self.alpha))


@dataclasses.dataclass(frozen=True)
class SpectralQ:
    """Q_μ of the singular values of a matrix: the "Schatten-Q_μ-norm" (Thm 4).

    From the squared Frobenius norm over 4μ² as μ → ∞ to the nuclear norm times log(1/μ²) as μ → 0.
    """

    mu: float

    def __post_init__(self):
        _check_scale("mu", self.mu)

    def value(self, M: Float[np.ndarray, "m n"]) -> float:
        """Q_μ of the singular values of M."""
        return Q(self.mu).value(np.linalg.svd(M, compute_uv=False))

    def gradient(self, M: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
        """U diag(q′(σᵢ/μ²)) Vᵀ for M = U diag(σ) Vᵀ."""
        U, sigma, Vt = np.linalg.svd(M, full_matrices=False)
        return (U * Q(self.mu).gradient(sigma)) @ Vt

    def minimise(self, X: Float[np.ndarray, "n d d"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, "d d"]:
        """The M with ⟨Xᵢ, M⟩ = yᵢ of least Q_μ, for symmetric Xᵢ; it is symmetric too.

        (Measurements of the symmetric part only: that of a solution is a solution, and no larger.) For diagonal
        Xᵢ it is diagonal, with `Q(mu).minimise` of the diagonals on it.
        """
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        require(
            X.ndim == 3 and X.shape[1] == X.shape[2] and y.shape == X.shape[:1],
            f"X must be n x d x d and y of length n, got shapes {X.shape} and {y.shape}.",
        )
        require(np.array_equal(X, X.transpose(0, 2, 1)), "the measurement matrices must be symmetric.")
        rows, target, size = _orthonormal(X.reshape(len(X), -1), y)
        if size == 0:
            return np.zeros(X.shape[1:])
        matrices = rows.reshape(-1, *X.shape[1:])
        matrices = (matrices + matrices.transpose(0, 2, 1)) / 2  # to the last bit
        return size * _follow(_Spectrum(matrices, target), 2 * np.log(self.mu) - np.log(size))


def _check_scale(name: str, scale: float) -> None:
    require(bool(np.isfinite(scale) and scale > 0), f"{name} must be a positive finite number, got {scale}.")


# The function φ of one coordinate.


class _Link(Protocol):
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


class _Exponential:
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
        return np.sign(theta) * np.exp(log_c + _log_2sinh(np.abs(theta)))

    def rates(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        return np.exp(log_c + _log_2cosh(theta))

    def moved(self, theta: np.ndarray, change: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        return theta + change

    def share(self, log_c: float, log_next: float) -> float | None:
        # β = 2c·sinh(s): where s is large, it is linear in log c.
        return log_c - log_next


@dataclasses.dataclass(frozen=True)
class _Power:
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
        large = np.exp(k * _log_cosh(theta) + _log_2cosh(k * theta) - seen) - 2 * np.exp(-seen)
        conjugate = np.where(theta < 1 / k, small * np.exp(-seen), large) / k
        return np.where(log_z < -20, log_z - np.log(4 * self.power), np.log(np.tanh(theta) - conjugate))

    def derivative(self, log_z: np.ndarray) -> np.ndarray:
        return np.tanh(self._theta(log_z))

    def dual(self, theta: np.ndarray) -> np.ndarray:
        return np.tanh(theta)

    def weights(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        p, size = self.power, np.abs(theta)
        return np.sign(theta) * np.exp(log_c + p * _log_cosh(size) + _log_2sinh(p * size))

    def rates(self, theta: np.ndarray, log_c: np.ndarray) -> np.ndarray:
        p, unit = self.power, np.minimum(log_c / self.power, 0)
        return p * np.exp(log_c + unit + (p + 1) * _log_cosh(theta) + _log_2cosh((p + 1) * theta))

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
            excess = _log_2sinh(p * theta) + p * _log_cosh(theta) - seen
            change = excess / (p * theta / np.tanh(p * theta) + p * theta * np.tanh(theta))
            log_theta = log_theta - change
            if np.all(np.abs(change) <= 1e-15):
                break
        return np.exp(np.where(log_z < -20, log_z - np.log(2 * p), log_theta))


def _log_cosh(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    return np.where(size < 1, np.log1p(2 * np.sinh(np.minimum(size, 1) / 2) ** 2), _log_2cosh(x) - np.log(2))


def _log_2cosh(x: np.ndarray) -> np.ndarray:
    return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x)))


def _log_2sinh(x: np.ndarray) -> np.ndarray:
    """log(2sinh(x)), x ≥ 0; −∞ at 0."""
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-2 * x))


# The least potential on {β : Xβ = y}.


def _orthonormal(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Xβ = y as Vβ = size·v with orthonormal rows V and |v| = 1: then size is the norm of the least-L2 solution."""
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    kept = sigma > max(X.shape) * np.finfo(float).eps * sigma[0]
    least = (y @ U[:, kept]) / sigma[kept]
    require(
        bool(np.linalg.norm(y - U[:, kept] @ (sigma[kept] * least)) <= 1e-9 * np.linalg.norm(y)),
        "no β has Xβ = y: the rows of X depend on each other, and y does not follow.",
    )
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
class _Coordinates:
    """The dual of a separable potential. `above` is log cᵢ − log c ≥ 0; a state is the θᵢ."""

    link: _Link
    rows: np.ndarray
    target: np.ndarray
    above: np.ndarray

    def start(self, log_c: float) -> np.ndarray:
        nothing = np.zeros(self.rows.shape[1])
        nu = np.linalg.solve(self.curvature(nothing, log_c), self.target)
        return self.link.moved(nothing, nu @ self.rows, log_c + self.above)

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
        return float(np.linalg.norm(s - self.rows.T @ (self.rows @ s)) / np.linalg.norm(s))


_Eigen = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class _Spectrum:
    """The dual of Q of a spectrum: M = 2c·sinh(A), A = Σ νₙVₙ. A state is ν with A's eigenvalues and eigenvectors."""

    matrices: np.ndarray
    target: np.ndarray

    def start(self, log_c: float) -> _Eigen:
        return self._at(self.target * np.exp(-log_c) / 2)  # M = 2cA, and the matrices are orthonormal

    def solution(self, state: _Eigen, log_c: float) -> np.ndarray:
        _, eigenvalues, E = state
        return (E * _Exponential().weights(eigenvalues, np.asarray(log_c))) @ E.T

    def fitted(self, state: _Eigen, log_c: float) -> np.ndarray:
        return np.tensordot(self.matrices, self.solution(state, log_c), axes=2)

    def curvature(self, state: _Eigen, log_c: float) -> np.ndarray:
        # In the eigenbasis, d(2c·sinh(A))ᵢⱼ is dAᵢⱼ times the divided difference of 2c·sinh at two eigenvalues a, b:
        # 2c(sinh(a) − sinh(b))/(a − b) = 2c·cosh((a + b)/2)·sinh((a − b)/2)/((a − b)/2).
        _, eigenvalues, E = state
        mean = np.add.outer(eigenvalues, eigenvalues) / 2
        half = np.abs(np.subtract.outer(eigenvalues, eigenvalues)) / 2
        some = half > 1e-8  # below that sinh(x)/x is 1
        log_sinhc = np.where(some, _log_2sinh(half) - np.log(2 * np.where(some, half, 1)), 0)
        rates = np.exp(log_c + _log_2cosh(mean) + log_sinhc)
        rotated = (E.T @ self.matrices @ E).reshape(len(self.matrices), -1)
        return (rotated * rates.ravel()) @ rotated.T

    def moved(self, state: _Eigen, change: np.ndarray, log_c: float) -> _Eigen | None:
        return self._at(state[0] + change)

    def share(self, log_c: float, log_next: float) -> float | None:
        return _Exponential().share(log_c, log_next)

    def infeasible(self, state: _Eigen) -> float:
        return 0.0  # A is made of ν

    def _at(self, nu: np.ndarray) -> _Eigen:
        eigenvalues, E = np.linalg.eigh(np.tensordot(nu, self.matrices, axes=1))
        return nu, eigenvalues, E


_NO_LONGER_SEEN = 230.0  # above c = 10¹⁰⁰ the minimiser is that of the L2 norm to 10⁻²⁰⁰


def _follow(dual: _Dual, log_c: float) -> np.ndarray:
    """The minimiser at log c.

    For c ≥ 1, with a least-L2 solution of norm 1, the potential is nearly quadratic and Newton's method starts from
    the quadratic one. For smaller c the solution is followed down from c = 1, along steps of log c that grow
    while Newton's method is quick. It becomes a vertex of the L1 program, and is followed with fewer steps.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # steps too far are refused
        at = min(max(log_c, 0.0), _NO_LONGER_SEEN)
        state, step = _newton(dual, dual.start(at), at, 1e-8), 1.0
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
            raise RuntimeError(f"the minimiser was not found: Newton's method stopped at log c = {at:.4g}.")
        residual = float(np.linalg.norm(dual.target - dual.fitted(state, at)))
        if not max(residual, dual.infeasible(state)) <= 1e-7:
            raise RuntimeError(
                f"the minimiser was not found: it has ‖Xβ − y‖ of {residual:.1g} and a gradient "
                f"{dual.infeasible(state):.1g} away from the rows of X, relative to their sizes."
            )
        return dual.solution(state, at)


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
