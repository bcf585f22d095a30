"""Univariate two-layer ReLU nets (App. B.1): their functions, and the interpolants that they are held against.

f(x) = w₂σ(w₁x + b₁) + b₂ with k units; w₁, b₁ ~ N(0, (αc)²) and w₂ ~ N(0, (α/c)²·2/k), b₂ = 0. The factor c changes
the relative scale of the layers and not that of the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import afterfit as af
from afterfit.papers._measure import slope_variation

__all__ = [
    "CLOSE",
    "FITTED",
    "GRID",
    "infinite_width_interpolant",
    "infinite_width_kernel",
    "interpolation",
    "least_variation",
    "natural_cubic_spline",
    "nearest_cubic_spline",
    "outputs",
    "tangent_interpolant",
    "univariate_init",
]


GRID = np.linspace(-1, 1, 401)  # where functions are compared
CLOSE = 0.02  # of the linear spline's norm: what counts as the same function
# The loss that counts as 0. Residuals eₙ change ∫|f''| by at most Σ4|eₙ|/h with gaps h ≥ 0.2: by 0.005, of 1.7 or more.
FITTED = 1e-8


def interpolation(x: np.ndarray, y: np.ndarray) -> af.tasks.Interpolation:
    """The points as a task."""
    return af.tasks.Interpolation(tuple(x.tolist()), tuple(y.tolist()), n_test=len(GRID))


def univariate_init(k: int, alpha: float, c: float) -> af.inits.Init:
    """α·w₀ of k units with the layers' relative scale c: unbiased, each unit with a copy of opposite output sign."""
    # The last layer is drawn as the first is, from N(0, (αc)²), and b₂ is set to 0 with the copies.
    drawn = af.inits.ScaledLastLayer(af.inits.Gaussian(alpha * c), factor=float(np.sqrt(2 / k) / c**2))
    return af.inits.Symmetrised(drawn)


def outputs(params: Any, x: np.ndarray) -> np.ndarray:
    """f(x) for each x."""
    w1, b1, w2, b2 = _layers(params)
    return np.maximum(np.outer(x, w1) + b1, 0) @ w2 + b2


def infinite_width_kernel(x: np.ndarray, z: np.ndarray, k: int, alpha: float, c: float) -> np.ndarray:
    """The tangent kernel at the start of k units, in expectation: what it is when k is large.

    The gradient by w₂ is σ(w₁x + b₁), that by (w₁, b₁) is w₂σ'(w₁x + b₁)·(x, 1), that by b₂ is 1. Summed over k units
    these are the arc-cosine kernels κ₁ and κ₀ of (x, 1): α²(kc²·κ₁ + (2/c²)·κ₀·(xz + 1)) + 1.
    """
    X, Z = (np.stack([points, np.ones_like(points)], axis=1) for points in (x, z))
    second, first = (af.theory.arc_cosine(X, Z, degree=degree) for degree in (1, 0))
    return alpha**2 * (k * c**2 * second + 2 / c**2 * first * (X @ Z.T)) + 1


def infinite_width_interpolant(
    x: np.ndarray, y: np.ndarray, at: np.ndarray, k: int, alpha: float, c: float
) -> np.ndarray:
    """Interpolation of y at x by that kernel: where a wide net ends that stays in its kernel regime."""
    weights = np.linalg.solve(infinite_width_kernel(x, x, k, alpha, c), y)
    return infinite_width_kernel(at, x, k, alpha, c) @ weights


def tangent_interpolant(start: Any, x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The same by the tangent kernel of one net, from its parameters at the start, where its outputs are 0."""
    features, others = _tangent_features(start, x), _tangent_features(start, at)
    return others @ (features.T @ np.linalg.solve(features @ features.T, y))


def least_variation(x: np.ndarray, y: np.ndarray) -> float:
    """The least ∫|f''| over all f through the points, x rising: that of the linear spline."""
    return slope_variation(x, y)


def natural_cubic_spline(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The cubic spline through the points without curvature at its ends: the least ∫f''²."""
    return _cubic_spline(x, y, at, (0.0, 0.0))


def nearest_cubic_spline(x: np.ndarray, y: np.ndarray, at: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The cubic spline through the points that is nearest to f in the mean square.

    Piecewise cubic between the points with a continuous second derivative; its two values at the ends are free.
    """
    natural = natural_cubic_spline(x, y, at)
    bends = np.stack([_cubic_spline(x, np.zeros_like(y), at, ends) for ends in ((1.0, 0.0), (0.0, 1.0))], axis=1)
    return natural + bends @ np.linalg.lstsq(bends, f - natural, rcond=None)[0]


def _cubic_spline(x: np.ndarray, y: np.ndarray, at: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """The cubic spline with these second derivatives at its ends."""
    from scipy.interpolate import make_interp_spline

    first, last = ends
    return make_interp_spline(x, y, k=3, bc_type=([(2, first)], [(2, last)]))(at)


def _layers(params: Any) -> tuple[np.ndarray, ...]:
    """w₁, b₁, w₂ and b₂ of a net."""
    return tuple(np.ravel(np.asarray(layer[name])) for layer in params["layers"] for name in ("weight", "bias"))


def _tangent_features(params: Any, x: np.ndarray) -> np.ndarray:
    """The gradient of f(x) by (w₂, w₁, b₁, b₂), a row for each x."""
    w1, b1, w2, _ = _layers(params)
    z = np.outer(x, w1) + b1
    pull = (z > 0) * w2
    return np.concatenate([np.maximum(z, 0), pull * x[:, None], pull, np.ones((len(x), 1))], axis=1)
