"""Linear models: the closed form of weight decay, and the descent of an L1 or nuclear penalty among the solutions."""

from __future__ import annotations

import numpy as np

from afterfit._base.allowance import time_left
from afterfit.models import Linear
from afterfit.theory._instance import Instance
from afterfit.theory._programs import lasso, nuclear_penalised
from afterfit.theory._routes._base import Curves, Route, not_followed, scored
from afterfit.theory.obstacles import not_direct, not_penalty, not_squared

__all__ = ["ClosedForm", "ConvexDescent"]


class ClosedForm(Route):
    """Linear regression, with weight decay or none: the exact path."""

    name = "the closed form of linear regression with weight decay"
    source = "Boursier et al. 2025, (23)–(24)"
    cost = "one singular value decomposition; no training step"
    turn = 0

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        wrong = not_direct(instance) or not_squared(instance)
        return wrong or not_penalty(instance, "l2", "none") or not_followed(instance)

    def follow(self, instance: Instance, times: np.ndarray) -> Curves:
        path = _linear_path(instance, times, instance.decay)
        rows = scored(instance, Linear(), {"weights": path})
        rows[~np.all(np.isfinite(path), axis=tuple(range(1, path.ndim)))] = np.inf
        return Curves(rows[:, 0], rows[:, 1])


class ConvexDescent(Route):
    """The linear model with an L1 or nuclear penalty: least squares, then down the penalty among its solutions."""

    name = "least squares, then the flow of the penalty on {Xa = y}"
    source = "Notsawo et al. 2025, Thms 3.1 and 3.4; Boursier et al. 2025, Prop. 2"
    cost = "some hundred implicit steps down the penalty and one convex program; no training step"
    turn = 0

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        wrong = not_direct(instance) or not_squared(instance)
        return wrong or not_penalty(instance, "l1", "nuclear") or not_followed(instance)

    def follow(self, instance: Instance, times: np.ndarray) -> Curves:
        X, y, beta = instance.rows, instance.targets, instance.strength
        fast = _linear_path(instance, times, 0.0)
        landed = _linear_path(instance, np.array([np.inf]), 0.0)[0]
        shape = landed.shape if instance.penalty_form == "nuclear" else None
        slow_times, points = _down_the_penalty(X, landed, shape, beta * times[-1])
        projected = instance.experiment.dynamics.fits_at_once
        if not projected:
            points = _given_way(X, slow_times, points, beta / instance.half_factor, shape)
        along = _interpolated(slow_times, points, beta * times).reshape(fast.shape)
        # The two scales together: slow motion starts where the fast one lands, so that is counted once.
        rows = scored(instance, Linear(), {"weights": fast + along - landed})
        if projected:  # its end is the solution of least norm
            return Curves(rows[:, 0], rows[:, 1])
        floor = instance.score_weights(self._end(instance, X, y, beta, shape))
        return Curves(np.maximum(rows[:, 0], floor[0]), np.maximum(rows[:, 1], floor[1]))

    def _end(self, instance: Instance, X: np.ndarray, y: np.ndarray, beta: float, shape: tuple[int, ...] | None):
        """Where the penalty at its finite strength balances the loss: no error falls below that end's."""
        strength = beta / instance.half_factor
        if shape is None:
            return lasso(X, y, strength)
        return nuclear_penalised(X.reshape(len(X), *shape), y, strength)


def _linear_path(instance: Instance, times: np.ndarray, decay: float) -> np.ndarray:
    """w(t) of the linear model with weight decay, for gradient flow or descent, mode by mode."""
    X, c = instance.rows, instance.half_factor
    start = np.asarray(instance.initial["weights"])
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    rates = c * sigma**2 + decay
    goal = np.divide(c * sigma * (U.T @ instance.targets), rates, out=np.zeros_like(rates), where=rates > 0)
    modes = Vt @ start.ravel()
    rest = start.ravel() - Vt.T @ modes
    left, left_rest = (_remaining(instance, np.atleast_1d(rate), times) for rate in (rates, decay))
    with np.errstate(invalid="ignore", over="ignore"):  # where it diverges
        path = (goal + (modes - goal) * left) @ Vt + left_rest * rest
    return path.reshape(len(times), *start.shape)


def _remaining(instance: Instance, rates: np.ndarray, times: np.ndarray) -> np.ndarray:
    """What is left of each mode: e^{−rate·t} for a flow, (1 − lr·rate)^k after k = t/lr steps of descent."""
    lr = instance.step_size
    if instance.experiment.dynamics.fits_at_once:
        return np.where(rates > 0, 0.0, 1.0) * np.ones((len(times), 1))
    if lr is None:
        return np.exp(-np.outer(times, rates)) if np.all(np.isfinite(times)) else np.where(rates > 0, 0.0, 1.0)[None]
    if not np.all(np.isfinite(times)):
        return np.where(rates > 0, 0.0, 1.0)[None]
    factor = 1 - lr * rates
    with np.errstate(over="ignore"):
        return np.sign(factor) ** np.round(times / lr)[:, None] * np.abs(factor) ** (times / lr)[:, None]


