"""Whether a theorem about the landscape of the loss applies at a point: homogeneity, manifold, Łojasiewicz constant.

Functions take a `Problem` and its parameters in double precision, as `prepare` gives them inside
`jax.enable_x64(True)`, and return plain numbers. They look at a problem and at single points, never at a run.

```python
with jax.enable_x64(True):
    problem, params = prepare(experiment)
    homogeneity(problem, params).degree
```
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from afterfit._base.allowance import time_left, time_to_factorise
from afterfit._base.definitions import compiled
from afterfit._base.errors import require
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem, norm

__all__ = [
    "ChatterjeeLojasiewicz",
    "Homogeneity",
    "Manifold",
    "StepSizes",
    "chatterjee_lojasiewicz",
    "fit_steps",
    "hessian_rank",
    "homogeneity",
    "misfit",
    "slow_steps",
    "step_sizes",
]

_ZERO = 1e-10  # eigenvalues of a kernel below this share of the largest count as 0: squares of singular values at 1e-5


# Homogeneity


@dataclasses.dataclass(frozen=True)
class Homogeneity:
    """How the outputs scale with all parameters: f(cθ) = c^L f(θ) (Lyu et al. 2023, Assumption 3.1).

    `estimate` is L by Euler's identity ⟨∇f, θ⟩ = L·f, the mean over several points θ; `spread` the largest departure
    of any of them, and of f(cθ) from c^L f(θ) for several c, relative to the size of f.
    """

    estimate: float
    spread: float

    @property
    def degree(self) -> float | None:
        """L, or None where f is not homogeneous."""
        return self.estimate if self.spread <= 1e-6 else None


def homogeneity(problem: Problem, params: PyTree[Array], seed: int = 0) -> Homogeneity:
    """The degree of homogeneity of the model on the training inputs, to hold against `model.degree`.

    It is measured at points about `params`, a random distance of the size of `params` away: at `params` itself the
    outputs may be 0, as many theorems want them, and 0 scales with any degree.
    """
    at, tree = ravel_pytree(params)
    size = float(jnp.sqrt(jnp.mean(at**2))) or 1.0
    rng = np.random.default_rng(seed)
    factors = np.array([0.5, 0.8, 1.25, 2.0])
    degrees, departures = [], []
    for _ in range(4):
        theta = tree(at + size * jnp.asarray(rng.standard_normal(at.shape)))
        f, along, scaled = (np.asarray(values) for values in _scaling(problem, theta, jnp.asarray(factors)))
        if not np.any(f):  # every unit is dead here
            continue
        degrees.append(float(f @ along / (f @ f)))
        wanted = factors[:, None] ** degrees[-1] * f
        gaps = np.linalg.norm(scaled - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
        departures += [*gaps, np.linalg.norm(along - degrees[-1] * f) / np.linalg.norm(f)]
    require(bool(degrees), "the outputs are 0 wherever they were tried, so they have no degree: choose other params.")
    estimate = float(np.mean(degrees))
    return Homogeneity(estimate, float(max(*departures, *(abs(L - estimate) for L in degrees))))


@compiled
def _scaling(
    problem: Problem, theta: PyTree[Array], factors: Float[Array, " k"]
) -> tuple[Float[Array, " m"], Float[Array, " m"], Float[Array, "k m"]]:
    """f(θ), its derivative ⟨∇f, θ⟩ along θ, and f(cθ) for every factor c."""
    here = tangent.linearise(problem, theta)
    scaled = jax.vmap(lambda c: jnp.ravel(tangent.outputs(problem, jax.tree.map(lambda leaf: c * leaf, theta))))
    return jnp.ravel(here.value), jnp.ravel(here.push_forward(theta)), scaled(factors)


# The manifold of interpolating parameters


@dataclasses.dataclass(frozen=True)
class Manifold:
    """The Hessian of a squared loss at a point, seen as one of M = {θ : f(θ) = y} (Boursier et al. 2025, Assumption 2).

    `eigenvalues` are those of 2c·JJᵀ, the largest first (c the factor of the loss): where the point interpolates,
    these and p − m zeros are all that ∇²g has, for m outputs and p parameters. `misfit` is ‖f − y‖/‖y‖.
    """

    eigenvalues: tuple[float, ...] = dataclasses.field(repr=False)
    parameters: int
    misfit: float
    zero: float

    @property
    def interpolates(self) -> bool:
        """Whether the point lies on M. Where it does not, the numbers are of JᵀJ and not of the Hessian."""
        return self.misfit <= 1e-6

    @property
    def rank(self) -> int:
        """How many eigenvalues count as non-zero: more than `zero` times the largest."""
        return sum(value > self.zero * self.eigenvalues[0] for value in self.eigenvalues)

    @property
    def dimension(self) -> int:
        """k = p − rank, the dimension of M where the rank does not change about the point."""
        return self.parameters - self.rank

    @property
    def gap(self) -> float:
        """η, the least non-zero eigenvalue: the Morse–Bott constant at this point (0 if there is none)."""
        return self.eigenvalues[self.rank - 1] if self.rank else 0.0


def hessian_rank(problem: Problem, params: PyTree[Array], zero: float = _ZERO) -> Manifold:
    """Rank and gap of the Hessian of a squared loss at an interpolating point, by the tangent kernel K = JJᵀ.

    There ∇²g = 2c·JᵀJ for g = c·‖f − y‖², whose non-zero eigenvalues are those of 2c·K: m x m instead of p x p. The
    second term of the Hessian, Σ 2c(fᵢ − yᵢ)∇²fᵢ, is left out: `interpolates` says whether that is right. `zero` is
    the share of the largest eigenvalue below which one counts as 0.
    """
    require(0 < zero < 1, f"zero is a share of the largest eigenvalue, between 0 and 1, got {zero}.")
    time_to_factorise(jax.eval_shape(lambda p: tangent.outputs(problem, p), params).size)
    here = _second_order(problem, params)
    with_noise = here.bend * np.linalg.eigvalsh(here.kernel)[::-1]
    return Manifold(
        eigenvalues=tuple(float(value) for value in np.maximum(with_noise, 0.0)),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(params)),
        misfit=misfit(problem, params),
        zero=zero,
    )


def misfit(problem: Problem, params: PyTree[Array]) -> float:
    """‖f − y‖/‖y‖."""
    wanted = tangent.targets(problem)
    missing = jnp.linalg.norm(jnp.ravel(tangent.outputs(problem, params) - wanted))
    return float(missing) / (float(jnp.linalg.norm(jnp.ravel(wanted))) or 1.0)


class _SecondOrder(NamedTuple):
    """K = JJᵀ, f − y, and the second derivative 2c of the loss c·(f − y)² with respect to an output."""

    kernel: np.ndarray
    misfit: np.ndarray
    bend: float


def _second_order(problem: Problem, params: PyTree[Array]) -> _SecondOrder:
    require(
        problem.task.loss.form == "squared",
        f"only a squared loss has interpolating points, and the task's is {type(problem.task.loss).__name__}.",
    )
    kernel, misfit, bend = _traced_second_order(problem, params)
    return _SecondOrder(np.asarray(kernel), np.asarray(misfit), float(bend))


@compiled
def _traced_second_order(problem: Problem, params: PyTree[Array]) -> tuple[Array, Array, Array]:
    outputs = tangent.outputs(problem, params)
    misfit = jnp.ravel(outputs - tangent.targets(problem))
    return tangent.kernel(problem, params), misfit, jnp.ravel(tangent.curvature(problem, outputs))[0]


# The condition of Chatterjee and Łojasiewicz


@dataclasses.dataclass(frozen=True)
class ChatterjeeLojasiewicz:
    """χ(g, x, r) = inf of ‖∇g‖²/g over the ball B(x, r) without zeros of g (Notsawo et al. 2025, (2)).

    `least` is the least ratio found, χ itself where `exact`: otherwise χ may be smaller. `loss` is g(x).
    """

    least: float
    exact: bool
    loss: float
    radius: float

    @property
    def holds(self) -> bool:
        """r-CL: 4g(x) < r²χ. If `least` is not exact, True says only that no point was found which refutes it."""
        return 4 * self.loss < self.radius**2 * self.least


def chatterjee_lojasiewicz(
    problem: Problem, params: PyTree[Array], radius: float, seed: int = 0, starts: int = 8
) -> ChatterjeeLojasiewicz:
    """χ(g, x, r) of the training loss about x = `params`.

    For a model that is linear in its parameters and g = c·‖f − y‖² it has a closed form if the ball reaches beyond the
    least-squares solution nearest to x. About a solution with g = 0 the residual e takes every direction in the range
    of J, ∇g = 2cJᵀe, and the infimum is 4c·σ², σ the least non-zero singular value of J; where the data cannot be
    fitted, ∇g = 0 at that solution and χ = 0. Otherwise the ratio is descended from `starts` random points of the
    ball, which gives an upper bound of the infimum and no more.

    ```python
    chatterjee_lojasiewicz(problem, params, radius=2.0).holds
    ```
    """
    require(radius > 0, f"the radius of the ball must be positive, got {radius}.")
    loss = float(problem.loss(params))
    exact = _chi_of_linear(problem, params, radius) if _quadratic(problem) else None
    if exact is not None:
        return ChatterjeeLojasiewicz(exact, True, loss, radius)
    return ChatterjeeLojasiewicz(_least_ratio(problem, params, radius, seed, starts), False, loss, radius)


def _quadratic(problem: Problem) -> bool:
    return problem.model.linear and problem.task.loss.form == "squared"


def _chi_of_linear(problem: Problem, params: PyTree[Array], radius: float) -> float | None:
    """χ in closed form, None if the ball does not reach the least-squares solutions."""
    here = _second_order(problem, params)
    values, directions = np.linalg.eigh(here.kernel)
    along = directions.T @ here.misfit
    reachable = values > _ZERO * values[-1]
    if np.sum(along[reachable] ** 2 / values[reachable]) >= radius**2:  # the squared way ‖J⁺e‖² to the nearest solution
        return None
    fits = np.linalg.norm(along[~reachable]) <= 1e-9 * np.linalg.norm(here.misfit)
    return 2 * here.bend * float(values[reachable][0]) if fits else 0.0


_TRIED, _DESCENT = 20, 200  # evaluations by which it is told how long it takes; what one descent takes at least, nearly


def _least_ratio(problem: Problem, params: PyTree[Array], radius: float, seed: int, starts: int) -> float:
    """The least ‖∇g‖²/g that quasi-Newton descents from random points of the ball come across."""
    from scipy.optimize import minimize

    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    floor = math.log(float(problem.loss(params))) + math.log(1e-16)  # residuals below 1e-8 are partly rounding
    best, evaluations, still = math.inf, 0, time_left()
    began = time.monotonic()

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, began, evaluations
        evaluations += 1
        if evaluations == 2:  # the first was compiled
            began = time.monotonic()
        ahead = evaluations == _TRIED
        still((time.monotonic() - began) / _TRIED * _DESCENT * starts if ahead else 0.0)
        (value, log_loss), slope = _log_ratio(problem, params, jnp.asarray(radius), jnp.asarray(z))
        if float(log_loss) > floor:
            best = min(best, math.exp(float(value)))
        return float(value), np.asarray(slope)

    rng = np.random.default_rng(seed)
    for share in rng.uniform(0.0, 1.0, starts):  # of the radius: of the volume, nearly all is at the surface
        direction = rng.standard_normal(size)
        start = direction / np.linalg.norm(direction) * share / math.sqrt(1 - share**2)
        minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return best


@compiled
def _log_ratio(
    problem: Problem, params: PyTree[Array], radius: Float[Array, ""], z: Float[Array, " p"]
) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], Float[Array, " p"]]:
    """log(‖∇g‖²/g) and log g at x + r·z/√(1 + ‖z‖²), a point of the open ball, and the slope of the first in z."""
    centre, tree = ravel_pytree(params)

    def log_ratio(z: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        g, slope = jax.value_and_grad(problem.loss)(tree(centre + radius * z / jnp.sqrt(1 + z @ z)))
        return 2 * jnp.log(norm(slope)) - jnp.log(g), jnp.log(g)

    return jax.value_and_grad(log_ratio, has_aux=True)(z)


# The steps that the theorem allows, and its clocks


@dataclasses.dataclass(frozen=True)
class StepSizes:
    """The constants of Notsawo et al. 2025, Thm C.10, for a loss that is quadratic in the parameters.

    `chi` is χ(g, x, r); `epsilon` and `gamma` are those of the proof; `L1` bounds |∂g| on B(x, r), `L2` the entries of
    ∇²g, and `L` is its largest eigenvalue. (The proof has √p·L2 for L, which is no bound: the matrix of ones has the
    eigenvalue p.) Steps α below `alpha_max` and penalties β below `beta_max` are what the theorem is about.
    """

    chi: float
    epsilon: float
    gamma: float
    L1: float
    L2: float
    L: float
    beta_max: float
    alpha_max: float

    def delta(self, alpha: float) -> float:
        """δ = (1 − ε)χα: g falls by the factor 1 − δ a step while ∇g leads (Lemma C.20)."""
        return min(1.0, (1 - self.epsilon) * self.chi * alpha)

    def exponent(self, alpha: float) -> float:
        """C of (9): the fit is guaranteed down to ε_g of order β^C."""
        return math.log1p(-self.delta(alpha)) / math.log1p(-(1 + self.gamma) * alpha * self.L)


def step_sizes(problem: Problem, params: PyTree[Array], radius: float, penalty_slope: float) -> StepSizes:
    """Which α and β Thm C.10 of Notsawo et al. 2025 allows from x = `params`, `penalty_slope` bounding every |∂h|.

    That is 1 for ‖x‖₁. With s² = 4g(x)/(r²χ) < 1 the proof needs 0 < γ < ε and (1 − ε)/(1 + γ) > s: ε = (1 − s)/2 and
    γ = ε/2 serve. (The choice of Lemma C.11 (2) has γ > ε.)
    """
    require(
        _quadratic(problem),
        f"the suprema over a ball are known for a squared loss and a model linear in its parameters, not for "
        f"{type(problem.model).__name__} with a loss {type(problem.task.loss).__name__}.",
    )
    require(penalty_slope > 0, f"penalty_slope bounds |∂h| from above, so it is positive, got {penalty_slope}.")
    condition = chatterjee_lojasiewicz(problem, params, radius)
    require(
        condition.holds,
        f"the loss is not r-CL here: 4g = {4 * condition.loss:.3g} is not below r²χ = "
        f"{radius**2 * condition.least:.3g}. Choose a larger radius.",
    )
    s = math.sqrt(4 * condition.loss / (radius**2 * condition.least))
    epsilon = (1 - s) / 2
    gamma = epsilon / 2
    G, _ = ravel_pytree(jax.grad(problem.loss)(params))
    hessian = np.asarray(_hessian(problem, params))
    # The slope of g at x + d is G + ∇²g·d, so that its i-th entry is at most |Gᵢ| + r·‖(∇²g)ᵢ‖ on the ball.
    L1 = float(np.max(np.abs(np.asarray(G)) + radius * np.linalg.norm(hessian, axis=1)))
    L2, L, p = float(np.abs(hessian).max()), float(np.linalg.eigvalsh(hessian)[-1]), G.size
    beta_max = gamma * float(jnp.linalg.norm(G)) / (math.sqrt(p) * penalty_slope)
    return StepSizes(
        chi=condition.least,
        epsilon=epsilon,
        gamma=gamma,
        L1=L1,
        L2=L2,
        L=L,
        beta_max=beta_max,
        alpha_max=min(  # (7)
            radius / ((L1 + beta_max * penalty_slope) * math.sqrt(p)),
            2 * (epsilon - gamma) / (L2 * p),
            1 / ((1 + gamma) * L),
        ),
    )


@compiled
def _hessian(problem: Problem, params: PyTree[Array]) -> Float[Array, "p p"]:
    """∇²g."""
    at, tree = ravel_pytree(params)
    slope = lambda w: ravel_pytree(jax.grad(problem.loss)(tree(w)))[0]  # noqa: E731
    return jax.jacrev(slope)(at)


def fit_steps(loss: float, goal: float, delta: float) -> float:
    """t(ε_g) = log(ε_g/g(x₀))/log(1 − δ): steps after which g ≤ ε_g (Notsawo et al. 2025, (8)).

    Of order log(1/ε_g)/α, since δ = (1 − ε)χα.
    """
    require(min(loss, goal) > 0, f"the loss and its goal must be positive, got {loss} and {goal}.")
    require(0 < delta <= 1, f"delta is the share of the loss that a step removes, in (0, 1], got {delta}.")
    if goal >= loss:
        return 0.0
    return 1.0 if delta == 1 else math.log(goal / loss) / math.log1p(-delta)


def slow_steps(distance: float, alpha: float, beta: float, eta: float) -> float:
    """Δt(η, t₁) = dist²(x(t₁), Θ_f)/(αβη), in steps: the second phase of Notsawo et al. 2025, Thm 2.1."""
    require(min(alpha, beta, eta) > 0, f"alpha, beta and eta must be positive, got {alpha}, {beta} and {eta}.")
    return distance**2 / (alpha * beta * eta)
