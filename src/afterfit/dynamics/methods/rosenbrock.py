"""A Rosenbrock–W method as a Diffrax solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

__all__ = ["RosenbrockW"]

# ROS34PW2 of Rang and Angermann (2005, BIT 45): four stages, third order with any matrix in place of the Jacobian, and
# L-stable with the right one; the weights of the embedded second-order solution give the error.
_ALPHA = np.array(
    [
        [0, 0, 0, 0],
        [0.87173304301691801, 0, 0, 0],
        [0.84457060015369423, -0.11299064236484185, 0, 0],
        [0, 0, 1, 0],
    ]
)
_GAMMA = np.array(
    [
        [0.43586652150845900, 0, 0, 0],
        [-0.87173304301691801, 0.43586652150845900, 0, 0],
        [-0.90338057013044082, 0.054180672388095326, 0.43586652150845900, 0],
        [0.24212380706095346, -1.2232505839045147, 0.54526025533510214, 0.43586652150845900],
    ]
)
_WEIGHTS = np.array([0.24212380706095346, -1.2232505839045147, 1.5452602553351020, 0.43586652150845900])
_EMBEDDED = np.array([0.37810903145819369, -0.096042292212423178, 0.5, 0.21793326075422950])

# In the variables U = Γk no product with the Jacobian is needed, only solves (Hairer and Wanner 1996, IV.7).
_INVERSE = np.linalg.inv(_GAMMA)
_A, _C, _M = _ALPHA @ _INVERSE, np.diag(1 / np.diag(_GAMMA)) - _INVERSE, _WEIGHTS @ _INVERSE
_ERROR = _M - _EMBEDDED @ _INVERSE
_STAGE_TIMES, _DRIFTS = _ALPHA.sum(axis=1), _GAMMA.sum(axis=1)


class RosenbrockW(diffrax.AbstractAdaptiveSolver):
    """Linearly implicit Runge–Kutta: every stage solves with I − γhA, A a matrix near the Jacobian of the field.

    `inverse(t, y, args, gh)` gives the map b ↦ (I − gh·A)⁻¹b. The order is 3 whatever A is; stiff directions of the
    field have to be in it.
    """

    inverse: Callable[..., Callable[[PyTree], PyTree]] = eqx.field(static=True)

    term_structure: ClassVar = diffrax.ODETerm
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 3

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return ()

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> tuple[Any, Any, dict[str, Any], Any, Any]:
        h = t1 - t0
        gh = _GAMMA[0, 0] * h
        solve = self.inverse(t0, y0, args, gh)
        # How the field changes by itself: without it a stiff field that moves is followed in short steps.
        _, drift = jax.jvp(lambda t: terms.vf(t, y0, args), (t0,), (jnp.ones_like(t0),))
        stages: list[PyTree] = []
        for i in range(4):
            y = _combine(y0, _A[i], stages)
            f = terms.vf(t0 + _STAGE_TIMES[i] * h, y, args)
            right = _combine(_combine(f, _C[i] / h, stages), [_DRIFTS[i] * h], [drift])
            stages.append(solve(jax.tree.map(lambda r: gh * r, right)))
        y1 = _combine(y0, _M, stages)
        error = _combine(jax.tree.map(jnp.zeros_like, y0), _ERROR, stages)
        return y1, error, {"y0": y0, "y1": y1}, solver_state, diffrax.RESULTS.successful


def _combine(start: PyTree, weights: Any, stages: list[PyTree]) -> PyTree:
    """start + Σ weightᵢ·stageᵢ over the stages made so far."""
    for weight, stage in zip(weights, stages, strict=False):
        start = jax.tree.map(lambda s, k: s + jnp.asarray(weight, s.dtype) * k, start, stage)
    return start
