"""What gradient flow minimises without being asked to: the potentials of Woodworth et al. 2020.

Each is a convex function of the weights β, summed over coordinates, c·φ(βᵢ/c), whose scale c is that of the start:

- `Q`: c = α²w₀², φ = q (Thm 1), the flow of w₊² − w₋²; from w₊ ≠ w₋ less a linear function (`Q.from_start`);
- `QDepth`: c = α^D, φ = q_D (Thm 3), the flow of w₊^D − w₋^D;
- `R`: c = α², φ = r (8)–(9), the distance of the parameters from their start, which is *not* what the flow minimises;
- `SpectralQ`: Q of the singular values of a matrix (Thm 4), the flow of wide UVᵀ with commuting measurements.

`minimise(X, y)` is the β with Xβ = y of least potential. The scale may be anything from 10⁻³⁰⁰ to 10³⁰⁰, so c is
known by its logarithm only, and every formula here is good at both ends.
"""

from __future__ import annotations

import abc
import dataclasses

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from afterfit._base.errors import require
from afterfit.theory._potentials._dual import Coordinates, Spectrum, arrive, follow, orthonormal
from afterfit.theory._potentials._links import Exponential, Link, Power

__all__ = ["Minimisers", "Q", "QDepth", "R", "SpectralQ"]

Vector = Float[np.ndarray, " d"]


class _Potential(abc.ABC):
    """Σᵢ cᵢ φ(βᵢ/cᵢ), φ even and convex, φ(0) = 0, given by its derivative's inverse: see `Link`."""

    @abc.abstractmethod
    def _link(self) -> Link: ...

    @abc.abstractmethod
    def _log_scale(self, d: int) -> Vector:
        """log cᵢ."""

    def _tilt(self, d: int) -> Vector:
        """The slope of a linear function that is taken off."""
        return np.zeros(d)

    def value(self, beta: ArrayLike) -> float:
        """The potential of a vector of weights."""
        weights = np.ravel(np.asarray(beta, dtype=float))
        size, linear = np.abs(weights), self._tilt(weights.size) @ weights
        size, log_scale = size[size > 0], self._log_scale(size.size)[size > 0]
        # c·φ(z) = |β|·φ(z)/z, z = |β|/c: neither c nor z needs to be a floating-point number.
        return float(np.sum(np.exp(np.log(size) + self._link().log_mean(np.log(size) - log_scale))) - linear)

    def gradient(self, beta: ArrayLike) -> Vector:
        """φ′(βᵢ/cᵢ), less the tilt: one number a coordinate."""
        weights = np.asarray(beta, dtype=float)
        gradient, some = np.zeros_like(weights), weights != 0
        log_z = np.log(np.abs(weights[some])) - self._log_scale(weights.size)[some]
        gradient[some] = np.sign(weights[some]) * self._link().derivative(log_z)
        return gradient - self._tilt(weights.size)

    def minimise(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Vector:
        """The β with Xβ = y of least potential, by Newton's method on the dual program in n variables.

        Where two solutions share the least L1 norm, such as for two equal columns of X, a potential chooses between
        them. With `QDepth` and `R` at scales c^{(D−2)/D} below 10⁻¹⁶, the choice is lost in the rounding of X.
        """
        return Minimisers(X, y).of(self)


class Minimisers:
    """The least potentials on {β : Xβ = y} for many potentials, such as one along its scale.

    Each is `potential.minimise(X, y)`. What depends on the data alone is done once, and a minimiser is followed from
    that of the same potential at the next larger scale, where it was asked for before: in a search along α that is a
    few steps, in place of all those from α = 1.

    ```python
    minimisers = Minimisers(X, y)
    errors = [error(minimisers.of(Q(alpha))) for alpha in np.geomspace(1, 1e-30, 50)]
    ```
    """

    def __init__(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]):
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        require(
            X.ndim == 2 and y.shape == X.shape[:1],
            f"X must be n x d and y of length n, got shapes {X.shape} and {y.shape}.",
        )
        self._rows, self._target, self._size = orthonormal(X, y)
        self._known: dict[tuple[Link, bytes, bytes], dict[float, Vector]] = {}

    def of(self, potential: _Potential) -> Vector:
        """The β with Xβ = y of least potential."""
        d = self._rows.shape[1]
        log_scale, tilt = potential._log_scale(d), potential._tilt(d)
        if self._size == 0 and not np.any(tilt):
            return np.zeros(d)
        unit, above = self._size or 1.0, log_scale - np.min(log_scale)
        dual = Coordinates(potential._link(), self._rows, self._target, above, tilt)
        log_c = float(np.min(log_scale)) - float(np.log(unit))
        known = self._known.setdefault((dual.link, above.tobytes(), tilt.tobytes()), {})
        nearest = min((at for at in known if at >= log_c), default=None)
        state, at = arrive(dual, log_c, None if nearest is None else (known[nearest], nearest))
        known[at] = state
        return unit * dual.solution(state, at)


