"""Where a run must end: the convex programs that the papers' theorems name, by real solvers.

Everything here takes and returns NumPy arrays and knows nothing of training, so that a run and its theory stay
two independent computations.
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

__all__ = ["min_l1", "min_l2", "min_nuclear", "min_q", "nuclear_penalised"]


def min_l2(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
    """argmin ‖β‖₂ subject to Xβ = y."""
    return np.linalg.lstsq(X, y, rcond=None)[0]


def min_l1(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
    """argmin ‖β‖₁ subject to Xβ = y: a linear program in β = β₊ − β₋ with both parts non-negative."""
    from scipy.optimize import linprog

    d = X.shape[1]
    solution = linprog(np.ones(2 * d), A_eq=np.concatenate([X, -X], axis=1), b_eq=y, method="highs")
    _solved(solution.success, solution.message)
    return solution.x[:d] - solution.x[d:]


def min_q(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], alpha: float, shape: ArrayLike = 1.0
) -> Float[np.ndarray, " d"]:
    """argmin Q_{α,w₀}(β) subject to Xβ = y, w₀ = `shape` (Woodworth et al. 2020, Thm 1).

    Q_{α,w₀}(β) = Σ cᵢ q(βᵢ/cᵢ) with cᵢ = α²w₀ᵢ² and q′(z) = arcsinh(z/2). The conjugate of q is
    2cosh(s) − 2, so the dual program is min over ν of Σ cᵢ(2cosh((Xᵀν)ᵢ) − 2) − ⟨y, ν⟩: smooth, strictly convex
    and in n variables, which SciPy's trust-region Newton method solves; then β = 2c·sinh(Xᵀν).
    """
    from scipy.optimize import minimize

    c = alpha**2 * np.broadcast_to(np.asarray(shape, dtype=float), X.shape[1:]) ** 2
    scale = np.linalg.norm(y)

    def dual(nu: np.ndarray) -> tuple[float, np.ndarray]:
        s = X.T @ nu
        # 2cosh(s) − 2 = 4sinh²(s/2), without cancellation where s is small (large α)
        return float((np.sum(4 * c * np.sinh(s / 2) ** 2) - y @ nu) / scale), (X @ (2 * c * np.sinh(s)) - y) / scale

    def hessian(nu: np.ndarray) -> np.ndarray:
        return (X * (2 * c * np.cosh(X.T @ nu))) @ X.T / scale

    # Start from the solution with q(z) = z²/4, exact for α → ∞, pulled in so that sinh does not overflow.
    start = np.linalg.solve((X * (2 * c)) @ X.T, y)
    start *= min(1.0, 5.0 / np.max(np.abs(X.T @ start)))
    solution = minimize(
        dual, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-11, "maxiter": 2000}
    )
    _solved(float(np.max(np.abs(solution.jac))) < 1e-7, solution.message)
    return 2 * c * np.sinh(X.T @ solution.x)


def min_nuclear(mask: Float[np.ndarray, "m n"], M: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """argmin ‖W‖_* subject to W = M where mask is 1."""
    import cvxpy as cp

    W = cp.Variable(M.shape)
    rows, columns = np.nonzero(mask)
    _solve(cp.Problem(cp.Minimize(cp.normNuc(W)), [W[rows, columns] == M[rows, columns]]))
    assert W.value is not None
    return W.value


def nuclear_penalised(
    mask: Float[np.ndarray, "m n"], M: Float[np.ndarray, "m n"], strength: float
) -> Float[np.ndarray, "m n"]:
    """argmin Σ mask·(W − M)² + strength·‖W‖_*.

    It is what ½·strength·(‖U‖² + ‖V‖²) on the factors of W = UVᵀ comes to at its global minimum, since
    ‖W‖_* = min over UVᵀ = W of ½(‖U‖² + ‖V‖²) (Srebro et al. 2004).
    """
    import cvxpy as cp

    W = cp.Variable(M.shape)
    misfit = cp.sum_squares(cp.multiply(mask, W - M))
    _solve(cp.Problem(cp.Minimize(misfit / strength + cp.normNuc(W))))
    assert W.value is not None
    return W.value


def _solve(problem) -> None:
    with warnings.catch_warnings():
        # "Solution may be inaccurate" is said of solutions good to 1e-6; what matters here is compared below
        # that by the caller, and a failure to solve is an error.
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver="CLARABEL")
    _solved(problem.status in ("optimal", "optimal_inaccurate"), problem.status)


def _solved(success: bool, status: str) -> None:
    if not success:
        raise RuntimeError(f"the convex program was not solved: {status}.")