def _down_the_penalty(
    X: np.ndarray, start: np.ndarray, shape: tuple[int, ...] | None, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """The steepest descent of ‖a‖₁ (or the nuclear norm, given a shape) from `start`, Xa staying as it is.

    Slow times and points. Implicit steps: a_{k+1} is the point that trades the norm off against its distance from a_k,
    so that kinks need no care and every step goes down.
    """
    _, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    rows = Vt[sigma > max(X.shape) * np.finfo(float).eps * sigma[0]]
    a, tau, multipliers = start.ravel(), 0.0, np.zeros(len(rows))
    target = rows @ a
    times, points = [tau], [a]
    scale = float(np.linalg.norm(start, 2) if shape else np.max(np.abs(a)))
    still = time_left()
    while tau < end and scale > 0:
        still(0.0)
        step = max(0.02 * scale, 0.05 * tau)
        new, multipliers = _implicit_step(rows, target, a, step, shape, multipliers)
        tau += step
        times.append(tau)
        points.append(new)
        if np.linalg.norm(new - a) <= 1e-7 * np.linalg.norm(a):
            break
        a = new
    return np.array(times), np.array(points)


def _implicit_step(rows, target, a, step, shape, multipliers) -> tuple[np.ndarray, np.ndarray]:
    """argmin over Vb = v of step·‖b‖ + ½‖b − a‖², V with orthonormal rows, and the multipliers m of Vb = v.

    By its dual, which is smooth: b = shrunk(a + Vᵀm), where m minimises ½‖shrunk(a + Vᵀm)‖² − ⟨v, m⟩.
    """
    from scipy.optimize import minimize

    size, still = np.linalg.norm(a), time_left()

    def dual(m: np.ndarray) -> tuple[float, np.ndarray]:
        still(0.0)
        b = _shrunk(a + m @ rows, step, shape)
        return (b @ b / 2 - target @ m) / size**2, (rows @ b - target) / size**2

    options = {"maxiter": 2000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-9 / size}
    m = minimize(dual, multipliers, jac=True, method="L-BFGS-B", options=options).x
    b = _shrunk(a + m @ rows, step, shape)
    return b + (target - rows @ b) @ rows, m


def _given_way(
    X: np.ndarray, times: np.ndarray, points: np.ndarray, strength: float, shape: tuple[int, ...] | None
) -> np.ndarray:
    """Where a penalty of finite strength (over the loss's factor) has the slow path, to first order.

    Only what is not zero moves: entries, or singular directions. Along those the loss gives way by δ with
    XᵀXδ = −strength·(slope of the norm), as the solution of the lasso does at the end of the path. Modes so slow that
    they have not had the time are left where they are.
    """
    from scipy.linalg import svd

    moved = points.copy()
    for k, (tau, a) in enumerate(zip(np.maximum(times, times[1:2].sum()), points, strict=True)):
        active, slope = _smooth_part(X, a, shape)
        # gesvd: NumPy's quicker gesdd sometimes fails on matrices with as many zeros and ties as these.
        _, sigma, Vt = svd(active, full_matrices=False, lapack_driver="gesvd")
        quick = sigma**2 * tau > strength
        moved[k] -= strength * ((Vt[quick] @ slope) / sigma[quick] ** 2) @ Vt[quick]
    return moved


def _smooth_part(X: np.ndarray, a: np.ndarray, shape: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """X on the directions along which the norm is smooth at a, and the norm's slope there."""
    if shape is None:
        some = np.abs(a) > 1e-6 * np.max(np.abs(a))
        return X * some, np.sign(a) * some
    U, values, Vt = np.linalg.svd(a.reshape(shape), full_matrices=False)
    some = values > 1e-6 * values[0]
    U, V = U[:, some], Vt[some].T
    matrices = X.reshape(-1, *shape)
    outside = matrices - U @ (U.T @ matrices)
    tangential = matrices - outside + outside @ V @ V.T  # UUᵀM + (I − UUᵀ)MVVᵀ
    return tangential.reshape(len(X), -1), (U @ V.T).ravel()


def _shrunk(b: np.ndarray, by: float, shape: tuple[int, ...] | None) -> np.ndarray:
    if shape is None:
        return np.sign(b) * np.maximum(np.abs(b) - by, 0.0)
    U, values, Vt = np.linalg.svd(b.reshape(shape), full_matrices=False)
    return ((U * np.maximum(values - by, 0.0)) @ Vt).ravel()


def _interpolated(times: np.ndarray, points: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(at, times, column) for column in points.T], axis=1)