@dataclasses.dataclass(frozen=True, eq=False)  # a shape is an array, and two arrays have no single ==
class Q(_Potential):
    """Q_{α,w₀}(β) = Σ α²w₀ᵢ² q(βᵢ/α²w₀ᵢ²), q(z) = 2 − √(4 + z²) + z·arcsinh(z/2); w₀ = `shape` (Thm 1).

    From a weighted L2 norm, Σ βᵢ²/(4α²w₀ᵢ²), as α → ∞, to the L1 norm times log(1/α²) as α → 0. Less ⟨tilt, β⟩, which a
    start with w₊ ≠ w₋ asks for: see `from_start`.

    ```python
    Q(alpha=0.1).minimise(X, y)  # where gradient flow on w₊² − w₋² ends, from w₊ = w₋ = 0.1
    ```
    """

    alpha: float
    shape: ArrayLike = 1.0
    tilt: ArrayLike = 0.0

    def __post_init__(self):
        _check_scale("alpha", self.alpha)
        shape = np.asarray(self.shape, dtype=float)
        require(
            bool(np.all(np.isfinite(shape) & (shape != 0))),
            "the shape w₀ must be finite without zero entries: a weight that starts at 0 never moves.",
        )
        require(bool(np.all(np.isfinite(np.asarray(self.tilt, dtype=float)))), "the tilt must be finite.")

    @classmethod
    def from_start(cls, plus: ArrayLike, minus: ArrayLike) -> Q:
        """What gradient flow on w₊² − w₋² minimises from any start, w₊ = `plus` and w₋ = `minus`, without zero entries.

        w₊² = w₊(0)²·e^{2s} and w₋² = w₋(0)²·e^{−2s}, s in the range of Xᵀ, so that β = 2c·sinh(2s + log|w₊/w₋|(0))
        with c = |w₊w₋|(0): the minimiser of Q with α²w₀² = c and the tilt log|w₊/w₋|(0), that is of the Bregman
        divergence of Q from β(0). Weights u ⊙ v are those of w₊ = (u + v)/2 and w₋ = (u − v)/2 (on a slower clock).

        ```python
        Q.from_start((u + v) / 2, (u - v) / 2).minimise(X, y)  # where gradient flow on u ⊙ v ends, from u and v
        ```
        """
        plus, minus = np.abs(np.asarray(plus, dtype=float)), np.abs(np.asarray(minus, dtype=float))
        require(
            plus.shape == minus.shape and bool(np.all(plus > 0) and np.all(minus > 0)),
            "a start is w₊ and w₋ of one shape without zero entries: one that starts at 0 never moves.",
        )
        return cls(1.0, np.sqrt(plus * minus), np.log(plus / minus))

    def _link(self) -> Link:
        return Exponential()

    def _log_scale(self, d: int) -> Vector:
        shape = np.asarray(self.shape, dtype=float)
        require(shape.size in (1, d), f"the shape w₀ has {shape.size} entries, but there are {d} weights.")
        return np.broadcast_to(2 * np.log(self.alpha) + 2 * np.log(np.abs(shape)), d)

    def _tilt(self, d: int) -> Vector:
        tilt = np.asarray(self.tilt, dtype=float)
        require(tilt.size in (1, d), f"the tilt has {tilt.size} entries, but there are {d} weights.")
        return np.broadcast_to(tilt, d)


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

    def _link(self) -> Link:
        return Power(self.depth / (self.depth - 2))

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

    def _link(self) -> Link:
        return Power(2.0)

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
        rows, target, size = orthonormal(X.reshape(len(X), -1), y)
        if size == 0:
            return np.zeros(X.shape[1:])
        matrices = rows.reshape(-1, *X.shape[1:])
        matrices = (matrices + matrices.transpose(0, 2, 1)) / 2  # to the last bit
        return size * follow(Spectrum(matrices, target), 2 * np.log(self.mu) - np.log(size))


def _check_scale(name: str, scale: float) -> None:
    require(bool(np.isfinite(scale) and scale > 0), f"{name} must be a positive finite number, got {scale}.")
