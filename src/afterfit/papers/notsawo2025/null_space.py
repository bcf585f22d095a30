"""Null space constants of runs and of random draws, and the error bound that rests on them."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

import afterfit as af

__all__ = [
    "Line",
    "Reached",
    "Robust",
    "Support",
    "draw_lines",
    "draw_supports",
    "error_bound",
    "excess",
    "first_steps",
    "null_space_constant",
    "reached",
    "robust_constants",
    "weights_under_decay",
    "worst_direction",
]


class Robust(NamedTuple):
    """The constants of a robust null space property."""

    rho: float
    tau: float


class Support(NamedTuple):
    """A draw with a share τ of measurements from the basis: ρ_S of its support S.

    `recovers` says whether ℓ₁ minimisation finds every pattern of signs on S, `recovers_l2` whether ℓ₂ does.
    """

    tau: float
    rho: float
    recovers: bool
    recovers_l2: bool


def null_space_constant(data: af.tasks.Data) -> float:
    """ρ_S of the measurements and the support."""
    support = np.flatnonzero(data.truth).tolist()
    return af.theory.sensing.null_space_constant(data.inputs, support=support).lower


def robust_constants(data: af.tasks.Data) -> Robust:
    """A pair (ρ, τ) of the robust null space property: ρ midway between ρ_S and 1."""
    rho, support = (1 + null_space_constant(data)) / 2, np.flatnonzero(data.truth).tolist()
    return Robust(rho, af.theory.sensing.robust_null_space_constant(data.inputs, rho, support))


def error_bound(run: af.Run, constants: Robust) -> np.ndarray:
    """Thm C.38's bound on ‖a(t) − a*‖₁ at every time of a run."""
    weights, truth = run.curves["weights"].values, run.data.truth
    too_long = np.abs(weights).sum(axis=1) - np.abs(truth).sum()
    residual = np.linalg.norm((weights - truth) @ run.data.inputs.T, axis=1)
    return af.theory.sensing.recovery_bound(*constants, too_long, residual)


def excess(u: np.ndarray, v: np.ndarray, off: np.ndarray) -> np.ndarray:
    """‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁ of each row, S̄ given as `off`."""
    return np.abs(v).sum(axis=1) - np.abs(u).sum(axis=1) + 2 * np.abs(u[:, off]).sum(axis=1)


def draw_supports(task: af.tasks.Task, seeds: int) -> list[Support]:
    """Draws of a task at five τ."""
    return [
        _support_of(task.replace(coherence=tau).draw(np.random.default_rng(seed)), tau)
        for tau, seed in itertools.product((0.0, 0.25, 0.5, 0.75, 1.0), range(seeds))
    ]


def _support_of(data: af.tasks.Data, tau: float) -> Support:
    # A pattern that is found once is found with any magnitudes (Foucart & Rauhut 2013, Thm 4.30), but for ρ_S = 1.
    X, S = data.inputs, np.flatnonzero(data.truth)
    missed = {af.theory.min_l1: 0.0, af.theory.min_l2: 0.0}
    for signs in itertools.product((1.0, -1.0), repeat=len(S) - 1):
        a = np.zeros(X.shape[1])
        a[S] = (1.0, *signs)
        for minimiser in missed:
            missed[minimiser] = max(missed[minimiser], float(np.max(np.abs(minimiser(X, X @ a) - a))))
    return Support(tau, null_space_constant(data), *(most <= 1e-6 for most in missed.values()))


def worst_direction(data: af.tasks.Data, rho: float) -> np.ndarray:
    """The w with ‖Xw‖₂ = 1 that has the largest ‖w_S‖₁ − ρ‖w_{S̄}‖₁, which is τ: one cone program a pattern of signs."""
    import cvxpy as cp

    X, S, off = data.inputs, np.flatnonzero(data.truth), np.flatnonzero(data.truth == 0)
    w, signs = cp.Variable(X.shape[1]), cp.Parameter(len(S))
    problem = cp.Problem(cp.Maximize(signs @ w[S] - rho * cp.norm1(w[off])), [cp.norm2(X @ w) <= 1])
    found = []
    for pattern in itertools.product((1.0, -1.0), repeat=len(S) - 1):
        signs.value = np.array([1.0, *pattern])
        problem.solve()
        assert w.value is not None
        found.append(np.array(w.value))
    return max(found, key=lambda w: np.abs(w[S]).sum() - rho * np.abs(w[off]).sum())


