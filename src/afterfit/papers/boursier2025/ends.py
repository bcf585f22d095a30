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
    """A point w of a run, and ½‖w‖² on the manifold M = {w : f(w) = y} at the point of M `nearest` to it.

    `unfinished` is ‖∇F + λw‖/‖λw‖ at w itself, `pulls` are −2(f − y)/λ there: for F = ‖f − y‖², w = Jᵀ·pulls where
    ∇F + λw = 0. On M, `J` is the Jacobian of the outputs, `slope` is ‖P∇h‖/‖∇h‖ for h = ½‖w‖² and `curvature` the least
    eigenvalue of its Riemannian Hessian.
    """

    w: np.ndarray
    nearest: np.ndarray
    unfinished: float
    pulls: np.ndarray
    J: np.ndarray
    tangent: np.ndarray  # an orthonormal basis of Ker J: P = tangent·tangentᵀ
    curvature: float

    @property
    def distance(self) -> float:
        """That to M, over ‖w‖."""
        return float(np.linalg.norm(self.w - self.nearest) / np.linalg.norm(self.nearest))

    @property
    def slope(self) -> float:
        return float(np.linalg.norm(self.tangent.T @ self.nearest) / np.linalg.norm(self.nearest))

    @property
    def outputs(self) -> int:
        return len(self.J)

    @property
    def rank(self) -> int:
        """That of J."""
        return self.J.shape[1] - self.tangent.shape[1]

    @property
    def strict(self) -> bool:
        """Whether it is at rest at a regular point of M where ½‖w‖² has a strict minimum."""
        return self.slope <= 1e-6 and self.rank == self.outputs and self.curvature > 0


def end_point(run: af.Run, params: PyTree[np.ndarray] | None = None) -> EndPoint:
    """Where a run ends, or some parameters that it kept, seen from the manifold."""
    import jax

    instance = af.theory.instance_of(run)
    decay = run.spec["penalty"]["strength"]
    with jax.enable_x64(True):
        at = functools.partial(_derivatives(), instance.problem, instance.initial)
        end = w = flat(run) if params is None else np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
        nu = np.zeros(np.size(instance.problem.data.targets))
        total, first, _, _ = map(np.asarray, at(end, nu))
        for _ in range(6):  # Gauss–Newton, from O(λ) away
            _, misfit, J, _ = map(np.asarray, at(w, nu))
            w = w - np.linalg.pinv(J, rcond=_RANK) @ misfit
        J = np.asarray(at(w, nu)[2])
        nu = np.linalg.pinv(J.T, rcond=_RANK) @ w
        hessian = np.asarray(at(w, nu)[3])
    _, sigma, Vt = np.linalg.svd(J)
    tangent = Vt[int(np.sum(sigma > _RANK * sigma[0])) :].T
    return EndPoint(
        w=end,
        nearest=w,
        unfinished=float(np.linalg.norm(total) / (decay * np.linalg.norm(end))) if decay else 0.0,
        pulls=-2 * first / decay if decay else np.zeros_like(first),
        J=J,
        tangent=tangent,
        curvature=float(np.linalg.eigvalsh(tangent.T @ hessian @ tangent)[0]),
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
