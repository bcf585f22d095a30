"""Where a run must end: the convex programs that the papers' theorems name, by real solvers.

Everything here takes and returns NumPy arrays and knows nothing of training, so that a run and its theory stay
two independent computations.
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float

__all__ = ["min_l1", "min_l2", "min_nuclear", "nuclear_penalised"]


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