class Line(NamedTuple):
    """A map F of matrices whose kernel is the line through W, and its null space constant ρ for rank 1 (Def. C.46)."""

    F: np.ndarray
    W: np.ndarray
    rho: float

    @property
    def leading(self) -> np.ndarray:
        """The part of W of its largest singular value."""
        U, sigma, Vt = np.linalg.svd(self.W)
        return sigma[0] * np.outer(U[:, 0], Vt[0])

    def finds(self, truth: np.ndarray) -> bool:
        """Whether nuclear-norm minimisation finds this matrix from what F measures of it."""
        found = af.theory.min_nuclear(self.F, np.tensordot(self.F, truth, axes=2))
        return bool(np.linalg.norm(found - truth) <= 1e-3 * np.linalg.norm(truth))

    def finds_l2(self, truth: np.ndarray) -> bool:
        """Whether the matrix of least Frobenius norm is this one."""
        found = truth - np.sum(truth * self.W) / np.sum(self.W**2) * self.W
        return bool(np.linalg.norm(found - truth) <= 1e-3 * np.linalg.norm(truth))


def draw_lines(count: int) -> list[Line]:
    """Maps of 3 x 4 matrices, to 11 numbers."""
    rng, lines = np.random.default_rng(8), []
    for W in rng.standard_normal((count, 3, 4)):
        F = np.linalg.svd(W.reshape(1, -1))[2][1:].reshape(11, 3, 4)
        lines.append(Line(F, W, af.theory.sensing.rank_null_space_constant(F, 1).lower))
    return lines


class Reached(NamedTuple):
    """A run held against Thm 3.3: its bound C₁η + C₂αβ, the error at t₁, and the steps after t₁ until it is met.

    `steps` is ∞ if it is never met, `allowed` is Δt(η, t₁).
    """

    bound: float
    at_first: float
    steps: float
    allowed: float


def reached(run: af.Run, weights: np.ndarray, share: float, constants: Robust) -> Reached:
    """How weights at the steps of a run, its own or others, come to a*, with the constants (94) of the run.

    η is a share of ‖â‖₁ − ‖a*‖₁, â the least-squares solution; ρ₂ is over the row space of X, C = 0 without noise, and
    C' = max ‖F‖²/β² from t₁ on, t₁ that of (78).
    """
    X, y, truth, a = run.data.inputs, run.data.targets, run.data.truth, run.curves["weights"].values
    alpha, beta, (rho, tau) = run.spec["dynamics"]["lr"], run.spec["penalty"]["strength"], constants
    fitted, step = af.theory.min_l2(X, y), af.theory.sensing.step_conditions(X, alpha, beta, "l1")
    steps = run.curves["step"].values
    t1 = first_steps(a[0], fitted, alpha, beta, step.rho_2_rows)
    late = steps >= t1
    slope = np.sum(((a[late] @ X.T - y) @ X + beta * np.sign(a[late])) ** 2, axis=1)  # ‖F‖²
    C1 = (1 + rho) / (2 * (1 - rho))
    C2 = slope.max() / beta**2 * C1 + 4 * tau * np.sqrt(len(truth) * step.sigma_max) / (1 - step.rho_2_rows) / (1 - rho)
    eta = share * float(np.abs(fitted).sum() - np.abs(truth).sum())
    bound = float(C1 * eta + C2 * alpha * beta)
    error = np.abs(weights[late] - truth).sum(axis=1)
    met = np.flatnonzero(error <= bound)
    taken = float(steps[late][met[0]] - t1) if len(met) else np.inf
    allowed = af.theory.slow_steps(float(np.linalg.norm(a[late][0] - truth)), alpha, beta, eta)
    return Reached(bound, float(error[0]), taken, allowed)


def weights_under_decay(run: af.Run) -> np.ndarray:
    """The weights at the steps of a run of `descent` if the penalty were ½β‖a‖², in closed form."""
    X, y, a = run.data.inputs, run.data.targets, run.curves["weights"].values[0]
    alpha, beta = run.spec["dynamics"]["lr"], run.spec["penalty"]["strength"]
    values, vectors = np.linalg.eigh(X.T @ X)
    goal = vectors.T @ (X.T @ y) / (values + beta)
    left = (1 - alpha * (values + beta)) ** run.curves["step"].values[:, None].astype(float)
    return (goal + left * (vectors.T @ a - goal)) @ vectors.T


def first_steps(start: np.ndarray, fitted: np.ndarray, alpha: float, beta: float, rho_2: float) -> float:
    """t₁ of (78), with p = 2."""
    drift = alpha * beta * np.sqrt(len(start))
    return float(np.ceil(-np.log1p((1 - rho_2) * np.linalg.norm(start - fitted) / drift) / np.log(rho_2)))
