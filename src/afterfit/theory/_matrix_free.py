"""Linear systems, quadratic programs and eigenvalues of K = JJᵀ where K itself would be too large.

K is known by its products with vectors, and by the part of it that belongs to some constraints. Everything takes and
returns NumPy arrays.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from afterfit._base.allowance import time_left
from afterfit._base.errors import Unanswered

__all__ = [
    "Solution",
    "Working",
    "conjugate_gradients",
    "least_eigenvalue",
    "least_squares",
    "on_working_set",
]

Product = Callable[[np.ndarray], np.ndarray]

_MOST = 2000  # iterations: what takes more is too ill-conditioned for them
_ADDED = 400  # constraints that join a working set at a time
_AHEAD = 10  # iterations after which it is told how long all will take
_USUAL = 150  # iterations that a solution to 1e-3 takes with a good preconditioner: 60 to 250 in our trials


@dataclasses.dataclass(frozen=True)
class Solution:
    """x, and ‖b − Kx‖/‖b‖ (of least squares ‖Jᵀ(b − Jx)‖/‖Jᵀb‖) after so many iterations."""

    x: np.ndarray
    residual: float
    iterations: int


def conjugate_gradients(
    product: Product, b: Float[np.ndarray, " m"], precondition: Product, small: float, settled: float = 0.0
) -> Solution:
    """x with Kx = b up to `small`·‖b‖, by preconditioned conjugate gradients.

    Or up to where ½⟨x, Kx⟩ − ⟨b, x⟩, which every iteration lowers, falls by less than the share `settled` of itself in
    ten iterations: all that counts if x is wanted for its distance ‖Jᵀx − θ‖ from some θ, b = Jθ.
    """
    x, r = np.zeros_like(b), b.copy()
    z = precondition(r)
    p, rz, size = z, float(r @ z), float(np.linalg.norm(b)) or 1.0
    lowered, watch, left = [0.0], _Watch(), 1.0
    for k in range(1, _MOST + 1):
        Kp = product(p)
        curved = float(p @ Kp)
        if curved <= 0:  # rounding: nothing is left that K does not take to 0
            return Solution(x, float(np.linalg.norm(r)) / size, k - 1)
        a = rz / curved
        x, r = x + a * p, r - a * Kp
        lowered.append(lowered[-1] + 0.5 * a * rz)
        left = float(np.linalg.norm(r)) / size
        at_rest = k >= 10 and lowered[-1] - lowered[-11] <= settled * lowered[-1]
        if left <= small or at_rest:
            return Solution(x, left, k)
        watch.tick(k)
        z = precondition(r)
        rz, before = float(r @ z), rz
        p = z + rz / before * p
    raise Unanswered(_too_many(left, small))


def least_squares(push: Product, pull: Product, b: Float[np.ndarray, " m"], small: float) -> Solution:
    """argmin ‖x‖ among all x that minimise ‖Jx − b‖, by conjugate gradients on JᵀJx = Jᵀb, from `push` J, `pull` Jᵀ."""
    r = b.copy()
    s = pull(r)
    x, p, ss = np.zeros_like(s), s, float(s @ s)
    size, watch, left = np.sqrt(ss) or 1.0, _Watch(), 1.0
    for k in range(1, _MOST + 1):
        q = push(p)
        a = ss / (float(q @ q) or 1.0)
        x, r = x + a * p, r - a * q
        s = pull(r)
        ss, before = float(s @ s), ss
        left = np.sqrt(ss) / size
        if left <= small:
            return Solution(x, left, k)
        watch.tick(k)
        p = s + ss / before * p
    raise Unanswered(_too_many(left, small))


def _too_many(left: float, small: float) -> str:
    return f"the equations are solved to {left:.1g} only, not to {small:.1g}, after {_MOST} iterations"


class _Watch:
    """Has iterations end in time: after a few of them it is told how long all will take."""

    def __init__(self):
        self.began, self.still = time.monotonic(), time_left()

    def tick(self, k: int) -> None:
        each = (time.monotonic() - self.began) / k
        self.still(each * (_USUAL - k) if k == _AHEAD else 0.0)


# ------------------------------------------------------------------------------------------------- eigenvalues


def _operator(m: int, of: Product, matmat: Product | None = None) -> Any:
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator((m, m), matvec=of, matmat=matmat, dtype=float)  # pyright: ignore[reportCallIssue]


def least_eigenvalue(product: Product, m: int, precondition: Product, iterations: int = 60) -> float:
    """The least eigenvalue of K from above: a Rayleigh quotient that is lowered (LOBPCG, Knyazev 2001)."""
    from scipy.sparse.linalg import lobpcg

    watch, count = _Watch(), 0

    def columns(of: Product) -> Product:
        return lambda V: np.stack([of(column) for column in V.T], axis=1)

    def watched(V: np.ndarray) -> np.ndarray:
        nonlocal count
        count += V.shape[1]
        watch.tick(count)
        return columns(product)(V)

    start = np.random.default_rng(0).standard_normal((m, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it has not converged: an upper bound is what is wanted
        values = lobpcg(
            _operator(m, product, watched),
            start,
            M=_operator(m, precondition, columns(precondition)),
            largest=False,
            maxiter=iterations,
            tol=1e-6,
        )[0]
    return float(np.min(values))


# ------------------------------------------------------------------------ quadratic programs with few constraints


@dataclasses.dataclass(frozen=True)
class Working:
    """ν of a quadratic program, and h = Jᵀν."""

    nu: np.ndarray
    h: np.ndarray


def on_working_set(
    gram: Callable[[np.ndarray], Float[np.ndarray, "k k"]],
    pull: Product,
    push: Product,
    solve: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    b: Float[np.ndarray, " m"],
    first: Float[np.ndarray, " m"],
    most: int,
) -> Working:
    """argmin ½⟨ν, Aν⟩ − ⟨b, ν⟩ over ν ≥ 0, A = JJᵀ and perhaps a diagonal, where few νᵢ are not 0.

    `solve(gram(chosen), chosen, start)` does so on the few constraints that are `chosen`. Those that its solution
    breaks the most join them, and those that are not needed leave, until none is broken: every round lowers the
    minimum, so that no set comes twice. The constraints of the least `first` are the first.
    """
    chosen = np.sort(np.argsort(first, kind="stable")[:_ADDED])
    nu, scale, still = np.zeros(len(b)), float(np.max(np.abs(b))), time_left()
    while True:
        began = time.monotonic()
        some = solve(gram(chosen), chosen, nu[chosen])
        nu = np.zeros(len(b))
        nu[chosen] = some
        h = pull(nu)
        short = b - push(h)
        short[chosen] = -np.inf
        broken = np.flatnonzero(short > 1e-6 * scale)
        if not len(broken):
            return Working(nu, h)
        joining = broken[np.argsort(-short[broken], kind="stable")[:_ADDED]]
        chosen = np.union1d(np.flatnonzero(nu > 0), joining)
        if len(chosen) > most:
            raise Unanswered(f"more than {most} of its {len(b)} constraints may be tight, too many to be solved for")
        still(time.monotonic() - began)
