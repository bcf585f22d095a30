"""The end of a run, and ½‖w‖² on the manifold of interpolating parameters there."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers._paths import flat

if TYPE_CHECKING:
    from jaxtyping import Array, Float, PyTree

__all__ = ["EndPoint", "end_point"]

_RANK = 1e-3  # singular values of J below this share of the largest are those of a singular point


@dataclasses.dataclass(frozen=True)
class EndPoint:
    """The end of a run, and ½‖w‖² on the manifold M = {w : f(w) = y} at the nearest point of M.

    `unfinished` is ‖∇F + λw‖/‖λw‖ at the end itself, `distance` that to M over ‖w‖; `slope` is ‖P∇h‖/‖∇h‖,
    `curvature` the least eigenvalue of the Riemannian Hessian, and `rank` that of the Jacobian of the `outputs`.
    """

    unfinished: float
    distance: float
    slope: float
    curvature: float
    rank: int
    outputs: int


def end_point(run: af.Run) -> EndPoint:
    """Where a run ends, seen from the manifold."""
    import jax

    instance = af.theory.instance_of(run)
    with jax.enable_x64(True):
        at = functools.partial(_derivatives(), instance.problem, instance.initial)
        outputs = instance.problem.data.n
        end = w = flat(run)
        nu = np.zeros(np.size(instance.problem.data.targets))
        total = np.asarray(at(end, nu)[0])
        for _ in range(6):  # Gauss–Newton, from O(λ) away
            _, misfit, J, _ = map(np.asarray, at(w, nu))
            w = w - np.linalg.pinv(J, rcond=_RANK) @ misfit
        J = np.asarray(at(w, nu)[2])
        nu = np.linalg.pinv(J.T, rcond=_RANK) @ w
        hessian = np.asarray(at(w, nu)[3])
    _, sigma, Vt = np.linalg.svd(J)
    rank = int(np.sum(sigma > _RANK * sigma[0]))
    tangent = Vt[rank:].T  # an orthonormal basis of Ker J: P = tangent·tangentᵀ
    pull = run.spec["penalty"]["strength"] * np.linalg.norm(end)
    return EndPoint(
        unfinished=float(np.linalg.norm(total) / pull) if pull else 0.0,
        distance=float(np.linalg.norm(w - end) / np.linalg.norm(w)),
        slope=float(np.linalg.norm(tangent.T @ w) / np.linalg.norm(w)),
        curvature=float(np.linalg.eigvalsh(tangent.T @ hessian @ tangent)[0]),
        rank=rank,
        outputs=outputs,
    )


@functools.cache  # on first use, since the gallery is listed without JAX
def _derivatives() -> Callable[..., tuple[Array, Array, Array, Array]]:
    """A compiled function: ∇F + λw, f − y, the Jacobian of f, and the Hessian of ½‖w‖² − ⟨ν, f − y⟩."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    @eqx.filter_jit
    def derivatives(
        problem: af.dynamics.Problem, like: PyTree[Array], w: Float[Array, " p"], nu: Float[Array, " n"]
    ) -> tuple[Float[Array, " p"], Float[Array, " n"], Float[Array, "n p"], Float[Array, "p p"]]:
        """At w, laid out as `like`."""
        tree = ravel_pytree(like)[1]

        def misfit(w: Float[Array, " p"]) -> Float[Array, " n"]:
            return jnp.ravel(problem.model(tree(w), problem.data.inputs) - problem.data.targets)

        def lagrangian(w: Float[Array, " p"]) -> Float[Array, ""]:
            return 0.5 * w @ w - nu @ misfit(w)

        total = ravel_pytree(problem.gradient(tree(w)))[0]
        return total, misfit(w), jax.jacobian(misfit)(w), jax.hessian(lagrangian)(w)

    return derivatives
