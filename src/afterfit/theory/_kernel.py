"""The kernel regime: what a model does that only moves along its tangent features at initialisation.

Predictors are returned as parameters of the linearised model (`models.Tangent`, anchored where the run starts), so
that they predict, and are scored, as any other model.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from afterfit._base import jacobians
from afterfit._base.errors import Unanswered
from afterfit._base.jacobians import Linearisation
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem
from afterfit.models import Model, Tangent
from afterfit.theory._instance import Instance
from afterfit.theory._programs import max_margin
from afterfit.theory.obstacles import not_factorised

__all__ = [
    "KernelPredictor",
    "has_last_layer",
    "kernel_predictor",
    "last_layer_predictor",
    "margin_features",
    "margins",
]


@dataclasses.dataclass(frozen=True)
class KernelPredictor:
    """A linear predictor on tangent features: `model` (the linearised one) at the parameters `params`.

    `norm` is ‖h*‖ of its displacement h* from the start. For classification it has margin 1 on every support vector,
    so that γ_ntk = 1/norm; None for regression.
    """

    model: Model = dataclasses.field(repr=False)
    params: PyTree[Array] = dataclasses.field(repr=False)
    norm: float
    margin: float | None = None


def margins(problem: Problem, outputs: Array) -> Float[Array, " m"]:
    """What a classifier must make positive: yᵢf(xᵢ), or with several classes the target's output less every other."""
    targets = tangent.targets(problem)
    if outputs.ndim == 1:
        return targets * outputs
    chosen = jnp.take_along_axis(outputs, targets[:, None], axis=1)
    c = outputs.shape[1]
    others = (targets[:, None] + jnp.arange(1, c)) % c
    return (chosen - jnp.take_along_axis(outputs, others, axis=1)).ravel()


def margin_features(problem: Problem, params: PyTree[Array]) -> Linearisation:
    """The margins at `params` and products with their Jacobian."""
    return jacobians.linearise(lambda p: margins(problem, tangent.outputs(problem, p)), params)


def kernel_predictor(instance: Instance) -> KernelPredictor:
    """The limit of training along the tangent features at initialisation.

    Squared loss: argmin ‖h‖ subject to f(θ₀; xᵢ) + ⟨∇f(θ₀; xᵢ), h⟩ = yᵢ, interpolation by the tangent kernel
    (Lyu et al. 2023, K2, where f(θ₀; ·) = 0). Others: argmin ‖h‖ subject to margins ≥ 1 (K1), in its direction: far
    enough from the start that f(θ₀; ·) does not count.
    """
    return _on_features(instance, instance.initial, None)


def last_layer_predictor(instance: Instance) -> KernelPredictor:
    """The same when only the last layer is trained, from 0 (Woodworth et al. 2020, Fig. 6c)."""
    model = instance.experiment.model
    ones = jax.tree.map(lambda leaf: np.ones(leaf.shape), instance.initial)
    layer = jax.tree.map(lambda leaf: jnp.asarray(1.0 - leaf), model.zero_last_layer(ones))
    start = jax.tree.map(lambda leaf, last: leaf * (1 - last), instance.initial, layer)
    return _on_features(instance, start, layer)


def _on_features(instance: Instance, start: PyTree[Array], trained: PyTree[Array] | None) -> KernelPredictor:
    """The predictor on tangent features at `start`, those of the parameters that are `trained` (0 or 1 each)."""
    problem = instance.problem
    at = tangent.linearise(problem, start) if instance.regression else margin_features(problem, start)
    too_large = not_factorised(at.value.size)
    if too_large is not None:
        raise Unanswered(too_large)
    at = at if trained is None else _restricted(at, trained)
    K = instance.kernel if instance.regression and trained is None else np.asarray(tangent.gram(at))
    if instance.regression:
        missing = (np.asarray(tangent.targets(problem)) - np.asarray(at.value)).ravel()
        coefficients, scale, margin = np.linalg.lstsq(K, missing, rcond=1e-13)[0], 1.0, None
    else:
        coefficients = max_margin(K)
        # The direction is what counts: far enough out that the outputs at the start are nothing beside it.
        margin = float(1 / np.sqrt(coefficients @ K @ coefficients))
        scale = 1e6 * max(1.0, float(jnp.max(jnp.abs(at.value))))
    h = at.pull_back(jnp.asarray(coefficients, at.value.dtype).reshape(at.value.shape))
    params = jax.tree.map(lambda leaf, along: leaf + scale * along, start, h)
    size = float(np.sqrt(coefficients @ K @ coefficients))
    anchored = Tangent(model=instance.model).anchored(start)
    return KernelPredictor(anchored, params, size, margin)


def _restricted(at: Linearisation, trained: PyTree[Array]) -> Linearisation:
    def pull_back(r: Array) -> PyTree[Array]:
        return jax.tree.map(jnp.multiply, at.pull_back(r), trained)

    return Linearisation(at.value, at.push_forward, pull_back)


def has_last_layer(model: Model) -> bool:
    """Whether a model says which of its parameters are its last layer."""
    return type(model).zero_last_layer is not Model.zero_last_layer
