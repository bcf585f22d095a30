"""How far parameters are from a KKT point of the rich regime's programs R1 and R2 (Lyu et al. 2023)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from afterfit._base.errors import Unanswered
from afterfit._base.jacobians import Linearisation
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem, norm
from afterfit.theory._kernel import margin_features
from afterfit.theory._programs import non_negative
from afterfit.theory.obstacles import MOST

__all__ = ["Stationarity", "kkt", "lp_residual"]


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


def kkt(problem: Problem, params: PyTree[Array]) -> Stationarity:
    """The KKT residual of R2 (squared loss) or R1 (classification) at `params`.

    R1 is scaled with the model's degree of homogeneity, which has to be known.
    """
    if problem.task.loss.form == "squared":
        at = tangent.linearise(problem, params)
        wanted = tangent.targets(problem)
        missing = float(jnp.linalg.norm((at.value - wanted).ravel()) / jnp.linalg.norm(wanted.ravel()))
        nu, residual = _multipliers(at, params, slack=None)
        return Stationarity("R2", residual, missing, 0.0, nu)
    degree = problem.model.degree
    if degree is None:
        raise Unanswered(
            f"{type(problem.model).__name__} is not homogeneous, so that margins have no scale to be divided out: "
            "the KKT residual of R1 is for homogeneous models"
        )
    at = margin_features(problem, params)
    least = float(jnp.min(at.value))
    if least <= 0:
        nu, residual = _multipliers(at, params, slack=np.zeros(at.value.size))
        return Stationarity("R1", residual, np.inf, np.nan, nu)
    scaled = jax.tree.map(lambda leaf: leaf / least ** (1 / degree), params)
    at = margin_features(problem, scaled)
    margins = np.asarray(at.value)
    nu, residual = _multipliers(at, scaled, slack=margins - 1)
    total = float(nu @ margins)
    return Stationarity("R1", residual, 0.0, float(nu @ (margins - 1)) / total if total > 0 else np.nan, nu)


def _multipliers(
    at: Linearisation, params: PyTree[Array], slack: Float[np.ndarray, " m"] | None
) -> tuple[np.ndarray, float]:
    """argmin over ν of ‖θ − Jᵀν‖, and that distance over ‖θ‖, from the kernel JJᵀ and Jθ alone.

    With `slack` of inequalities ν ≥ 0, and Σ(νᵢ·slackᵢ·‖∇fᵢ‖)² is added: where several ν do as well, which happens if
    there are more constraints than parameters in use, those on the margin are meant.
    """
    if at.value.size > MOST:
        raise Unanswered(f"{at.value.size} constraints are too many for a KKT residual: at most {MOST}")
    K, b = np.asarray(tangent.gram(at)), np.asarray(at.push_forward(params)).ravel()
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-13 * values[-1]
    # ‖θ − Jᵀν‖² = ‖θ‖² − ‖c‖² + ‖Rν − c‖² with RᵀR = K and Rᵀc = Jθ.
    R = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    c = (vectors[:, kept].T @ b) / np.sqrt(values[kept])
    size = float(norm(params)) ** 2
    if slack is None:
        nu = np.linalg.lstsq(R, c, rcond=None)[0]
    else:
        off = np.diag(slack * np.sqrt(np.diag(K)))
        nu = non_negative(np.concatenate([R, off]), np.concatenate([c, np.zeros(len(b))]), 30 * len(b))
    short = float(np.sum((R @ nu - c) ** 2))
    return nu, float(np.sqrt(max(size - c @ c, 0.0) + short) / np.sqrt(size))


def lp_residual(X: Float[np.ndarray, "n d"], beta: Float[np.ndarray, " d"], p: float, zero: float = 1e-6) -> float:
    """How far β is from a stationary point of Σ|βᵢ|ᵖ subject to Xβ = y, 0 < p < 1: 0 at one, 1 where X says nothing.

    On the support (entries above `zero` times the largest) the gradient p|βᵢ|^{p−1}sign(βᵢ) has to lie in the row space
    of X; entries at 0 have no condition, the slope there being infinite.
    """
    support = np.abs(beta) > zero * np.max(np.abs(beta))
    gradient = np.sign(beta[support]) * np.abs(beta[support]) ** (p - 1)
    S = X[:, support].T
    return float(np.linalg.norm(gradient - S @ np.linalg.lstsq(S, gradient, rcond=None)[0]) / np.linalg.norm(gradient))
