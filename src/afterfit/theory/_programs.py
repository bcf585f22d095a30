"""Where a run must end: the convex programs that the papers' theorems name, by real solvers.

Everything here takes and returns NumPy arrays and knows nothing of training, so that a run and its theory stay two
independent computations. Measurements of a vector are the rows of X (n x d); those of a matrix are X (n x rows x
columns), each yᵢ = ⟨Xᵢ, W⟩. Penalised programs have ½‖X·w − y‖² in front, as in Notsawo et al. 2025.
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from afterfit._base.errors import NotSeparableError, Unanswered, require

__all__ = [
    "check_solved",
    "lasso",
    "max_l1_margin",
    "max_l2_margin",
    "max_margin",
    "min_l1",
    "min_l2",
    "min_lp",
    "min_nuclear",
    "non_negative",
    "nuclear_penalised",
    "pivoted",
    "ridge",
    "single_entries",
    "solve",
]

_ALL_AT_ONCE = 2_000  # columns of a linear program that are given to the solver together
_FACES = 40  # rows + columns of a matrix up to which its nuclear norm goes to an interior-point method


# -------------------------------------------------------------------------------------------------- regression


def min_l2(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], weights: ArrayLike = 1.0
) -> Float[np.ndarray, " d"]:
    """argmin Σ weightsᵢ·βᵢ² subject to Xβ = y.

    The kernel limit of a diagonal net that starts in the shape w₀ has the weights 1/w₀² (Woodworth et al. 2020, (6)).
    """
    root = np.sqrt(np.broadcast_to(np.asarray(weights, dtype=float), X.shape[1:]))
    return np.linalg.lstsq(X / root, y, rcond=None)[0] / root


def min_l1(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
    """argmin ‖β‖₁ subject to Xβ = y."""
    return _least_l1(X, y, equal=True)


def min_lp(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], p: float, start: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """A stationary point of Σ|βᵢ|ᵖ subject to Xβ = y, 0 < p < 1: the one that `start` leads to.

    Weight decay on w₊^D − w₋^D is Σ|βᵢ|^{2/D} on the predictor (Woodworth et al. 2020, §5), which for D > 2 is not
    convex and has many stationary points. Each step solves the quadratic that touches it at the present point
    (iteratively reweighted least squares), smoothed by an ε that is taken to 0.
    """
    require(0 < p < 1, f"min_lp is for powers between 0 and 1, got {p}: use min_l1 or min_l2.")
    beta = start - np.linalg.lstsq(X, X @ start - y, rcond=None)[0]
    size = np.max(np.abs(beta))
    for epsilon in size * 10.0 ** -np.arange(0, 13):
        for _ in range(200):
            previous = beta
            beta = min_l2(X, y, (beta**2 + epsilon**2) ** (p / 2 - 1) * size ** (2 - p))
            if np.max(np.abs(beta - previous)) <= 1e-10 * size:
                break
    return np.where(np.abs(beta) > 1e-9 * size, beta, 0.0)


def ridge(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], strength: float) -> Float[np.ndarray, " d"]:
    """argmin ½‖Xa − y‖² + ½·strength·‖a‖₂² (Notsawo et al. 2025, Thm 3.6)."""
    n, d = X.shape
    if n <= d:
        return X.T @ np.linalg.solve(X @ X.T + strength * np.eye(n), y)
    return np.linalg.solve(X.T @ X + strength * np.eye(d), X.T @ y)


def lasso(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], strength: float) -> Float[np.ndarray, " d"]:
    """argmin ½‖Xa − y‖² + strength·‖a‖₁ (Notsawo et al. 2025, §3.1)."""
    import cvxpy as cp

    a = cp.Variable(X.shape[1])
    solve(cp.Problem(cp.Minimize(cp.sum_squares(X @ a - y) / (2 * strength) + cp.norm1(a))))
    assert a.value is not None
    return _polish_lasso(X, y, strength, a.value)


def _polish_lasso(X: np.ndarray, y: np.ndarray, strength: float, a: np.ndarray) -> np.ndarray:
    """The same solution to rounding, where a support can be told: Xₛᵀ(y − Xₛaₛ) = strength·sign(aₛ)."""
    for small in (1e-3, 1e-4, 1e-5, 1e-6):
        support = np.abs(a) > small * np.max(np.abs(a), initial=0.0)
        S, sign = X[:, support], np.sign(a[support])
        if support.sum() > len(y) or np.linalg.matrix_rank(S) < support.sum():
            continue
        polished = np.zeros_like(a)
        polished[support] = np.linalg.solve(S.T @ S, S.T @ y - strength * sign)
        slope = np.abs(X.T @ (y - X @ polished))
        if np.array_equal(np.sign(polished[support]), sign) and np.all(slope <= strength * (1 + 1e-6)):
            return polished
    return a


# ---------------------------------------------------------------------------------------------- classification


def max_l2_margin(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
    """argmin ‖w‖₂ subject to yᵢ⟨w, xᵢ⟩ ≥ 1; its margin is 1/‖w‖₂ (Lyu et al. 2023, Cor. 3.6)."""
    Z = y[:, None] * X
    n, d = Z.shape
    return Z.T @ (max_margin(Z @ Z.T) if d > n else _margin_multipliers(Z.T))


def max_margin(K: Float[np.ndarray, "m m"]) -> Float[np.ndarray, " m"]:
    """ν ≥ 0 such that h = Σνᵢzᵢ is argmin ‖h‖₂ subject to ⟨zᵢ, h⟩ ≥ 1, from K = (⟨zᵢ, zⱼ⟩) alone (Lyu et al. 2023, K1).

    A least-distance program, solved exactly by non-negative least squares (Lawson and Hanson 1974, ch. 23); raises
    `NotSeparableError` where no h has a positive margin.
    """
    scale = float(np.mean(np.diag(K)))
    values, vectors = np.linalg.eigh(K / scale)
    features = np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T  # columns with the same inner products
    return _margin_multipliers(features) / scale


def _margin_multipliers(features: Float[np.ndarray, "d m"]) -> Float[np.ndarray, " m"]:
    """The same from the zᵢ themselves, the columns of `features`."""
    d, m = features.shape
    scale = float(np.mean(np.sum(features**2, axis=0)))
    A, wanted = np.concatenate([features / np.sqrt(scale), np.ones((1, m))]), np.append(np.zeros(d), 1.0)
    u, order, rng = np.zeros(m), np.arange(m), np.random.default_rng(0)
    for _ in range(10):
        u[order] = non_negative(A[:, order], wanted, max(1000, 30 * m))
        if np.max(A.T @ (wanted - A @ u)) <= 1e-6:
            break
        order = rng.permutation(m)  # where many columns are alike, SciPy's can stop short: not in another order
    else:
        raise Unanswered("non-negative least squares stopped short of the solution, in ten orders of the examples")
    short = 1 - np.sum(u)  # 1 − Σu = ‖residual‖², which is 0 where the zᵢ have 0 in their convex hull
    if short < 1e-11:
        raise NotSeparableError("the data are not linearly separable: no direction has a positive margin on them")
    return u / short / scale


def non_negative(A: np.ndarray, b: np.ndarray, steps: int) -> np.ndarray:
    """argmin ‖Ax − b‖ over x ≥ 0."""
    from scipy.optimize import nnls

    try:
        return nnls(A, b, maxiter=steps)[0]
    except RuntimeError as error:  # SciPy's word for too many steps
        raise Unanswered(f"non-negative least squares did not end: {error}") from error


def pivoted(A: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
    """argmin ½⟨ν, Aν⟩ − ⟨b, ν⟩ over ν ≥ 0, which is likely to be positive where `start` is; None if it is not found.

    Block principal pivoting (Portugal, Júdice and Vicente 1994): a set of variables is taken for the positive ones, and
    all that turn out wrong change sides at once; one at a time when that does not help. A handful of factorisations,
    where non-negative least squares makes one a variable.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    free, fewest, patience = start > 0, len(b) + 1, 3
    if not free.any():
        free = b > 0
    for _ in range(20 * len(b)):
        nu, slope = np.zeros(len(b)), np.zeros(len(b))
        if free.any():
            try:
                nu[free] = cho_solve(cho_factor(A[np.ix_(free, free)]), b[free])
            except LinAlgError:  # dependent rows
                return None
        slope[~free] = A[np.ix_(~free, free)] @ nu[free] - b[~free]
        wrong = np.flatnonzero((nu < 0) | (slope < -1e-12 * np.max(np.abs(b))))
        if not len(wrong):
            return nu
        if len(wrong) < fewest:
            fewest, patience = len(wrong), 3
        elif patience:
            patience -= 1
        else:
            wrong = wrong[-1:]  # Murty's rule, which ends
        free[wrong] ^= True
    return None


