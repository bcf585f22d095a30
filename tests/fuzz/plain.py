"""Training as a plain loop, every formula written out once more: the second way of a run.

Only gradients are JAX's, of the functions below; flows are SciPy's integrator on them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from afterfit import Experiment

__all__ = ["train"]

Vector = np.ndarray  # all parameters, one after the other


def train(experiment: Experiment, data: Any, start: Any) -> Vector | None:
    """The parameters at the end, as one vector; None for an experiment that this module does not know."""
    task, dynamics = experiment.task, type(experiment.dynamics).__name__
    loss = _LOSSES.get(type(task.loss).__name__)
    model, rule = _MODELS.get(type(experiment.model).__name__), _RULES.get(dynamics)
    known = {"NoPenalty", "L2"} if dynamics == "GradientFlow" else {"NoPenalty", "L1", "L2"}  # SciPy follows no kinks
    if not (loss and model and rule) or not _kinds(experiment.penalty) <= known or task.precision != "double":
        return None
    n, inputs, targets = data.n, data.inputs, jnp.asarray(data.targets)
    factor = {"sum": 1.0, "half_sum": 0.5, "mean": 1 / n, "half_mean": 0.5 / n}[task.loss.reduction]
    first, rebuild = ravel_pytree(jax.tree.map(jnp.asarray, start))

    @jax.jit
    def gradient(vector: Any) -> Any:
        return jax.grad(lambda v: factor * jnp.sum(loss(_outputs(experiment, model, rebuild(v), inputs), targets)))(
            vector
        )

    def slope(vector: Vector) -> Vector:
        return np.asarray(gradient(vector))

    return rule(experiment, slope, np.asarray(first))


# ---------------------------------------------------------------------------------------- models and losses


def _mlp(model: Any, params: Any, x: Any) -> Any:
    *hidden, last = params["layers"]
    for layer in hidden:
        z = x @ layer["weight"].T + layer.get("bias", 0.0)
        x = jnp.where(z > 0, z, 0.0)  # whose slope at 0 is 0; that of jnp.maximum is a half
    return x @ last["weight"].T + last.get("bias", 0.0)


_WEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "Linear": lambda model, p: p["weights"],
    "DiagonalNet": lambda model, p: p["plus"] ** model.depth - p["minus"] ** model.depth,
    "DiagonalProduct": lambda model, p: functools.reduce(jnp.multiply, p["factors"]),
    "MatrixFactorisation": lambda model, p: p["U"] @ p["V"].T,
    "SymmetricFactorisation": lambda model, p: p["U"] @ p["U"].T - p["V"] @ p["V"].T,
    "DeepMatrixFactorisation": lambda model, p: functools.reduce(jnp.matmul, p["factors"]),
}
_MODELS: dict[str, Any] = {**_WEIGHTS, "MLP": _mlp}
_LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "Squared": lambda f, y: (f - y) ** 2,
    "Logistic": lambda f, y: jnp.log1p(jnp.exp(-y * f)),
    "Exponential": lambda f, y: jnp.exp(-y * f),
    "CrossEntropy": lambda f, y: (
        -jnp.log(jnp.exp(f) / jnp.sum(jnp.exp(f), axis=1, keepdims=True))[jnp.arange(len(y)), y]
    ),
}


def _outputs(experiment: Experiment, model: Any, params: Any, inputs: Any) -> Any:
    """What the model gives, for inputs that are vectors, matrices, observed entries or pairs of symbols."""
    if type(inputs).__name__ == "OneHot":
        inputs = jnp.concatenate([jnp.eye(inputs.size)[inputs.tokens[:, k]] for k in range(2)], axis=1)
    if model is _mlp:
        return _mlp(experiment.model, params, jnp.asarray(inputs))
    weights = model(experiment.model, params)
    if type(inputs).__name__ == "Entries":
        return inputs.mask * weights
    return jnp.einsum("nij,ij->n" if weights.ndim == 2 else "ni,i->n", jnp.asarray(inputs), weights)


# -------------------------------------------------------------------------------------------------- penalties


def _kinds(penalty: Any) -> set[str]:
    parts = getattr(penalty, "penalties", None)
    return {type(penalty).__name__} if parts is None else set().union(*map(_kinds, parts))


def _strength(penalty: Any, kind: str) -> float:
    """How much of L1, or of L2, there is in a penalty."""
    if type(penalty).__name__ == "Sum":
        return penalty.strength * sum(_strength(part, kind) for part in penalty.penalties)
    return penalty.strength if type(penalty).__name__ == kind else 0.0


def _pull(penalty: Any, p: Vector) -> Vector:
    return _strength(penalty, "L1") * np.sign(p) + _strength(penalty, "L2") * p


# ------------------------------------------------------------------------------------------------------ rules


def _gradient_descent(e: Any, slope: Callable[[Vector], Vector], p: Vector) -> Vector:
    for _ in range(e.dynamics.steps):
        p = p - e.dynamics.lr * (slope(p) + _pull(e.penalty, p))
    return p


def _proximal(e: Any, slope: Callable[[Vector], Vector], p: Vector) -> Vector:
    """argmin over z of ½‖z − p‖² + lr·(a|z| + ½b z²), p after a step down the loss."""
    lr, a, b = e.dynamics.lr, _strength(e.penalty, "L1"), _strength(e.penalty, "L2")
    for _ in range(e.dynamics.steps):
        z = p - lr * slope(p)
        p = np.sign(z) * np.maximum(np.abs(z) - lr * a, 0) / (1 + lr * b)
    return p


def _adam(e: Any, slope: Callable[[Vector], Vector], p: Vector) -> Vector:
    d, decay = e.dynamics, getattr(e.dynamics, "weight_decay", 0.0)
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t in range(1, d.steps + 1):
        g = slope(p) + _pull(e.penalty, p)
        m, v = d.b1 * m + (1 - d.b1) * g, d.b2 * v + (1 - d.b2) * g**2
        p = p - d.lr * (m / (1 - d.b1**t) / (np.sqrt(v / (1 - d.b2**t)) + d.eps) + decay * p)
    return p


def _flow(e: Any, slope: Callable[[Vector], Vector], p: Vector) -> Vector | None:
    from scipy.integrate import solve_ivp

    if not isinstance(e.dynamics.until, float) or e.dynamics.until > 50:
        return None
    solved = solve_ivp(
        lambda t, z: -(slope(z) + _pull(e.penalty, z)), (0, e.dynamics.until), p, "DOP853", rtol=1e-9, atol=1e-11
    )
    return solved.y[:, -1] if solved.success else None


_RULES = {
    "GradientDescent": _gradient_descent,
    "ProximalGradient": _proximal,
    "Adam": _adam,
    "AdamW": _adam,
    "GradientFlow": _flow,
}
