"""The Hessian of a squared loss at interpolating parameters: its rank, its spectrum, and points to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers._paths import initial

if TYPE_CHECKING:
    from jaxtyping import Float, PyTree

__all__ = ["low_rank_factors", "manifold_at", "point_with_active", "root", "slow_spectrum", "whole_spectrum"]


def manifold_at(experiment: af.Experiment, params: PyTree[np.ndarray]) -> af.theory.Manifold:
    """Rank and gap of the Hessian of an experiment's loss at any parameters."""
    import jax

    with jax.enable_x64(True):
        problem = af.theory.posed(experiment).problem
        return af.theory.hessian_rank(problem, jax.tree.map(jax.numpy.asarray, params))


def whole_spectrum(run: af.Run, params: PyTree[np.ndarray]) -> Float[np.ndarray, " p"]:
    """|eigenvalues| of the whole Hessian of a run's training loss, the largest first."""
    import jax
    from jax.flatten_util import ravel_pytree

    problem = af.theory.instance_of(run).problem
    with jax.enable_x64(True):
        at, tree = ravel_pytree(params)
        hessian = np.asarray(jax.hessian(lambda w: problem.loss(tree(w)))(at))
    return np.sort(np.abs(np.linalg.eigvalsh(hessian)))[::-1]


def slow_spectrum(run: af.Run) -> Float[np.ndarray, "k n"]:
    """The eigenvalues of 2JJᵀ along a flow of u² − v² with weight decay λ, the largest first, one row a time.

    JJᵀ = X diag(4(u² + v²)) Xᵀ. A run records u² − v² = w, and u ⊙ v is known: the loss leaves it alone, and weight
    decay shrinks it like e^{−2λt}. So u² + v² = √(w² + 4(u ⊙ v)²).
    """
    X = run.data.inputs
    v, u = np.split(initial(run), 2)
    t, w = run.curves["time"].values[:, None], run.curves["weights"].values
    both = np.sqrt(w**2 + 4 * (u * v * np.exp(-2 * run.spec["penalty"]["strength"] * t)) ** 2)
    kernels = np.einsum("ni,ti,mi->tnm", X, 4 * both, X)
    return 2 * np.linalg.eigvalsh(kernels)[:, ::-1]


def point_with_active(run: af.Run, active: int) -> dict[str, np.ndarray]:
    """An interpolating (u, v) of the net u² − v² with so many active coordinates, the others uᵢ = vᵢ = 0.

    The truth fits; its support is active, and further coordinates with uᵢ = vᵢ = 1 do not change the outputs.
    """
    truth = run.data.truth
    plus, minus = np.sqrt(np.maximum(truth, 0)), np.sqrt(np.maximum(-truth, 0))
    others = np.flatnonzero(truth == 0)[: active - np.count_nonzero(truth)]
    plus[others] = minus[others] = 1.0
    return {"plus": plus, "minus": minus}


def low_rank_factors(run: af.Run) -> dict[str, np.ndarray]:
    """Factors U, V of the truth itself, with no more non-zero columns than its rank."""
    left, sigma, right = np.linalg.svd(run.data.truth)
    rank = run.spec["task"]["rank"]
    factors = {name: np.zeros_like(run.params[name]) for name in ("U", "V")}
    factors["U"][:, :rank] = left[:, :rank] * np.sqrt(sigma[:rank])
    factors["V"][:, :rank] = right[:rank].T * np.sqrt(sigma[:rank])
    return factors


def root(M: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The symmetric W with WWᵀ = M, for a positive semi-definite M."""
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.where(values > 1e-12 * values[-1], values, 0))) @ vectors.T