def max_l1_margin(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
    """argmin ‖w‖₁ subject to yᵢ⟨w, xᵢ⟩ ≥ 1; its margin is 1/‖w‖₁ (Lyu et al. 2023, Cor. 3.7)."""
    return _least_l1(y[:, None] * X, np.ones(len(y)), equal=False)


def _least_l1(Z: np.ndarray, b: np.ndarray, *, equal: bool) -> np.ndarray:
    """argmin ‖w‖₁ subject to Zw = b, or Zw ≥ b: a linear program by HiGHS.

    A wide program is first narrowed to the columns that can matter: 51 million entries at d = 10⁵, n = 256 are
    gigabytes and minutes for a general solver, and fewer than n of the columns are used in the end.
    """
    d = Z.shape[1]
    chosen = _columns_in_use(Z, b, equal) if d > _ALL_AT_ONCE else np.arange(d)
    found = np.zeros(d)
    found[chosen] = _linear_program(Z[:, chosen], b, equal)
    return found


def _linear_program(Z: np.ndarray, b: np.ndarray, equal: bool) -> np.ndarray:
    """argmin ‖w‖₁ subject to Zw = b, or Zw ≥ b, with w = w₊ − w₋ and both parts non-negative."""
    from scipy.optimize import linprog

    d = Z.shape[1]
    A = np.concatenate([Z, -Z], axis=1)
    constraints = {"A_eq": A, "b_eq": b} if equal else {"A_ub": -A, "b_ub": -b}
    solution = linprog(np.ones(2 * d), **constraints, method="highs")
    if solution.status == 2:
        raise NotSeparableError("no predictor satisfies the constraints: the data cannot be fitted")
    check_solved(solution.success, solution.message)
    return solution.x[:d] - solution.x[d:]


def _columns_in_use(Z: np.ndarray, b: np.ndarray, equal: bool) -> np.ndarray:
    """The columns where argmin ‖w‖₁ subject to Zw = b, or Zw ≥ b, is not 0, by the dual augmented Lagrangian method.

    Proximal steps w ← soft(w + σZᵀν, σ), each with the ν that makes the next w feasible. That ν is the minimum of a
    convex, piecewise quadratic function of n variables, found by Newton steps whose matrix is σ·Z_A Z_Aᵀ, A the few
    columns in use (Li, Sun and Toh 2018). For a linear program this ends after finitely many steps.
    """
    n, d = Z.shape
    nu, w, slack = np.zeros(n), np.zeros(d), np.zeros(n)
    sigma = float(np.max(np.abs(Z.T @ np.linalg.lstsq(Z @ Z.T, b, rcond=None)[0])))
    for _ in range(60):
        nu, new_w, new_slack = _feasible_step(Z, b, equal, nu, w, slack, sigma)
        moved = max(np.max(np.abs(new_w - w)), np.max(np.abs(new_slack - slack)))
        w, slack = new_w, new_slack
        # moved/σ is by how much |Zᵀν| ≤ 1 is broken: at 0 the pair (w, ν) is optimal.
        if moved <= 1e-9 * sigma and abs(np.sum(np.abs(w)) - b @ nu) <= 1e-8 * np.sum(np.abs(w)):
            return np.flatnonzero(np.abs(Z.T @ nu) > 1 - 1e-6)
        sigma *= 3
    raise NotSeparableError("no predictor satisfies the constraints: the data cannot be fitted")


def _feasible_step(
    Z: np.ndarray, b: np.ndarray, equal: bool, nu: np.ndarray, w: np.ndarray, slack: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ν with Z·soft(w + σZᵀν, σ) − (slack − σν)₊ = b, and the two primal points it gives."""

    def primal(nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = w + sigma * (Z.T @ nu)
        kept = np.zeros(len(nu)) if equal else np.maximum(slack - sigma * nu, 0.0)
        return np.sign(moved) * np.maximum(np.abs(moved) - sigma, 0.0), kept

    def value(nu: np.ndarray, w: np.ndarray, slack: np.ndarray) -> float:
        return float((w @ w + slack @ slack) / (2 * sigma) - b @ nu)

    new_w, new_slack = primal(nu)
    for _ in range(100):
        active = np.flatnonzero(new_w)
        gradient = Z[:, active] @ new_w[active] - new_slack - b
        if np.linalg.norm(gradient) <= 1e-11 * np.linalg.norm(b):
            break
        used = Z[:, active]
        H = sigma * (used @ used.T + np.diag((new_slack > 0).astype(float)))
        # Regularised where too few columns are in use to reach every example; less so near the solution.
        H[np.diag_indices(len(b))] += 1e-3 * min(1.0, float(np.linalg.norm(gradient))) * max(sigma, np.max(np.diag(H)))
        direction, length = -np.linalg.solve(H, gradient), 1.0
        before, slope = value(nu, new_w, new_slack), float(gradient @ direction)
        while True:
            new_w, new_slack = primal(nu + length * direction)
            if value(nu + length * direction, new_w, new_slack) <= before + 1e-4 * length * slope or length < 1e-10:
                break
            length /= 2
        nu = nu + length * direction
    return nu, new_w, new_slack


# ---------------------------------------------------------------------------------------------------- matrices


def single_entries(mask: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "n rows columns"]:
    """The measurements that read the entries of a matrix where `mask` is not 0, row by row."""
    rows, columns = np.nonzero(mask)
    X = np.zeros((len(rows), *np.shape(mask)))
    X[np.arange(len(rows)), rows, columns] = 1.0
    return X


def min_nuclear(
    X: Float[np.ndarray, "n rows columns"], y: Float[np.ndarray, " n"], *, symmetric: bool = False
) -> Float[np.ndarray, "rows columns"]:
    """argmin ‖W‖_* subject to ⟨Xᵢ, W⟩ = yᵢ, among symmetric matrices if asked (Lyu et al. 2023, §3.3.3)."""
    return _nuclear(X, y, None, symmetric)


def nuclear_penalised(
    X: Float[np.ndarray, "n rows columns"], y: Float[np.ndarray, " n"], strength: float, *, symmetric: bool = False
) -> Float[np.ndarray, "rows columns"]:
    """argmin ½Σ(⟨Xᵢ, W⟩ − yᵢ)² + strength·‖W‖_*, among symmetric matrices if asked.

    It is what ½·strength·(‖U‖² + ‖V‖²) on the factors of W = UVᵀ comes to at its global minimum, since
    ‖W‖_* = min over UVᵀ = W of ½(‖U‖² + ‖V‖²) (Srebro et al. 2004).
    """
    return _nuclear(X, y, strength, symmetric)


def _nuclear(X: np.ndarray, y: np.ndarray, strength: float | None, symmetric: bool) -> np.ndarray:
    shape = X.shape[1:]
    if sum(shape) > _FACES:
        return _split(X.reshape(len(X), -1), y, shape, strength, symmetric)
    import cvxpy as cp

    W = cp.Variable(shape, symmetric=symmetric)
    misfit = X.reshape(len(X), -1) @ cp.vec(W, order="C") - y
    if strength is None:
        solve(cp.Problem(cp.Minimize(cp.normNuc(W)), [misfit == 0]))
    else:
        solve(cp.Problem(cp.Minimize(cp.sum_squares(misfit) / (2 * strength) + cp.normNuc(W))))
    assert W.value is not None
    return W.value


def _split(X: np.ndarray, y: np.ndarray, shape: tuple[int, ...], strength: float | None, symmetric: bool) -> np.ndarray:
    """The same by Douglas–Rachford splitting: a projection (or least squares) and a soft threshold, in turn.

    An interior-point method needs a cone of (rows + columns)² entries, minutes at 100 x 100, where this takes seconds.
    """
    fit = X.T @ np.linalg.pinv(X @ X.T)
    z = fit @ y
    size = float(np.linalg.norm(z))
    step = size / 10  # of the order of a singular value, which is what the threshold acts on
    # The projection onto {Xw = y}, or argmin ½‖Xw − y‖² + strength/(2·step)·‖w − z‖², is z − back·(Xz − y).
    back = fit if strength is None else X.T @ np.linalg.inv(X @ X.T + strength / step * np.eye(len(y)))
    for _ in range(20_000):
        w = z - back @ (X @ z - y)
        v = _soften(2 * w - z, shape, step, symmetric)
        z = z + v - w
        if np.linalg.norm(v - w) <= 1e-8 * size:
            return v.reshape(shape)
    raise Unanswered("the nuclear-norm program was not solved: 20000 steps of splitting were not enough")


def _soften(w: np.ndarray, shape: tuple[int, ...], step: float, symmetric: bool) -> np.ndarray:
    W = w.reshape(shape)
    if symmetric:
        values, V = np.linalg.eigh((W + W.T) / 2)
        return ((V * (np.sign(values) * np.maximum(np.abs(values) - step, 0.0))) @ V.T).ravel()
    U, values, Vt = np.linalg.svd(W, full_matrices=False)
    return ((U * np.maximum(values - step, 0.0)) @ Vt).ravel()


def solve(problem) -> None:
    """Solve a CVXPY problem by Clarabel; `Unanswered` where that fails."""
    from cvxpy.error import SolverError

    with warnings.catch_warnings():
        # "Solution may be inaccurate" is said of solutions good to 1e-6; what matters here is compared below
        # that by the caller, and a failure to solve is an error.
        warnings.simplefilter("ignore", UserWarning)
        try:
            problem.solve(solver="CLARABEL")
        except SolverError as error:
            raise Unanswered("the convex program was not solved: Clarabel failed on its numbers") from error
    check_solved(problem.status in ("optimal", "optimal_inaccurate"), problem.status)


def check_solved(success: bool, status: str) -> None:
    """`Unanswered`, with the solver's own word, unless it succeeded."""
    if not success:
        raise Unanswered(f"the convex program was not solved: {status}")
