"""Diagonal nets: under weight decay they move through the family of Woodworth et al. 2020, from kernel to rich."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from afterfit._base.allowance import time_left
from afterfit._base.errors import Unanswered
from afterfit.models import Linear
from afterfit.theory._instance import Instance
from afterfit.theory._potentials import Q, QDepth
from afterfit.theory._programs import max_l2_margin
from afterfit.theory._routes._base import (
    SLOW_TIMES,
    Curves,
    Route,
    not_followed,
    not_stable,
    scored,
)
from afterfit.theory.obstacles import not_balanced, not_penalty, not_squared, not_uniform

__all__ = ["DecayingMargin", "DecayingPotential"]


class DecayingPotential(Route):
    """A diagonal net with squared loss: the solution of least Q_α, α shrinking as e^{−λt}.

    With w₊ = e^{−λt}·u the decay is gone from the equation of u but for a change of speed, and u moves in the family
    that Woodworth et al. 2020 found: w(t) is argmin Q_{α(t)} among the predictors with its outputs, α(t) = αe^{−λt}.
    Once the outputs are the targets, that is the whole slow phase, for every depth. Until then the outputs follow n
    equations of their own, see `_mirror_path`.
    """

    name = "the mirror flow of Q until the fit, then argmin Q at the decayed initialisation αe^{−λt}"
    source = "Woodworth et al. 2020, Thms 1 and 3; Lyu et al. 2023, §3.3"
    cost = "one stiff equation a training example until the fit, then some 50 minimisations of Q; no training step"
    turn = 20

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return (
            not_balanced(instance)
            or not_squared(instance)
            or (not_uniform(instance) if instance.depth > 2 else None)
            or not_penalty(instance, "l2", "none")
            or not_followed(instance)
            or not_stable(instance)
            or _not_fitted(instance)
        )

    def follow(self, instance: Instance, times: np.ndarray) -> Curves:
        fit = _mirror_path(instance, times)
        settled = times[len(fit) :]
        if not len(settled):
            rows = scored(instance, Linear(), {"weights": fit})
            return Curves(rows[:, 0], rows[:, 1])
        still = time_left()
        slow = self._slow_times(instance.decay, settled[0], settled[-1])
        path = np.array([self._settled(instance, t, still) for t in slow])
        rows = scored(instance, Linear(), {"weights": np.concatenate([fit, path])})
        train, test = (
            np.concatenate([column[: len(fit)], np.interp(settled, slow, column[len(fit) :])]) for column in rows.T
        )
        return Curves(train, test)

    def _settled(self, instance: Instance, t: float, still: Callable[[float], None]) -> np.ndarray:
        """Where it is at a time after the fit, if there is still time to find out."""
        still(0.0)
        return self._potential(instance, t).minimise(instance.design, instance.targets)

    def _slow_times(self, decay: float, first: float, last: float) -> np.ndarray:
        """Even while log α(t) changes by its own size, 20/λ and more for any α that is not tiny, then log-spaced."""
        if not decay:
            return np.array([first])
        knee = min(last, first + 20 / decay)
        return np.unique(np.append(np.linspace(first, knee, SLOW_TIMES), np.geomspace(knee, last, 8)))

    def _potential(self, instance: Instance, t: float) -> Q | QDepth:
        start, depth = instance.balanced_start, instance.depth
        scale = float(np.exp(-min(instance.decay * t, 230.0)))  # 10⁻¹⁰⁰: it is the L1 norm from there on
        return Q(scale, start) if depth == 2 else QDepth(scale * float(start[0]), depth)


class DecayingMargin(Route):
    """A diagonal net of depth 2 with a margin loss: the loss and Q_{αe^{−λt}} in balance.

    With w = 2a²·sinh(Xᵀν), a = αe^{−λt}, the flow is ν′ = −4g, g the derivative of the loss in the outputs.
    In slow motion ν′ = λρν, ρ the rate −d log Σν/d log a: 2 in the kernel regime, falling to 0 in the rich one. So w(t)
    is argmin L(w) + (λρ/4)·Q_a(w): from a ridge (kernel, Thm 3.4) to λ/2·‖w‖₁ (rich, Thm 3.5).
    """

    name = "the loss in balance with Q at the decayed initialisation αe^{−λt}"
    source = "Lyu et al. 2023, Thms 3.4 and 3.5"
    cost = "a convex program in as many variables as examples at each of some tens of times; no training step"
    turn = 20

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        if instance.task.loss.form not in ("logistic", "exponential"):
            return "it is for logistic and exponential losses"
        reason = not_balanced(instance) or not_penalty(instance, "l2") or not_followed(instance)
        return f"it is for depth 2, not {instance.depth}" if reason is None and instance.depth != 2 else reason

    def follow(self, instance: Instance, times: np.ndarray) -> Curves:
        slow_times, path = self._path(instance, times[-1])
        scores = scored(instance, Linear(), {"weights": path})
        rows = [np.interp(times, slow_times, scores[:, side]) for side in range(2)]
        return Curves(rows[0], rows[1], ("the first fit is taken to be immediate: margins of any size classify",))

    def _path(self, instance: Instance, end: float) -> tuple[np.ndarray, np.ndarray]:
        X, y, decay = instance.design, instance.targets, instance.decay
        Z, n = y[:, None] * X, len(y)
        start = instance.balanced_start
        mean = n * float(
            instance.task.loss(jnp.ones(1), jnp.ones(1), n) / instance.task.loss.each(jnp.ones(()), jnp.ones(()))
        )
        most = 4 * mean / (decay * 2.0 * n)
        nu = most * _share(instance, 10 * (Z @ max_l2_margin(X, y)))  # about where the kernel regime has it
        times, path, rho, still = [0.0], [], 2.0, time_left()
        while True:
            still(0.0)
            t = times[-1]
            c = (start * np.exp(-decay * t)) ** 2
            previous, nu = float(np.sum(nu)), _balanced(instance, Z, c, most, nu)
            if nu is None and not path:
                raise Unanswered("the balance of loss and potential was not found")
            if nu is None:  # α is so small by now that the balance is lost in rounding, long after the turn
                return np.array(times[:-1]), np.array(path)
            path.append(2 * c * np.sinh(Z.T @ nu))
            if len(times) > 1:
                rho = float(np.clip(np.log(np.sum(nu) / previous) / (decay * (t - times[-2])), 0.02, 2.0))
                most = 4 * mean / (decay * rho * n)
            if t >= end or _at_rest(path):
                return np.array(times), np.array(path)
            times.append(t + max(0.25, 0.1 * decay * t) / decay)


def _at_rest(path: list[np.ndarray]) -> bool:
    """Whether the direction has hardly changed over the last two steps."""
    if len(path) < 20:
        return False
    before, now = (w / np.linalg.norm(w) for w in (path[-3], path[-1]))
    return float(np.linalg.norm(now - before)) < 1e-3


def _share(instance: Instance, margins: np.ndarray) -> np.ndarray:
    """−ℓ′ at the margins: the pull of every example, between 0 and 1 for a logistic loss."""
    return np.exp(-margins) if instance.task.loss.form == "exponential" else 1 / (1 + np.exp(margins))


def _balanced(instance: Instance, Z: np.ndarray, c: np.ndarray, most: float, nu: np.ndarray) -> np.ndarray | None:
    """ν with ν = most·(−ℓ′(Zw)), w = 2c·sinh(Zᵀν): the minimum of Q*(Zᵀν) + most·Σℓ*(−ν/most). None if not found."""
    from scipy.optimize import minimize
    from scipy.special import xlogy

    logistic = instance.task.loss.form == "logistic"
    least, highest = 1e-14, 1 - 1e-12 if logistic else 1e12
    start = np.clip(nu / most, least, highest)
    still = time_left()
    unit = float(np.mean(start))  # of p, so that what the solver sees is of order 1

    def dual(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        still(0.0)
        p = unit * scaled
        s = np.clip(Z.T @ (most * p), -350.0, 350.0)
        entropy = xlogy(p, p) + xlogy(1 - p, 1 - p) if logistic else xlogy(p, p) - p
        slope = np.log(p) - np.log1p(-p) if logistic else np.log(p)
        value = np.sum(4 * c * np.sinh(s / 2) ** 2) / most + np.sum(entropy)
        return float(value / unit), Z @ (2 * c * np.sinh(s)) + slope

    solution = minimize(
        dual,
        start / unit,
        jac=True,
        method="L-BFGS-B",
        bounds=[(least / unit, highest / unit)] * len(Z),
        options={"maxiter": 500, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-3},  # margins to 10⁻³
    )
    # Each example counts as much as it pulls: one far from the margin may be off by a lot.
    off = solution.x * np.abs(solution.jac) / np.max(solution.x)
    return most * unit * solution.x if np.max(off) < 0.1 else None


def _not_fitted(instance: Instance) -> str | None:
    """Decay moves along the solutions of Xw = y, so there must be one; without it the flow needs none."""
    X, y = instance.rows, instance.targets
    missing = np.linalg.norm(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y) if instance.decay else 0.0
    return "it is for data that a linear predictor can fit" if missing > 1e-9 * np.linalg.norm(y) else None


def _mirror_path(instance: Instance, times: np.ndarray) -> np.ndarray:
    """The weights of a balanced diagonal net without penalty, up to the time when the data are fitted to 10⁻⁶.

    The flow keeps w = 2α²·sinh(Xᵀν), ν′ = −4g, g the derivative of the loss in the outputs; for depth D > 2,
    w = α^D·h_D(Xᵀν), ν′ = −D(D − 2)α^{D−2}g (Woodworth et al. 2020, proofs of Thms 1 and 3). That is n numbers to
    follow, and good in the kernel and in the rich regime alike.
    """
    from scipy.integrate import solve_ivp

    X, y = instance.design, instance.targets
    start, depth = instance.balanced_start, instance.depth
    speed = instance.half_factor * (4 if depth == 2 else depth * (depth - 2) * start[0] ** (depth - 2))
    power = depth / (depth - 2) if depth > 2 else np.inf

    def weights(s: np.ndarray) -> np.ndarray:
        if depth == 2:
            return 2 * start**2 * np.sinh(s)
        inside = np.where(np.abs(s) < 1, s, np.nan)  # a step out of the domain is refused
        return start**depth * ((1 - inside) ** -power - (1 + inside) ** -power)

    def slopes(s: np.ndarray) -> np.ndarray:
        if depth == 2:
            return 2 * start**2 * np.cosh(s)
        return start**depth * power * ((1 - s) ** (-power - 1) + (1 + s) ** (-power - 1))

    def left(t: float, nu: np.ndarray) -> float:
        return float(np.linalg.norm(X @ weights(X.T @ nu) - y) - 1e-6 * np.linalg.norm(y))

    left.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    still = time_left()

    def speeds(t: float, nu: np.ndarray) -> np.ndarray:
        still(0.0)
        return speed * (y - X @ weights(X.T @ nu))

    found = solve_ivp(
        speeds,
        (0.0, times[-1]),
        np.zeros(len(y)),
        method="BDF",
        t_eval=times,
        events=left,
        jac=lambda t, nu: -speed * (X * slopes(X.T @ nu)) @ X.T,
        rtol=1e-6,
        atol=1e-9,
    )
    if not found.success:
        raise Unanswered(f"the mirror flow could not be followed ({found.message})")
    nu = np.reshape(found.y, (len(y), -1))  # no columns if the data are fitted before they are first looked at
    return weights(nu.T @ X)
