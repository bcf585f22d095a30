"""How far parameters are from a KKT point of the rich regime's programs R1 and R2 (Lyu et al. 2023)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from afterfit._base.allowance import time_to_factorise
from afterfit._base.definitions import compiled
from afterfit._base.errors import Unanswered
from afterfit._base.machine import blas_on_one_thread
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem, norm
from afterfit.theory._features import MOST, Features
from afterfit.theory._kernel import Margins, constraints, margins
from afterfit.theory._landscape import misfit
from afterfit.theory._matrix_free import conjugate_gradients, on_working_set
from afterfit.theory._programs import non_negative, pivoted

__all__ = ["Stationarity", "kkt", "lp_residual"]

_FEW = 1000  # margins whose multipliers are found all together


@dataclasses.dataclass(frozen=True)
class Stationarity:
    """How well parameters solve min ½‖θ‖² subject to f(xᵢ) = yᵢ (R2) or to margins ≥ 1 (R1), to first order.

    `residual` is min over multipliers ν (ν ≥ 0 for R1) of ‖θ − Σνᵢ∇fᵢ(θ)‖/‖θ‖: 0 at a KKT point, 1 where the
    constraints' gradients say nothing of θ. `infeasibility` is ‖f − y‖/‖y‖ for R2; for R1, where θ is first scaled to
    a smallest margin of 1, it is 0 if that margin is positive, else inf. `slack` is Σνᵢ(marginᵢ − 1)/Σνᵢmarginᵢ, the
    share of the multipliers' weight off the margin (0 for R2). All are free of the scale of θ and of the data.
    """

    program: str
    residual: float
    infeasibility: float
    slack: float
    multipliers: np.ndarray = dataclasses.field(repr=False)
    how: str = ""


def kkt(problem: Problem, params: PyTree[Array]) -> Stationarity:
    """The KKT residual of R2 (squared loss) or R1 (classification) at `params`.

    R1 is scaled with the model's degree of homogeneity, which has to be known.
    """
    squared = problem.task.loss.form == "squared"
    degree = problem.model.degree
    if not squared and degree is None:
        raise Unanswered(
            f"{type(problem.model).__name__} is not homogeneous, so that margins have no scale to be divided out: "
            "the KKT residual of R1 is for homogeneous models"
        )
    size = jax.eval_shape(lambda p: tangent.outputs(problem, p), params).size
    if squared and size > MOST:
        return _kkt_of_many(problem, params)
    if degree is not None and not squared and size > _FEW:
        return _kkt_of_many_margins(problem, params, degree)
    time_to_factorise(size, vectors=True)
    value, *of_parameters = (np.asarray(each) for each in _conditions(problem, params))
    if squared:
        wanted = np.asarray(tangent.targets(problem))
        nu, residual = _multipliers(*of_parameters, slack=None)
        return Stationarity("R2", residual, float(np.linalg.norm(value - wanted) / np.linalg.norm(wanted)), 0.0, nu)
    if np.min(value) <= 0:
        nu, residual = _multipliers(*of_parameters, slack=np.zeros(len(value)))
        return Stationarity("R1", residual, np.inf, np.nan, nu)
    nu, residual = _multipliers(*of_parameters, slack=value - 1)
    total = float(nu @ value)
    return Stationarity("R1", residual, 0.0, float(nu @ (value - 1)) / total if total > 0 else np.nan, nu)


@compiled
def _conditions(problem: Problem, params: PyTree[Array]) -> tuple[Array, Array, Array, Array]:
    """What is constrained, JJᵀ, Jθ and ‖θ‖; of a classifier without errors, at θ scaled to a smallest margin of 1."""
    if problem.task.loss.form != "squared":
        assert problem.model.degree is not None, "an obstacle to any other"
        least = jnp.min(constraints(problem, params).value)
        scale = jnp.where(least > 0, least, 1.0) ** (1 / problem.model.degree)
        params = jax.tree.map(lambda leaf: leaf / scale, params)
    at = constraints(problem, params)
    K = tangent.kernel(problem, params) if problem.task.loss.form == "squared" else tangent.gram(at)
    return at.value, K, jnp.ravel(at.push_forward(params)), norm(params)


def _multipliers(
    K: Float[np.ndarray, "m m"],
    b: Float[np.ndarray, " m"],
    size: Float[np.ndarray, ""],
    slack: Float[np.ndarray, " m"] | None,
) -> tuple[np.ndarray, float]:
    """argmin over ν of ‖θ − Jᵀν‖, and that distance over ‖θ‖, from K = JJᵀ, b = Jθ and the `size` of θ alone.

    With `slack` of inequalities ν ≥ 0, and Σ(νᵢ·slackᵢ·‖∇fᵢ‖)² is added: where several ν do as well, which happens if
    there are more constraints than parameters in use, those on the margin are meant.
    """
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-13 * values[-1]
    # ‖θ − Jᵀν‖² = ‖θ‖² − ‖c‖² + ‖Rν − c‖² with RᵀR = K and Rᵀc = Jθ.
    R = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    c = (vectors[:, kept].T @ b) / np.sqrt(values[kept])
    if slack is None:
        nu = vectors[:, kept] @ (c / np.sqrt(values[kept]))  # the shortest with Rν = c: rows of R are orthogonal
    else:
        off = np.diag(slack * np.sqrt(np.diag(K)))
        nu = non_negative(np.concatenate([R, off]), np.concatenate([c, np.zeros(len(b))]), 30 * len(b))
    short = float(np.sum((R @ nu - c) ** 2))
    return nu, float(np.sqrt(max(float(size) ** 2 - c @ c, 0.0) + short) / size)


def _kkt_of_many(problem: Problem, params: PyTree[Array]) -> Stationarity:
    """R2 of more outputs than are factorised: ‖θ − Jᵀν‖ is lowered by conjugate gradients until it hardly falls."""
    of, theta = Features(problem, params), np.asarray(ravel_pytree(params)[0])
    with blas_on_one_thread():
        found = conjugate_gradients(of.product, of.push_forward(theta), of.preconditioner, 1e-6, settled=1e-5)
    left = theta - of.pull_back(found.x)
    residual = float(np.linalg.norm(left) / np.linalg.norm(theta))
    return Stationarity("R2", residual, misfit(problem, params), 0.0, found.x, "by conjugate gradients, from above")


def _kkt_of_many_margins(problem: Problem, params: PyTree[Array], degree: int) -> Stationarity:
    """R1 of many margins, few of which have multipliers that are not 0."""
    smallest = float(jnp.min(margins(problem, tangent.outputs(problem, params))))
    if smallest > 0:
        params = jax.tree.map(lambda leaf: leaf / smallest ** (1 / degree), params)
    of, theta = Margins(problem, Features(problem, params)), np.asarray(ravel_pytree(params)[0])
    sizes = np.asarray(margins(problem, tangent.outputs(problem, params)))
    slack = sizes - 1 if smallest > 0 else np.zeros(of.m)
    b = of.push(theta)

    def solve(gram: np.ndarray, chosen: np.ndarray, guess: np.ndarray) -> np.ndarray:
        off = slack[chosen] ** 2 * np.diag(gram)
        found = pivoted(gram + np.diag(off + 1e-12 * np.diag(gram)), b[chosen], guess)
        if found is None:
            raise Unanswered("the multipliers of its constraints were not found")
        return found

    with blas_on_one_thread():
        found = on_working_set(of.gram, of.pull, of.push, solve, b, sizes, most=MOST)
    residual = float(np.linalg.norm(theta - found.h) / np.linalg.norm(theta))
    total = float(found.nu @ sizes)
    share = float(found.nu @ slack) / total if smallest > 0 and total > 0 else np.nan
    return Stationarity("R1", residual, 0.0 if smallest > 0 else np.inf, share, found.nu)


def lp_residual(X: Float[np.ndarray, "n d"], beta: Float[np.ndarray, " d"], p: float, zero: float = 1e-6) -> float:
    """How far β is from a stationary point of Σ|βᵢ|ᵖ subject to Xβ = y, 0 < p < 1: 0 at one, 1 where X says nothing.

    On the support (entries above `zero` times the largest) the gradient p|βᵢ|^{p−1}sign(βᵢ) has to lie in the row space
    of X; entries at 0 have no condition, the slope there being infinite.
    """
    support = np.abs(beta) > zero * np.max(np.abs(beta))
    gradient = np.sign(beta[support]) * np.abs(beta[support]) ** (p - 1)
    S = X[:, support].T
    return float(np.linalg.norm(gradient - S @ np.linalg.lstsq(S, gradient, rcond=None)[0]) / np.linalg.norm(gradient))
