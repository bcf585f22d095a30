"""Kernels of ReLU units without number: the arc-cosine kernels of Cho and Saul 2009."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from afterfit._base.errors import require

__all__ = ["arc_cosine"]


def arc_cosine(X: ArrayLike, Z: ArrayLike | None = None, *, degree: int) -> Float[np.ndarray, "n m"]:
    """E[σ(⟨g, x⟩)σ(⟨g, z⟩)] over g ~ N(0, I), for every row x of X and z of Z (of X where Z is not given).

    σ is the step function with `degree` 0, (π − θ)/2π with θ the angle between x and z, and the ReLU with `degree` 1,
    ‖x‖‖z‖(sin θ + (π − θ)cos θ)/2π. For units with a bias, rows end with a 1. The tangent kernel of
    Σⱼ vⱼ ReLU(⟨wⱼ, x⟩) with k units, w of variance s² and v of variance t², is k times

    ```python
    s**2 * af.theory.arc_cosine(X, degree=1) + t**2 * af.theory.arc_cosine(X, degree=0) * (X @ X.T)
    ```

    in expectation, and relative to that as k → ∞.
    """
    require(degree in (0, 1), f"the degree is 0 (of steps) or 1 (of ReLUs), got {degree!r}.")
    X = np.asarray(X, dtype=float)
    Z = X if Z is None else np.asarray(Z, dtype=float)
    require(
        X.ndim == Z.ndim == 2 and X.shape[1] == Z.shape[1],
        f"X and Z need one row an input and as many columns as each other, got shapes {X.shape} and {Z.shape}.",
    )
    of_x, of_z = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Z))
    require(bool(np.all(of_x > 0) and np.all(of_z > 0)), "an input of length 0 has no angle: leave it out.")
    x, z = X / of_x, Z / of_z
    # By both chords: the arc cosine of ⟨x, z⟩ would lose half of the digits of a small angle.
    angle = 2 * np.arctan2(*(np.linalg.norm(x[:, None] + sign * z[None], axis=-1) for sign in (-1, 1)))
    if degree == 0:
        return (np.pi - angle) / (2 * np.pi)
    return of_x * of_z.T * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
